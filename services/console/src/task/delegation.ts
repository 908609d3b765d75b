import type { Json } from "../gateway";
import type { LogRow } from "./timeline";

/** A task that another one has delegated, as far as the other's log says. */
export interface ChildTask {
  task: string;
  /** Empty if the log doesn't say. */
  agent: string;
  state: string;
  /** Whether its parent no longer waits for it. */
  isGivenUp: boolean;
  attempt: number;
  children: ChildTask[];
}

/** The task that delegated a task. */
export interface Parent {
  task: string;
  agent: string;
}

const SUBMITTED = "TASK_STATE_SUBMITTED";
const WORKING = "TASK_STATE_WORKING";

/** The tasks that a log's task has delegated, each with those that it delegated in turn. */
export class Children {
  readonly all: ChildTask[] = [];

  /** Takes the log's next row. */
  take({ event }: LogRow): void {
    const update = event["statusUpdate"]?.metadata?.["headrace.child"];
    if (update) take(this.all, update);
  }
}

function take(siblings: ChildTask[], update: Json): void {
  let child = siblings.find(({ task }) => task === update["task"]);
  if (!child) {
    child = { task: update["task"], agent: "", state: SUBMITTED, isGivenUp: false, attempt: 1, children: [] };
    siblings.push(child);
  }
  child.agent = update["agent"] || child.agent;
  child.attempt = update["attempt"] ?? child.attempt;
  child.isGivenUp ||= Boolean(update["givenUp"]);
  // Generation 0 is the parent's request: a new task, or the answer to its question.
  if (update["generation"] === 0) child.state = SUBMITTED;
  else if (update["state"]) child.state = update["state"];
  else if (child.state === SUBMITTED) child.state = WORKING;
  if (update["child"]) take(child.children, update["child"]);
}

/** Returns the task that delegated a log's task; null: a client sent it. */
export function parentOf(rows: readonly LogRow[]): Parent | null {
  const lineage = rows[0]?.event["task"]?.metadata?.["headrace.delegation"];
  return lineage ? { task: lineage.parent, agent: lineage.agent } : null;
}
