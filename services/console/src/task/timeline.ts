import type { Json } from "../gateway";

/** One event of a task's log, with what its entry says. */
export interface LogRow {
  generation: number;
  time: string;
  writer: { kind: string; id: string };
  run: number;
  attempt: number;
  state: string;
  /** Whose task it is: in the first row only. */
  owner?: string;
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
  const step: Json | undefined = event["statusUpdate"]?.metadata?.["headrace.step"];
  const text = step ? `step ${step["name"]} ${step["state"]}` : texts.join(" ").replace(/\s+/g, " ").trim();
  const line = text.slice(0, 200) || (event["artifactUpdate"] ? "" : stateName(state));
  const written = Object.entries(event["statusUpdate"]?.metadata?.["headrace.memory"] ?? {});
  if (written.length === 0) return line;
  return `${line}; memory written: ${written.map(([kind, count]) => `${kind} ${count}`).join(", ")}`;
}

/** Returns A2A's state as people write it. */
export function stateName(state: string): string {
  return state.replace("TASK_STATE_", "").toLowerCase().replaceAll("_", " ");
}
