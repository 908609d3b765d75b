import type { Field } from "../declarations/fields";
import { EditedDeclaration, NewDeclaration, OneDeclaration, type Kind } from "../declarations/pages";
import { useRefreshed } from "../declarations/refreshed";
import { DeclaredState } from "../declarations/state";
import { fetchJson, type Json } from "../gateway";
import { useAccess } from "../operator";
import { linkTo } from "../route";
import { Table } from "../table";

const FIELDS: readonly Field[] = [
  { name: "agent", label: "Agent", kind: "text", isRequired: true },
  { name: "subject", label: "Subject", kind: "text", isRequired: true, hint: "NATS subject of the events, such as orders.created; * and > may follow its first token" },
  { name: "stream", label: "Stream", kind: "text", hint: "The JetStream stream that stores the events. Without it they come at most once" },
  { name: "text", label: "Text of the message", kind: "area", hint: "Template, such as: Check order {body.id}" },
  { name: "data", label: "Data of the message", kind: "json", hint: 'Paths by member, such as {"lines": "body.lines"}' },
  { name: "filter", label: "Filter", kind: "json", hint: 'Conditions by path, such as {"body.total": {"min": 100}}' },
  { name: "answers", label: "Answers", kind: "json", hint: 'What is published of the tasks, such as {"subject": "orders.checked", "stream": "ORDERS"}' },
  { name: "context", label: "Context of the tasks", kind: "text", hint: "Template; by default each task has its own" },
  { name: "priority", label: "Priority", kind: "choice", options: ["high", "normal", "low"] },
  { name: "limit", label: "Events in progress at a time", kind: "number", hint: "64 by default" },
];

const TRIGGER: Kind = {
  word: "trigger",
  plural: "triggers",
  fields: FIELDS,
  actions: [
    { name: "pause", verb: "Pause", says: "Events wait in their stream until it is resumed.", isOffered: ({ stream, paused }) => stream && !paused },
    { name: "resume", verb: "Resume", says: "Each waiting event begins its task.", isOffered: ({ paused }) => paused },
  ],
  afterDeletion: "Tasks that it began continue; waiting events begin none.",
  figuresOf: (one) => ({
    state: <DeclaredState state={stateOf(one)} />,
    subject: one["subject"],
    "events waiting": one["waiting"] ?? "–",
    "receives events since": new Date(one["since"]).toLocaleString(),
  }),
  keptOf: ({ paused }) => ({ paused }),
};

/** Triggers: all of them, or one with its firings; the address says which. */
export function TriggersPage({ name, query }: { name: string; query: URLSearchParams }) {
  return <section class="page">{viewOf(name, query)}</section>;
}

function viewOf(name: string, query: URLSearchParams) {
  const owner = query.get("owner") ?? "";
  if (query.has("new")) return <NewDeclaration kind={TRIGGER} />;
  if (!name) return <TriggerList />;
  if (query.has("edit")) return <EditedDeclaration kind={TRIGGER} name={name} owner={owner} />;
  return <OneTrigger name={name} owner={owner} />;
}

function TriggerList() {
  const { value, error } = useRefreshed("triggers", (signal) => fetchJson("v1/triggers", { signal }));
  return (
    <>
      <h1>Triggers</h1>
      {error && <p class="error" role="alert">{error}</p>}
      {value && (
        <Table title="Tasks that begin with events" heads={["Trigger", "State", "Subject", "Agent", "Owner"]} empty="No trigger yet.">
          {value["triggers"].map((one: Json) => (
            <tr key={`${one["owner"]}/${one["name"]}`}>
              <th scope="row"><a href={linkTo(["triggers", one["name"]], { owner: one["owner"] })}>{one["name"]}</a></th>
              <td><DeclaredState state={stateOf(one)} /></td>
              <td class="mono">{one["subject"]}</td>
              <td>{one["agent"]}</td>
              <td class="soft">{one["owner"]}</td>
            </tr>
          ))}
        </Table>
      )}
      <div class="actions">
        <a class="button" href={linkTo(["triggers"], { new: "1" })}>New trigger</a>
      </div>
    </>
  );
}

function OneTrigger({ name, owner }: { name: string; owner: string }) {
  const { isOperator } = useAccess();
  const links = ({ agent }: Json) =>
    isOperator && <a class="button plain" href={linkTo(["operate"], { kind: "event", agent })}>Dead letters</a>;
  return <OneDeclaration kind={TRIGGER} name={name} owner={owner} links={links} />;
}

function stateOf(one: Json): string {
  return one["paused"] ? "paused" : "active";
}
