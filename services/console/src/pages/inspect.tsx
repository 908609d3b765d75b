import { useState } from "preact/hooks";

import { useAgents } from "../agents";
import { Choice } from "../choice";
import { fetchJson, urlOf, type Json } from "../gateway";
import { problemsOf } from "../inspect/card_problems";
import { Exchange } from "../inspect/exchange";
import { OPERATIONS, requestsOf, type Operation } from "../inspect/requests";
import { JsonTree } from "../json_tree";
import { useLoaded } from "../loaded";
import { linkTo, route } from "../route";
import { PageHead } from "../shell/page_head";

/** An agent's card with what is wrong in it, and the same request in every binding. */
export function InspectPage({ query }: { query: URLSearchParams }) {
  const { value, error } = useAgents();
  const agents = value ?? [];
  const asked = Object.fromEntries(query);
  const agent = asked["agent"] ?? agents[0]?.["id"] ?? "";
  const operation = OPERATIONS.find((one) => one === asked["operation"]) ?? "SendMessage";
  const set = (changes: Record<string, string>) => route.replace(["inspect"], linkTo(["inspect"], { ...asked, agent, ...changes }));
  return (
    <section class="page">
      <PageHead title="Inspect" />
      {error && <p class="error" role="alert">{error}</p>}
      <div class="filters">
        <Choice label="Agent" options={agents.map((one) => one["id"])} chosen={agent} onChoose={(id) => set({ agent: id })} />
        <Choice label="Operation" options={OPERATIONS} chosen={operation} onChoose={(name) => set({ operation: name })} />
        {operation === "GetTask" && (
          <label>
            Task
            <input name="task" value={asked["task"] ?? ""} onChange={({ currentTarget }) => set({ task: currentTarget.value.trim() })} />
          </label>
        )}
      </div>
      {agent && <Inspected key={`${agent} ${operation}`} agent={agent} operation={operation} task={asked["task"] ?? ""} />}
    </section>
  );
}

interface Asked {
  agent: string;
  operation: Operation;
  task: string;
}

function Inspected(asked: Asked) {
  const path = `v1/agents/${encodeURIComponent(asked.agent)}/.well-known/agent-card.json`;
  const { value, error } = useLoaded(path, (signal) => fetchJson(path, { signal }));
  return (
    <>
      {error && <p class="error" role="alert">{error}</p>}
      {value && <Card value={value} url={urlOf(path)} />}
      <Requests {...asked} grpc={grpcOf(value)} />
    </>
  );
}

/** Returns the gRPC address that a card names, without a scheme; empty: none. */
function grpcOf(card: Json | null): string {
  const interfaces: Json[] = card?.["supportedInterfaces"] ?? [];
  const found = interfaces.find((one) => one["protocolBinding"] === "GRPC" && one["protocolVersion"] === "1.0");
  return String(found?.["url"] ?? "").replace(/^\w+:\/\//, "");
}

function Card({ value, url }: { value: Json; url: string }) {
  const problems = problemsOf(value, url);
  return (
    <section class="part" aria-label="Card">
      <h2>Card</h2>
      {!problems.some(({ isError }) => isError) && <p class="hint">The card has all fields that A2A 1.0 requires.</p>}
      <ul class="problems">
        {problems.map(({ where, what, isError }) => (
          <li key={where + what}>
            <span class={`dot ${isError ? "bad" : "warn"}`} aria-hidden="true" />
            <span class="soft">{isError ? "error" : "warning"}</span> <span class="mono">{where}</span> {what}
          </li>
        ))}
      </ul>
      <JsonTree value={value} />
    </section>
  );
}

/** The operation in each binding. Ids are new for each visit, so that messages differ. */
function Requests({ agent, operation, task, grpc }: Asked & { grpc: string }) {
  const [ids] = useState(() => ({ message: crypto.randomUUID(), thread: crypto.randomUUID() }));
  const [text, setText] = useState("Hello");
  const [round, setRound] = useState(0);
  const isMessage = operation.startsWith("Send");
  const requests = requestsOf(operation, { agent, text, task, ...ids });
  return (
    <>
      <div class="actions">
        {isMessage && (
          <label class="grow">
            Message
            <input name="text" value={text} onInput={({ currentTarget }) => setText(currentTarget.value)} />
          </label>
        )}
        <button type="button" onClick={() => setRound(round + 1)}>
          Send in every binding
        </button>
      </div>
      {requests.filter(({ transport }) => transport !== "grpc" || grpc).map((request) => (
        <Exchange key={request.binding} request={request} grpc={grpc} round={round} />
      ))}
    </>
  );
}
