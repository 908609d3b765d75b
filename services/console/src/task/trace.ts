import type { Json } from "../gateway";
import { childOf, inputOf, kindOf, stepName, stepOf } from "./parts";
import { partsOf, type LogRow } from "./timeline";

export type SpanKind = "run" | "queue" | "attempt" | "gap" | "waiting" | "model" | "tool" | "step" | "child";

/** Something that took time: milliseconds since the epoch. */
export interface Span {
  id: string;
  kind: SpanKind;
  name: string;
  from: number;
  to: number;
  /** Whether its end is still to come. */
  isOpen: boolean;
  hasFailed: boolean;
  /** The event with which it began. */
  generation: number;
  /** Of all that is in it. */
  tokens: number;
  cost: number;
  /** The task of a child. */
  task: string;
  children: Span[];
}

/** Milliseconds that a run may wait for a worker before a log says so. */
const AT_ONCE = 500;

const ENDED = /_(COMPLETED|FAILED|CANCELED|REJECTED)$/;

/**
 * A log as spans: runs, their attempts, and in these calls of models and tools, steps and child tasks.
 *
 * A log says when something ends; a call of a model begins where the agent had all that it needed: at
 * its start, or after the last result.
 */
export class Trace {
  readonly roots: Span[] = [];
  private readonly known = new Map<string, Span>();
  private readonly parents = new Map<Span, Span>();
  /** The model's call that is going on, by who makes it; and since when one could. */
  private readonly calls = new Map<string, Span>();
  private readonly ready = new Map<string, number>();
  private run: Span | undefined;
  private attempt: Span | undefined;
  private question: Span | undefined;

  /** Takes the log's next row. */
  take(row: LogRow): void {
    const at = Date.parse(row.time);
    this.note(row, at);
    if (row.attempt > 0) this.work(row, at);
    for (const span of [this.attempt, this.run]) if (span) span.to = Math.max(span.to, at);
    if (/_(INPUT_REQUIRED|COMPLETED|FAILED|CANCELED|REJECTED)$/.test(row.state)) this.end(row, at);
  }

  /** All spans, each followed by those in it, with how deep it lies. */
  get flat(): { span: Span; depth: number }[] {
    const all: { span: Span; depth: number }[] = [];
    const add = (span: Span, depth: number) => {
      all.push({ span, depth });
      for (const child of span.children) add(child, depth + 1);
    };
    // A task of one run is that run.
    const isOne = this.roots.filter(({ kind }) => kind === "run").length === 1;
    for (const root of this.roots) {
      if (isOne && root.kind === "run") for (const child of root.children) add(child, 0);
      else add(root, 0);
    }
    return all;
  }

  private note(row: LogRow, at: number): void {
    if (!inputOf(row) && this.run) return;
    if (this.question) {
      Object.assign(this.question, { to: at, isOpen: false });
      this.question = undefined;
    }
    if (this.run?.isOpen) return;
    const count = this.roots.filter(({ kind }) => kind === "run").length;
    this.run = this.begin(null, `run ${row.generation}`, "run", `Run ${count + 1}`, at, row.generation);
    this.attempt = undefined;
  }

  private work(row: LogRow, at: number): void {
    this.begun(row, at);
    const step = stepOf(row);
    if (step) this.step(row, at, step.state, stepName(step), step.seconds);
    const child = row.event["statusUpdate"]?.metadata?.["headrace.child"];
    if (child) this.child(child, this.attempt!, at, row.generation);
    for (const part of partsOf(row.event)) this.part(part, at, row.generation);
  }

  /** Begins the attempt that wrote the row, if it is its first, and the time before it. */
  private begun({ run, attempt, generation }: LogRow, at: number): void {
    const id = `attempt ${run} ${attempt}`;
    const known = this.known.get(id);
    if (known) {
      this.attempt = known;
      return;
    }
    const before = this.attempt;
    if (before && attempt > 1) {
      this.close(before);
      before.hasFailed = true;
      const gap = this.begin(this.run!, `gap ${id}`, "gap", "No worker", before.to, generation);
      Object.assign(gap, { to: at, isOpen: false });
    } else if (at - this.run!.from > AT_ONCE) {
      const queue = this.begin(this.run!, `queue ${id}`, "queue", "Waits for a worker", this.run!.from, generation);
      Object.assign(queue, { to: at, isOpen: false });
    }
    this.attempt = this.begin(this.run!, id, "attempt", `Attempt ${attempt}`, at, generation);
    this.ready.clear();
    this.calls.clear();
    this.ready.set("", at);
  }

  private step({ generation }: LogRow, at: number, state: string, name: string, seconds: number | undefined): void {
    const id = `step ${this.attempt!.id} ${name}`;
    const open = this.known.get(id);
    if (seconds === undefined && state === "started") {
      if (!open?.isOpen) this.begin(this.attempt!, id, "step", name, at, generation);
      return;
    }
    const from = seconds === undefined ? at : at - Math.round(seconds * 1000);
    const span = open?.isOpen ? open : this.begin(this.attempt!, id, "step", name, from, generation);
    Object.assign(span, { from, to: at, isOpen: false, hasFailed: state === "failed" });
    this.answered("", at);
  }

  private child(update: Json, parent: Span, at: number, generation: number): void {
    const task: string = update["task"];
    const id = `child ${task}`;
    const span = this.known.get(id) ?? this.begin(parent, id, "child", update["agent"] || "child task", at, generation);
    Object.assign(span, { task, name: update["agent"] || span.name, to: at });
    const state: string = update["state"] ?? "";
    span.isOpen = !(ENDED.test(state) || update["givenUp"]);
    span.hasFailed = /_(FAILED|REJECTED)$/.test(state);
    if (update["child"]) this.child(update["child"], span, at, generation);
    if (!span.isOpen) {
      this.answered(task, at);
      this.answered("", at);
    }
  }

  private part(part: Json, at: number, generation: number): void {
    const who = childOf(part);
    const holder = (who && this.known.get(`child ${who}`)) || this.attempt!;
    const kind = kindOf(part);
    if (kind === "usage") this.used(part["data"] ?? {}, who, holder, at, generation);
    else if (kind === "result") this.result(part, who, at);
    else if (kind === "call") {
      this.output(who, holder, at, generation);
      this.call(part, holder, at, generation);
    } else if (kind === "text" || kind === "thinking") this.output(who, holder, at, generation);
    else this.subagent(part, holder, at, generation);
  }

  /** What a model writes is part of its call. */
  private output(who: string, holder: Span, at: number, generation: number): Span {
    const known = this.calls.get(who);
    const from = this.ready.get(who) ?? holder.from;
    const call = known ?? this.begin(holder, `model ${who} ${generation} ${holder.children.length}`, "model", "Model", from, generation);
    this.calls.set(who, call);
    call.to = at;
    return call;
  }

  private used(usage: Json, who: string, holder: Span, at: number, generation: number): void {
    const call = this.output(who, holder, at, generation);
    if (usage["model"]) call.name = String(usage["model"]);
    const { inputTokens = 0, outputTokens = 0, totalTokens, cost = 0 } = usage;
    for (let span: Span | undefined = call; span; span = this.parents.get(span)) {
      span.tokens += totalTokens || inputTokens + outputTokens;
      span.cost += cost;
    }
    this.answered(who, at);
  }

  private call(part: Json, holder: Span, at: number, generation: number): void {
    const id = `tool ${part["metadata"]?.["agui_tool_call_id"] ?? part["data"]?.id ?? generation}`;
    const name = part["metadata"]?.["agui_tool_name"] ?? part["data"]?.name;
    const known = this.known.get(id);
    if (known) known.to = at;
    else this.begin(holder, id, "tool", String(name ?? "tool"), at, generation);
  }

  private result(part: Json, who: string, at: number): void {
    const span = this.known.get(`tool ${part["metadata"]?.["agui_tool_call_id"] ?? part["data"]?.tool_call_id}`);
    if (span) Object.assign(span, { to: at, isOpen: false, hasFailed: part["metadata"]?.["agui_is_error"] === true });
    this.answered(who, at);
  }

  /** An agent in the same process, which is called like a child. */
  private subagent(part: Json, holder: Span, at: number, generation: number): void {
    const type = part["metadata"]?.["agui_event_type"];
    const { id, name } = part["data"] ?? {};
    if (type === "subagent_started") this.begin(holder, `child ${id}`, "child", String(name ?? "subagent"), at, generation);
    const span = type === "subagent_finished" ? this.known.get(`child ${id}`) : undefined;
    if (span) Object.assign(span, { to: at, isOpen: false });
  }

  /** The agent has what it needs to call its model again. */
  private answered(who: string, at: number): void {
    const call = this.calls.get(who);
    if (call) call.isOpen = false;
    this.calls.delete(who);
    this.ready.set(who, at);
  }

  private end(row: LogRow, at: number): void {
    if (this.run) {
      this.close(this.run);
      this.run.hasFailed = /_(FAILED|REJECTED)$/.test(row.state);
      if (this.attempt) this.attempt.hasFailed = this.run.hasFailed;
    }
    if (!row.state.endsWith("INPUT_REQUIRED") || this.question) return;
    const id = `waiting ${row.generation}`;
    this.question = this.begin(null, id, "waiting", "Waits for an answer", at, row.generation);
  }

  private close(span: Span): void {
    span.isOpen = false;
    for (const child of span.children) this.close(child);
  }

  private begin(parent: Span | null, id: string, kind: SpanKind, name: string, from: number, generation: number): Span {
    const span: Span = {
      id, kind, name, from, to: from, isOpen: true, hasFailed: false, generation, tokens: 0, cost: 0, task: "", children: [],
    };
    this.known.set(id, span);
    if (parent) this.parents.set(span, parent);
    (parent?.children ?? this.roots).push(span);
    return span;
  }
}
