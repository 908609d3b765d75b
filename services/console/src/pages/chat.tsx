import { Braces, PanelLeft, SquarePen } from "lucide";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { useAgents } from "../agents";
import { AnsweredElsewhere } from "../approval/answered_elsewhere";
import { Questions } from "../approval/questions";
import { Composer } from "../chat/composer";
import { callsIn } from "../chat/calls";
import { beginThread, Conversation } from "../chat/conversation";
import { Past, RunView } from "../chat/run_view";
import { Scroll } from "../chat/scroll";
import { hasState, StatePanel } from "../chat/state_panel";
import { ThreadList } from "../chat/thread_list";
import { Threads, wordsOf } from "../chat/threads";
import type { Run, UserMessage } from "../chat/transcript";
import type { Json } from "../gateway";
import { answersElsewhere } from "../inbox/answers_elsewhere";
import { linkTo, route } from "../route";
import { session } from "../session";
import { useTitle } from "../shell/title";
import { useStore } from "../store";
import { useClosing } from "../ui/closing";
import { Icon } from "../ui/icon";
import { IconButton } from "../ui/icon_button";
import { toasts } from "../ui/toasts";

/** Conversations with agents; the address has the agent and the thread of the one that is open. */
export function ChatPage({ agent, thread }: { agent: string; thread: string }) {
  const { token } = useStore(session);
  const { value, error } = useAgents();
  const agents = value ?? [];
  const threads = useMemo(() => new Threads(), [token]);
  const [isListed, setListed] = useState(false);
  useEffect(() => threads.open(), [threads]);
  useClosing(isListed, () => setListed(false));
  const panel = useRef<HTMLElement>(null);
  useEffect(() => {
    if (isListed) panel.current!.querySelector<HTMLElement>("input")?.focus();
  }, [isListed]);
  useEffect(() => {
    // The address may have an agent and a thread already that are not rendered yet.
    const [page, wanted, begun] = route.place.parts;
    if (page !== "chat" || begun) return;
    const chosen = wanted || agents[0]?.["id"];
    if (chosen) route.replace(route.place.parts, newThread(chosen));
  }, [agent, thread, value]);
  return (
    <section class="chat-page">
      {isListed && <div class="shade" onClick={() => setListed(false)} />}
      <aside ref={panel} class={isListed ? "threads-panel is-open" : "threads-panel"} aria-label="Conversations">
        <ThreadList threads={threads} current={thread} newThread={newThread(agent || "")} onGone={() => route.go(newThread(agent))} />
      </aside>
      {error && !value && <p class="error page" role="alert">{error}</p>}
      {agent && thread && (
        <OpenThread key={`${agent}/${thread}`} agent={agent} thread={thread} agents={agents} threads={threads} onList={() => setListed(true)} />
      )}
    </section>
  );
}

function newThread(agent: string): string {
  return agent ? linkTo(["chat", agent, crypto.randomUUID()]) : "#/chat";
}

interface Opened {
  agent: string;
  thread: string;
  agents: Json[];
  threads: Threads;
  onList: () => void;
}

function OpenThread({ agent, thread, agents, threads, onList }: Opened) {
  const { token } = useStore(session);
  const [round, setRound] = useState(0);
  const conversation = useMemo(() => new Conversation(agent, thread), [agent, thread, token, round]);
  // At once: effects come later, and not at all if the page is left before.
  useLayoutEffect(() => () => conversation.close(), [conversation]);
  const { transcript, error, isLoading, isRunning } = useStore(conversation);
  const { runs, past, state, patches, open } = transcript;
  const asking = open.length > 0 ? runs.at(-1)!.task : "";
  const [asked, setAsked] = useState("");
  const elsewhere = useStore(answersElsewhere).of(asked);
  useEffect(() => {
    if (!asking) return;
    setAsked(asking);
    return answersElsewhere.mind(agent, asking);
  }, [agent, asking]);
  // The conversation goes on without this window: from what it has come to.
  useEffect(() => {
    if (elsewhere) setRound((count) => count + 1);
  }, [elsewhere]);
  const [isStateShown, setStateShown] = useState(innerWidth > STATE_FITS);
  const listed = useStore(threads).all.find(({ id }) => id === thread);
  const title = listed && wordsOf(listed.title);
  useListed(threads, thread, runs);
  useTitle(title ?? agent, open.length > 0 ? "waits for you" : isRunning ? "working" : "", "Chat");
  const edit = (run: Run, message: UserMessage, text: string) => {
    const files = typeof message.content === "string" ? [] : message.content.filter((part) => part["type"] !== "text");
    const next = crypto.randomUUID();
    beginThread(next, transcript.before(run), files.length > 0 ? [{ type: "text", text }, ...files] : text);
    route.go(linkTo(["chat", agent, next]));
    toasts.say("The edited conversation is another thread", () => route.go(linkTo(["chat", agent, thread])));
  };
  const withState = hasState(state, patches);
  return (
    <section class="chat" aria-label={`Chat with ${agent}`}>
      <ChatHead agent={agent} agents={agents} title={title} onList={onList} onState={withState ? () => setStateShown(!isStateShown) : null} isStateShown={isStateShown} />
      <div class="chat-body">
        <div class="talk">
          <Scroll isEmpty={runs.length === 0 && past.length === 0} sent={runs.length}>
            {error && <p class="error" role="alert">{error}</p>}
            {!isLoading && !error && runs.length === 0 && past.length === 0 && <Welcome agent={agent} agents={agents} />}
            <Past messages={past} />
            {runs.map((run, at) => (
              <RunView
                key={run.id} run={run} agent={agent}
                isLast={at === runs.length - 1}
                isLastOfTask={runs.slice(at + 1).every(({ task }) => task !== run.task)}
                onFollow={() => conversation.attach(run)}
                onRetry={() => conversation.retry(run)}
                onEdit={(message, text) => edit(run, message, text)}
              />
            ))}
            {open.length > 0 && elsewhere === undefined && (
              <Questions key={runs.at(-1)!.id} task={asking} interrupts={open} calls={callsIn(runs)} said={lastText(runs.at(-1)!)} onAnswer={(answers) => conversation.answer(answers)} />
            )}
          </Scroll>
          <AnsweredElsewhere task={asked} />
          <Composer
            agent={agent} thread={thread} isRunning={isRunning} isAsked={open.length > 0}
            onSend={(content) => void conversation.send(content)}
            onStop={() => runs.filter((run) => run.state === "running").forEach((run) => void conversation.stop(run))}
          />
        </div>
        {withState && isStateShown && <StatePanel state={state} patches={patches} />}
      </div>
    </section>
  );
}

/** Pixels of a window that have room for the shared state beside the conversation. */
const STATE_FITS = 1100;

/** Keeps the list of threads up to date with what happens here, and notes what has been read. */
function useListed(threads: Threads, thread: string, runs: readonly Run[]): void {
  const states = runs.map(({ state }) => state).join();
  useEffect(() => {
    if (states) void threads.load().then(() => threads.read(thread));
  }, [threads, thread, states]);
}

interface Headed {
  agent: string;
  agents: Json[];
  title: string | undefined;
  isStateShown: boolean;
  onList: () => void;
  /** Null: there is no state to show. */
  onState: (() => void) | null;
}

function ChatHead({ agent, agents, title, isStateShown, onList, onState }: Headed) {
  const names = agents.map((one) => one["id"] as string);
  return (
    <header class="chat-head">
      <span class="only-narrow">
        <IconButton icon={PanelLeft} label="Threads" onClick={onList} />
      </span>
      <h1 class="unseen">{title ?? `Chat with ${agent}`}</h1>
      <select aria-label="Agent" value={agent} onChange={(event) => route.go(newThread(event.currentTarget.value))}>
        {(names.includes(agent) ? names : [agent, ...names]).map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
      <span class="soft wide" dir="auto">{title ?? agents.find((one) => one["id"] === agent)?.["description"]}</span>
      <span class="grow" />
      {onState && (
        <button type="button" class="plain" aria-label="State" aria-pressed={isStateShown} onClick={onState}>
          <Icon of={Braces} size={14} /> <span class="wide">State</span>
        </button>
      )}
      <a class="button plain" href={newThread(agent)} aria-label="New chat">
        <Icon of={SquarePen} size={14} /> <span class="wide">New chat</span>
      </a>
    </header>
  );
}

function Welcome({ agent, agents }: { agent: string; agents: Json[] }) {
  const description: string = agents.find((one) => one["id"] === agent)?.["description"] ?? "";
  return (
    <div class="welcome">
      <h2>{agent}</h2>
      {description && <p>{description}</p>}
      <p class="hint">Write a message below. You can leave this page at any time; the run goes on.</p>
    </div>
  );
}

/** The question is usually the agent's last words, which need not be said twice. */
function lastText(run: Run): string {
  const last = run.items.at(-1);
  return last?.kind === "text" ? last.text.trim() : "";
}
