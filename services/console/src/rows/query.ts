import type { Json } from "../gateway";

/** The filters of the list of tasks, as the address has them; those that are not set are missing. */
export interface RowFilters {
  state?: string;
  agent?: string;
  owner?: string;
  contextId?: string;
  /** A time span such as `24h`, or a local time. */
  since?: string;
  q?: string;
  /** The page: where it begins, and how many rows are before it. */
  after?: string;
  from?: string;
}

export const WAITING = ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"] as const;

/** The states by which tasks are chosen, with their titles; `waiting` is one of two states of A2A. */
export const STATE_CHOICES: readonly (readonly [name: string, title: string, states: readonly string[]])[] = [
  ["waiting", "Waits for a person", WAITING],
  ["working", "Working", ["TASK_STATE_WORKING"]],
  ["submitted", "Submitted", ["TASK_STATE_SUBMITTED"]],
  ["failed", "Failed", ["TASK_STATE_FAILED"]],
  ["completed", "Completed", ["TASK_STATE_COMPLETED"]],
  ["canceled", "Canceled", ["TASK_STATE_CANCELED"]],
  ["rejected", "Rejected", ["TASK_STATE_REJECTED"]],
];

export const SPANS: readonly (readonly [name: string, title: string, hours: number])[] = [
  ["1h", "the last hour", 1],
  ["24h", "the last 24 hours", 24],
  ["7d", "the last 7 days", 7 * 24],
  ["30d", "the last 30 days", 30 * 24],
];

/** Rows of a page. */
export const PAGE_SIZE = 50;

const HOUR = 3_600_000;

/** Returns the states that the filters choose; none: all. */
export function statesOf({ state = "" }: RowFilters): readonly string[] {
  return STATE_CHOICES.find(([name]) => name === state)?.[2] ?? [];
}

/** Returns the path of the gateway for a page of rows in some states; `now` is in milliseconds. */
export function rowsPath(filters: RowFilters, states: readonly string[], now: number, more: Record<string, string> = {}): string {
  const given: [string, string | undefined][] = [
    ...states.map((state): [string, string] => ["status", state]),
    ["agent", filters.agent],
    ["owner", filters.owner],
    ["contextId", filters.contextId],
    ["statusTimestampAfter", filters.since && sinceOf(filters.since, now)],
    ["q", filters.q],
    ["limit", String(PAGE_SIZE)],
    ...Object.entries(more),
  ];
  const query = new Map<string, string[]>();
  for (const [name, value] of given) if (value) query.set(name, name === "status" ? [...(query.get(name) ?? []), value] : [value]);
  return `v1/tasks?${new URLSearchParams([...query].flatMap(([name, values]) => values.map((value): [string, string] => [name, value])))}`;
}

function sinceOf(since: string, now: number): string {
  const span = SPANS.find(([name]) => name === since);
  const time = span ? new Date(now - span[2] * HOUR) : new Date(since);
  return Number.isNaN(time.getTime()) ? "" : time.toISOString();
}

/** A row of the list. */
export interface Row {
  id: string;
  agent: string;
  owner: string;
  contextId: string;
  state: string;
  time: string;
  title: string;
  text: string;
  /** A2A's status of a task that waits for its user. */
  status?: Json;
}

/** Returns how many tasks are in some states. */
export function countOf(counts: Readonly<Record<string, number>>, states: readonly string[]): number {
  return states.reduce((total, state) => total + (counts[state] ?? 0), 0);
}

/** Returns what a row is called: what was asked, or its id. */
export function titleOf({ title, id }: Pick<Row, "title" | "id">): string {
  return title || id;
}
