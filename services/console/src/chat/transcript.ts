import jsonpatch from "fast-json-patch";

import { callsOf, type AskedCall } from "../approval/decision";
import type { Json } from "../gateway";
import { callsIn } from "./calls";

/** One thing that an agent said or did, in the order in which it began. */
export type Item =
  | { kind: "text"; id: string; role: string; text: string; isOpen: boolean }
  | { kind: "reasoning"; id: string; title: string; text: string; isOpen: boolean }
  | { kind: "tool"; id: string; name: string; args: string; result: string | null; isError: boolean; isOpen: boolean }
  | { kind: "activity"; id: string; type: string; content: Json }
  | { kind: "step"; id: string; name: string; isOpen: boolean }
  | { kind: "notice"; id: string; text: string }
  | { kind: "subagent"; id: string; name: string; outcome: string; items: Item[] };

type Kind<K extends Item["kind"]> = Extract<Item, { kind: K }>;

/** A user's message. */
export interface UserMessage {
  id: string;
  /** A text, or AG-UI's content parts. */
  content: string | Json[];
}

/** A question of an agent; its answer has the form of `responseSchema`. */
export interface Interrupt {
  id: string;
  reason: string;
  message?: string;
  /** The call that it is about. */
  toolCallId?: string;
  responseSchema?: Json;
  metadata?: Json;
  /** Until when it can be answered. */
  expiresAt?: string;
}

/** An answer to an interrupt. */
export interface Answer {
  interruptId: string;
  status: "resolved" | "cancelled";
  payload?: unknown;
}

/** An answer as a thread shows it. */
export interface Given {
  isDeclined: boolean;
  payload: unknown;
  /** The calls that were asked about. */
  calls: AskedCall[];
}

/** One run: what the user said, and what became of it. */
export interface Run {
  id: string;
  task: string;
  user: UserMessage[];
  /** What the user answered to the questions of the task's last run. */
  given: Given[];
  items: Item[];
  state: "running" | "finished" | "failed" | "cancelled" | "asking";
  error: string;
  /** Whether it can no longer be followed, whatever becomes of it. */
  isLost: boolean;
  interrupts: Interrupt[];
  /** Calls of tools that this client would have to make. */
  pending: string[];
}

/** One change of the shared state. */
export interface Patch {
  at: number;
  /** JSON Patch operations; a snapshot is one that replaces everything. */
  operations: Json[];
}

const MOST_PATCHES = 500;

/** A message of AG-UI. */
export interface ThreadMessage extends Json {
  id: string;
  role: string;
}

/** A thread as a user sees it: a fold of the events of its runs. */
export class Transcript {
  readonly runs: Run[] = [];
  /** What was said before the first run, in the thread that this one continues. */
  past: ThreadMessage[] = [];
  state: unknown = {};
  patches: Patch[] = [];

  /** Begins a run with the user's messages, or with answers to what the task's last run asked; its events follow. */
  begin(id: string, user: UserMessage[] = [], task = "", answers: Answer[] = []): Run {
    const known = this.runs.find((run) => run.id === id);
    if (known) return known;
    const begun: Run = {
      id, task, user, given: this.givenTo(task, answers), items: [], state: "running", error: "", isLost: false, interrupts: [], pending: [],
    };
    this.runs.push(begun);
    return begun;
  }

  /** Takes the next event of `run`. An event that was taken before changes nothing. */
  take(run: Run, event: Json): void {
    const handler = HANDLERS[event["type"]];
    if (handler) handler(this, run, event);
  }

  /** Restores a thread from a gateway's answer: its messages, and each run's events. */
  restore(thread: Json): void {
    for (const one of thread["runs"]) {
      const run = this.begin(one.runId, [], one.taskId, one.answers);
      for (const event of one.events) this.take(run, event);
    }
    this.patches = [];
    this.state = thread["state"];
    const messages: ThreadMessage[] = thread["messages"];
    const begin = beginOf(this.runs, messages);
    this.past = messages.slice(0, begin);
    placeUserMessages(this.runs, messages.slice(begin));
  }

  /** Returns what was said before `run`, as the messages of another thread. */
  before(run: Run): ThreadMessage[] {
    return [...this.past, ...this.runs.slice(0, this.runs.indexOf(run)).flatMap(messagesOf)];
  }

  /** Returns the questions of the last run that nobody has answered. */
  get open(): Interrupt[] {
    const last = this.runs.at(-1);
    return last?.state === "asking" ? last.interrupts : [];
  }

  private givenTo(task: string, answers: Answer[]): Given[] {
    const asked = [...this.runs].reverse().find((run) => !task || run.task === task)?.interrupts ?? [];
    const known = callsIn(this.runs);
    return answers.map(({ interruptId, status, payload }) => {
      const interrupt = interruptId ? asked.find(({ id }) => id === interruptId) : asked[0];
      return { isDeclined: status === "cancelled", payload, calls: interrupt ? callsOf(interrupt, known) : [] };
    });
  }

  note(operations: Json[], at: number): void {
    this.patches = [...this.patches.slice(1 - MOST_PATCHES), { at, operations }];
  }
}

type Handler = (transcript: Transcript, run: Run, event: Json) => void;

const HANDLERS: Record<string, Handler> = {
  TEXT_MESSAGE_START: (_, run, event) => {
    const { messageId: id, role = "assistant" } = event as { messageId: string; role?: string };
    added(run, event, { kind: "text", id, role, text: "", isOpen: true });
  },
  TEXT_MESSAGE_CONTENT: (_, run, event) => {
    const item = found(run, "text", event["messageId"]);
    if (item?.isOpen) item.text += event["delta"];
  },
  TEXT_MESSAGE_END: (_, run, event) => close(found(run, "text", event["messageId"])),
  REASONING_START: (_, run, event) => {
    const title = event["metadata"]?.title ?? "";
    added(run, event, { kind: "reasoning", id: event["messageId"], title, text: "", isOpen: true });
  },
  REASONING_MESSAGE_START: (_, run, event) => {
    added(run, event, { kind: "reasoning", id: event["messageId"], title: "", text: "", isOpen: true });
  },
  REASONING_MESSAGE_CONTENT: (_, run, event) => {
    const item = found(run, "reasoning", event["messageId"]);
    if (item?.isOpen) item.text += event["delta"];
  },
  REASONING_MESSAGE_END: (_, run, event) => close(found(run, "reasoning", event["messageId"])),
  REASONING_END: (_, run, event) => close(found(run, "reasoning", event["messageId"])),
  TOOL_CALL_START: (_, run, event) => {
    const { toolCallId: id, toolCallName: name } = event as { toolCallId: string; toolCallName: string };
    added(run, event, { kind: "tool", id, name, args: "", result: null, isError: false, isOpen: true });
  },
  TOOL_CALL_ARGS: (_, run, event) => {
    const item = found(run, "tool", event["toolCallId"]);
    if (item?.isOpen) item.args += event["delta"];
  },
  TOOL_CALL_END: (_, run, event) => close(found(run, "tool", event["toolCallId"])),
  TOOL_CALL_RESULT: (_, run, event) => {
    const item = found(run, "tool", event["toolCallId"]);
    if (item) Object.assign(item, { result: event["content"], isError: Boolean(event["metadata"]?.error) });
  },
  ACTIVITY_SNAPSHOT: (_, run, event) => {
    const { messageId: id, activityType: type, content } = event as Json;
    const known = found(run, "activity", id);
    if (known) known.content = content;
    else added(run, event, { kind: "activity", id, type, content });
  },
  ACTIVITY_DELTA: (_, run, event) => {
    const item = found(run, "activity", event["messageId"]);
    if (item) item.content = patched(item.content, event["patch"]) as Json;
  },
  STEP_STARTED: (_, run, event) => {
    const name: string = event["stepName"];
    added(run, event, { kind: "step", id: `step ${name} ${event["timestamp"]}`, name, isOpen: true });
  },
  STEP_FINISHED: (_, run, event) => {
    const items = [...every(run.items)];
    const step = items.find((one) => one.kind === "step" && one.isOpen && one.name === event["stepName"]);
    close(step as Kind<"step"> | undefined);
  },
  SUBAGENT_STARTED: (_, run, event) => {
    const { subagentRunId: id, name, parentSubagentRunId: parent = "" } = event as Json;
    const item: Item = { kind: "subagent", id, name, outcome: "", items: [] };
    added(run, { subagentRunId: parent }, item);
  },
  SUBAGENT_FINISHED: (_, run, event) => {
    const item = found(run, "subagent", event["subagentRunId"]);
    if (item) item.outcome = event["outcome"]?.type ?? "success";
  },
  SUBAGENT_ERROR: (_, run, event) => {
    const item = found(run, "subagent", event["subagentRunId"]);
    if (item) item.outcome = event["message"] ?? "failed";
  },
  STATE_SNAPSHOT: (transcript, _, event) => {
    transcript.state = event["snapshot"];
    transcript.note([{ op: "replace", path: "", value: event["snapshot"] }], event["timestamp"]);
  },
  STATE_DELTA: (transcript, _, event) => {
    transcript.state = patched(transcript.state, event["delta"]);
    transcript.note(event["delta"], event["timestamp"]);
  },
  MESSAGES_SNAPSHOT: (transcript, run, event) => replaceMessages(transcript, run, event["messages"]),
  CUSTOM: (_, run, event) => {
    if (event["name"] !== "headrace.attempt") return;
    const attempt = event["value"]?.attempt;
    const text = `A worker took the run over${attempt ? `: attempt ${attempt}` : ""}.`;
    added(run, event, { kind: "notice", id: `attempt ${attempt} ${event["timestamp"]}`, text });
  },
  RUN_STARTED: (_, run) => {
    run.state = "running";
  },
  RUN_ERROR: (_, run, event) => {
    run.state = "failed";
    run.error = event["message"] ?? "failed";
    closeAll(run);
  },
  RUN_FINISHED: (_, run, event) => {
    const outcome: Json = event["outcome"] ?? {};
    run.pending = outcome["pendingToolCallIds"] ?? [];
    run.interrupts = outcome["interrupts"] ?? [];
    run.state = run.interrupts.length > 0 ? "asking" : "finished";
    if (outcome["type"] === "cancelled") run.state = "cancelled";
    closeAll(run);
  },
};

/** Yields items with those of their subagents. */
export function* every(items: Item[]): Generator<Item> {
  for (const item of items) {
    yield item;
    if (item.kind === "subagent") yield* every(item.items);
  }
}

function found<K extends Item["kind"]>(run: Run, kind: K, id: string): Kind<K> | undefined {
  for (const item of every(run.items)) {
    if (item.id === id && item.kind === kind) return item as Kind<K>;
  }
  return undefined;
}

function added(run: Run, event: Json, item: Item): void {
  if (found(run, item.kind, item.id)) return;
  const subagent = found(run, "subagent", event["subagentRunId"] ?? "");
  (subagent?.items ?? run.items).push(item);
}

function close(item: { isOpen: boolean } | undefined): void {
  if (item) item.isOpen = false;
}

function closeAll(run: Run): void {
  for (const item of every(run.items)) if ("isOpen" in item) item.isOpen = false;
}

function patched(document: unknown, patch: Json[]): unknown {
  try {
    return jsonpatch.applyPatch(document, patch as any, false, false).newDocument;
  } catch {
    return document;
  }
}

/** Makes a run's items those of a snapshot: a retracted message goes, an unfinished one is whole. */
function replaceMessages(transcript: Transcript, run: Run, messages: Json[]): void {
  const elsewhere = new Set(
    transcript.runs.filter((one) => one !== run).flatMap((one) => [...every(one.items)].map(({ id }) => id)),
  );
  const kept = new Set<string>();
  for (const message of messages) {
    if (elsewhere.has(message["id"])) continue;
    kept.add(message["id"]);
    for (const call of message["toolCalls"] ?? []) kept.add(call.id);
    write(run, message);
  }
  retain(run, run, kept);
  placeUserMessages(transcript.runs, messages);
}

function retain(run: Run, holder: { items: Item[] }, kept: Set<string>): void {
  holder.items = holder.items.filter((item) => {
    if (item.kind === "subagent") retain(run, item, kept);
    return !["text", "reasoning", "tool"].includes(item.kind) || kept.has(item.id);
  });
}

/** Writes a message of a snapshot over the item of its id, or adds it. */
function write(run: Run, message: Json): void {
  const { id, role, content } = message as { id: string; role: string; content: unknown };
  if (role === "assistant") {
    for (const call of message["toolCalls"] ?? []) {
      const { name, arguments: args } = call.function;
      added(run, message, { kind: "tool", id: call.id, name, args, result: null, isError: false, isOpen: false });
      found(run, "tool", call.id)!.args = args;
    }
    if (!content && message["toolCalls"]?.length) return;
    added(run, message, { kind: "text", id, role, text: "", isOpen: false });
    Object.assign(found(run, "text", id)!, { text: String(content ?? ""), isOpen: true });
  } else if (role === "reasoning") {
    added(run, message, { kind: "reasoning", id, title: "", text: "", isOpen: false });
    Object.assign(found(run, "reasoning", id)!, { text: String(content ?? ""), isOpen: true });
  } else if (role === "tool") {
    const call = found(run, "tool", message["toolCallId"]);
    if (call) Object.assign(call, { result: String(content ?? ""), isError: Boolean(message["error"]) });
  } else if (role === "activity") {
    HANDLERS["ACTIVITY_SNAPSHOT"]!(null!, run, { ...message, messageId: id });
  }
}

/** Returns a run's messages; what subagents and models have thought aloud is theirs. */
function messagesOf(run: Run): ThreadMessage[] {
  const said = run.user.map(({ id, content }) => ({ id, role: "user", content }));
  return [...said, ...run.items.flatMap(messagesIn)];
}

function messagesIn(item: Item): ThreadMessage[] {
  if (item.kind === "text") return [{ id: item.id, role: "assistant", content: item.text }];
  // A call without a result would have to be answered.
  if (item.kind !== "tool" || item.result === null) return [];
  const call = { id: item.id, type: "function", function: { name: item.name, arguments: item.args } };
  return [
    { id: `${item.id}-call`, role: "assistant", toolCalls: [call] },
    { id: `${item.id}-result`, role: "tool", toolCallId: item.id, content: item.result },
  ];
}

/** Returns where the messages of a thread's own runs begin: behind the last answer that no run has given. */
function beginOf(runs: readonly Run[], messages: readonly ThreadMessage[]): number {
  const own = new Set(runs.flatMap((run) => [...every(run.items)].map(({ id }) => id)));
  const isOwn = ({ id, ...message }: ThreadMessage) => own.has(id) || own.has(message["toolCalls"]?.[0]?.id) || own.has(message["toolCallId"]);
  const first = messages.findIndex((message) => message.role !== "user" && isOwn(message));
  const before = first < 0 ? messages : messages.slice(0, first);
  return before.map(({ role }) => role === "assistant" || role === "tool").lastIndexOf(true) + 1;
}

/** Gives each user message to the run whose output follows it. */
function placeUserMessages(runs: Run[], messages: Json[]): void {
  const known = new Set(runs.flatMap((run) => run.user.map((message) => message.id)));
  const owner = new Map<string, Run>();
  for (const run of runs) for (const item of every(run.items)) owner.set(item.id, run);
  let waiting: UserMessage[] = [];
  const give = (until: number) => {
    const empty = runs.slice(0, until).filter((run) => run.items.length === 0 && !run.user.length);
    for (const run of empty) if (waiting.length > 1) run.user.push(waiting.shift()!);
    runs[until]?.user.push(...waiting);
    waiting = [];
  };
  for (const message of messages) {
    const run = owner.get(message["id"]) ?? owner.get(message["toolCalls"]?.[0]?.id);
    if (message["role"] === "user" && !known.has(message["id"])) {
      waiting.push({ id: message["id"], content: message["content"] });
    } else if (run && waiting.length > 0) give(runs.indexOf(run));
  }
  if (waiting.length > 0) give(runs.length - 1);
}
