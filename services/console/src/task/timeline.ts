import type { Json } from "../gateway";

/** One event of a task's log, with what its entry says. */
export interface LogRow {
  generation: number;
  time: string;
  writer: { kind: string; id: string };
  run: number;
  attempt: number;
  state: string;
  type: string;
  event: Json;
}

/** Where a task's past comes from: the source, and the last event that both have. */
export interface ForkOf {
  task: string;
  generation: number;
  requested: number;
}

/** Returns where a log's past comes from; null: the task is no fork. */
export function forkOf(rows: readonly LogRow[]): ForkOf | null {
  return rows[0]?.event["task"]?.metadata?.["headrace.forkOf"] ?? null;
}

/** Returns a log as it was when it had just the event `generation`; 0: as it is. */
export function asOf(rows: LogRow[], generation: number): LogRow[] {
  const first = rows[0]?.generation ?? 1;
  return generation ? rows.slice(0, Math.max(1, generation - first + 1)) : rows;
}

/** Returns the text of the results in a log. An attempt that begins an artifact anew replaces it. */
export function resultsOf(rows: readonly LogRow[]): string {
  const texts = new Map<string, string>();
  for (const { event } of rows) {
    const { artifact, append } = event["artifactUpdate"] ?? {};
    if (!artifact) continue;
    const text = partsOf(event).map((part) => part["text"] ?? "").join("");
    texts.set(artifact.artifactId, append ? (texts.get(artifact.artifactId) ?? "") + text : text);
  }
  return [...texts.values()].filter(Boolean).join("\n");
}

/** Something that took time: milliseconds since the epoch. */
export interface Span {
  kind: "attempt" | "step" | "tool" | "child" | "waiting" | "gap";
  label: string;
  from: number;
  to: number;
}

/** What a log shows over time: attempts, steps, calls, child tasks, waiting, and missing workers. */
export class Spans {
  private readonly spans = new Map<string, Span>();
  private waiting = "";
  private last: Span | undefined;

  /** The spans so far, in the order in which they began. */
  get all(): Span[] {
    return [...this.spans.values()];
  }

  /** Takes the log's next row. */
  take(row: LogRow): void {
    const at = Date.parse(row.time);
    if (this.waiting) this.extend(this.waiting, "waiting", "waits for its user", at);
    this.waiting = row.state.endsWith("INPUT_REQUIRED") ? this.waiting || `waiting ${row.generation}` : "";
    if (this.waiting) this.extend(this.waiting, "waiting", "waits for its user", at);
    if (row.attempt === 0) return;
    const key = `attempt ${row.run} ${row.attempt}`;
    if (!this.spans.has(key) && row.attempt > 1 && this.last) {
      this.spans.set(`gap ${key}`, { kind: "gap", label: "no worker", from: this.last.to, to: at });
    }
    this.extend(key, "attempt", `run ${row.run}, attempt ${row.attempt}`, at);
    this.last = this.spans.get(key);
    const step = stepOf(row.event);
    if (step?.seconds !== undefined) {
      const from = at - Math.round(step.seconds * 1000);
      this.spans.set(`step ${row.generation}`, { kind: "step", label: `step ${step.name}`, from, to: at });
    }
    for (const part of partsOf(row.event)) {
      const { agui_subagent_run_id: child, agui_tool_call_id: call } = part["metadata"] ?? {};
      if (child) this.extend(`child ${child}`, "child", `child task ${child}`, at);
      if (call) this.extend(`tool ${call}`, "tool", String(part["data"]?.name ?? "tool call"), at);
    }
  }

  private extend(key: string, kind: Span["kind"], label: string, at: number): void {
    const known = this.spans.get(key);
    if (known) known.to = Math.max(known.to, at);
    else this.spans.set(key, { kind, label, from: at, to: at });
  }
}

/** A recorded step: `seconds` is how long it took, once it has ended. */
interface Step {
  name: string;
  state: string;
  seconds?: number;
}

function stepOf(event: Json): Step | undefined {
  return event["statusUpdate"]?.metadata?.["headrace.step"];
}

/** Returns the parts in an A2A StreamResponse. */
export function partsOf(event: Json): Json[] {
  const { task, message, statusUpdate, artifactUpdate } = event;
  return (
    artifactUpdate?.artifact?.parts ??
    statusUpdate?.status?.message?.parts ??
    message?.parts ??
    task?.status?.message?.parts ??
    []
  );
}

/** Returns a line about an event. */
export function summaryOf({ event, state }: LogRow): string {
  const texts = partsOf(event).map((part) => {
    if (part["text"] !== undefined) return String(part["text"]);
    if (part["data"] !== undefined) return JSON.stringify(part["data"]);
    return part["filename"] ?? part["url"] ?? "file";
  });
  const step = stepOf(event);
  const text = step ? `step ${step.name} ${step.state}` : texts.join(" ").replace(/\s+/g, " ").trim();
  const line = text.slice(0, 200) || (event["artifactUpdate"] ? "" : stateName(state));
  const written = Object.entries(event["statusUpdate"]?.metadata?.["headrace.memory"] ?? {});
  if (written.length === 0) return line;
  return `${line}; memory written: ${written.map(([kind, count]) => `${kind} ${count}`).join(", ")}`;
}

/** Returns A2A's state as people write it. */
export function stateName(state: string): string {
  return state.replace("TASK_STATE_", "").toLowerCase().replaceAll("_", " ");
}
