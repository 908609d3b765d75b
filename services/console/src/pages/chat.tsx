import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";

import { Composer } from "../chat/composer";
import { Conversation } from "../chat/conversation";
import { InterruptForm } from "../chat/interrupt_form";
import { Items, UserView } from "../chat/items";
import type { Patch, Run } from "../chat/transcript";
import { fetchJson, type Json } from "../gateway";
import { JsonTree } from "../json_tree";
import { useLoaded } from "../loaded";
import { linkTo, route } from "../route";
import { session } from "../session";
import { useStore } from "../store";

/** A conversation with an agent; the address has the agent and the thread. */
export function ChatPage({ agent, thread }: { agent: string; thread: string }) {
  const { value, error } = useLoaded("agents", (signal) => fetchJson("v1/agents", { signal }));
  const agents: Json[] = value?.["agents"] ?? [];
  useEffect(() => {
    // The address may have an agent and a thread already that are not rendered yet.
    const [page, wanted, begun] = route.place.parts;
    if (page !== "chat" || begun) return;
    const chosen = wanted || (agents.find((one) => one["default"]) ?? agents[0])?.["id"];
    if (chosen) route.replace(route.place.parts, newThread(chosen));
  }, [agent, thread, value]);
  if (!(agent && thread)) return <section class="page">{error && <p class="error" role="alert">{error}</p>}</section>;
  return <Thread key={`${agent}/${thread}`} agent={agent} thread={thread} agents={agents} />;
}

function newThread(agent: string): string {
  return linkTo(["chat", agent, crypto.randomUUID()]);
}

function Thread({ agent, thread, agents }: { agent: string; thread: string; agents: Json[] }) {
  const { token } = useStore(session);
  const conversation = useMemo(() => new Conversation(agent, thread), [agent, thread, token]);
  // At once: effects come later, and not at all if the page is left before.
  useLayoutEffect(() => () => conversation.close(), [conversation]);
  const { transcript, error, isLoading, isRunning } = useStore(conversation);
  const names = agents.map((one) => one["id"] as string);
  const running = transcript.runs.filter((run) => run.state === "running");
  return (
    <section class="chat" aria-label={`Chat with ${agent}`}>
      <header class="chat-head">
        <h1 class="unseen">Chat with {agent}</h1>
        <select
          aria-label="Agent"
          value={agent}
          onChange={(event) => route.go(newThread(event.currentTarget.value))}
        >
          {(names.includes(agent) ? names : [agent, ...names]).map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        <span class="soft wide">{agents.find((one) => one["id"] === agent)?.["description"]}</span>
        <span class="grow" />
        {running.length > 0 && (
          <button type="button" class="plain" onClick={() => running.forEach((run) => void conversation.stop(run))}>
            Stop
          </button>
        )}
        <a class="button plain" href={newThread(agent)}>
          New chat
        </a>
      </header>
      <div class="chat-body">
        <div class="talk">
          <Scroll isEmpty={transcript.runs.length === 0}>
            {error && <p class="error" role="alert">{error}</p>}
            {!isLoading && !error && transcript.runs.length === 0 && (
              <p class="hint empty">Say something to {agent}. You can reload this page at any time.</p>
            )}
            {transcript.runs.map((run) => (
              <RunView key={run.id} run={run} agent={agent} conversation={conversation} />
            ))}
            {transcript.open.length > 0 && (
              <InterruptForm
                key={transcript.runs.at(-1)!.id}
                interrupts={transcript.open}
                asked={lastText(transcript.runs.at(-1)!)}
                onAnswer={(answers) => conversation.answer(answers)}
              />
            )}
          </Scroll>
          <Composer isRunning={isRunning} onSend={(content) => void conversation.send(content)} />
        </div>
        <StatePanel state={transcript.state} patches={transcript.patches} />
      </div>
    </section>
  );
}

/** The question is usually the agent's last words, which need not be said twice. */
function lastText(run: Run): string {
  const last = run.items.at(-1);
  return last?.kind === "text" ? last.text.trim() : "";
}

function RunView({ run, agent, conversation }: { run: Run; agent: string; conversation: Conversation }) {
  return (
    <article class="run" data-state={run.state}>
      {run.user.map((message) => (
        <UserView key={message.id} message={message} />
      ))}
      <div class="answer">
        <Items items={run.items} />
        {run.task && run.state !== "running" && (
          <a class="task-link" href={linkTo(["tasks", agent, run.task])}>
            Task<span class="unseen"> {run.task}</span>
          </a>
        )}
        {run.state === "running" && (
          <p class="working">
            <span class="busy-mark" aria-hidden="true" /> at work
          </p>
        )}
        {run.state === "cancelled" && <p class="notice">Stopped.</p>}
        {run.pending.length > 0 && (
          <p class="notice">The agent waits for results of tools that the console does not have.</p>
        )}
        {run.state === "failed" && (
          <p class="error" role="alert">
            {run.error}{" "}
            <button type="button" class="plain small" onClick={() => conversation.attach(run)}>
              Follow again
            </button>
          </p>
        )}
      </div>
    </article>
  );
}

const NEAR = 60;

/** Scrolls with what is added, unless the user has scrolled up. */
function Scroll({ children, isEmpty }: { children: preact.ComponentChildren; isEmpty: boolean }) {
  const place = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  useLayoutEffect(() => {
    const element = place.current!;
    const observer = new ResizeObserver(() => {
      if (follows.current) element.scrollTop = element.scrollHeight;
    });
    observer.observe(element);
    observer.observe(element.firstElementChild!);
    return () => observer.disconnect();
  }, []);
  return (
    <div
      class={isEmpty ? "scroll is-empty" : "scroll"}
      ref={place}
      role="log"
      aria-label="Messages"
      tabIndex={0}
      onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
        follows.current = scrollHeight - scrollTop - clientHeight < NEAR;
      }}
    >
      <div class="column">{children}</div>
    </div>
  );
}

function StatePanel({ state, patches }: { state: unknown; patches: Patch[] }) {
  const isEmpty = patches.length === 0 && (!state || Object.keys(state).length === 0);
  if (isEmpty) return null;
  return (
    <aside class="state" aria-label="Shared state" tabIndex={0}>
      <h2>State</h2>
      <JsonTree value={state} isOpen />
      {patches.length > 0 && <h2>Changes</h2>}
      <ol class="patches">
        {patches.slice(-50).reverse().map((patch, at) => (
          <li key={patches.length - at}>
            {patch.operations.map((operation, index) => (
              <div key={index} class="mono">
                <span class={`op ${operation["op"]}`}>{operation["op"]}</span> {operation["path"] || "/"}{" "}
                <span class="soft">{operation["value"] === undefined ? operation["from"] : JSON.stringify(operation["value"])}</span>
              </div>
            ))}
          </li>
        ))}
      </ol>
    </aside>
  );
}
