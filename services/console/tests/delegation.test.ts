import assert from "node:assert/strict";
import { test } from "node:test";

import { Children, parentOf, type ChildTask } from "../src/task/delegation";
import { Folded } from "../src/task/fold";
import type { LogRow } from "../src/task/timeline";

const COMPLETED = "TASK_STATE_COMPLETED";

function rows(...updates: object[]): LogRow[] {
  return updates.map((update) => ({ event: { statusUpdate: { metadata: { "headrace.child": update } } } }) as unknown as LogRow);
}

const childrenOf = (log: LogRow[]) => new Folded(() => new Children()).of(log).all;

type Shown = [string, string, string, ...Shown[]];

const shown = ({ task, agent, state, children }: ChildTask): Shown => [
  task,
  agent,
  state.replace("TASK_STATE_", ""),
  ...children.map(shown),
];

test("a child is submitted, works and ends", () => {
  const events = [{ task: "1", agent: "a", name: "n", generation: 0 }, { task: "1", generation: 3 }, { task: "1", generation: 4, state: COMPLETED }];
  const states = events.map((_, at) => childrenOf(rows(...events.slice(0, at + 1))).map(shown));
  assert.deepEqual(states, [[["1", "a", "SUBMITTED"]], [["1", "a", "WORKING"]], [["1", "a", "COMPLETED"]]]);
});

test("children of children are below them", () => {
  const log = rows(
    { task: "1", agent: "a", generation: 0 },
    { task: "2", agent: "b", generation: 0 },
    { task: "1", generation: 3, child: { task: "11", agent: "c", generation: 0 } },
    { task: "1", generation: 4, child: { task: "11", generation: 2, state: COMPLETED } },
  );
  assert.deepEqual(childrenOf(log).map(shown), [["1", "a", "WORKING", ["11", "c", "COMPLETED"]], ["2", "b", "SUBMITTED"]]);
});

test("an answered child works again, and says so when another attempt began or it was given up", () => {
  const log = rows(
    { task: "1", agent: "a", generation: 0 },
    { task: "1", generation: 3, state: "TASK_STATE_INPUT_REQUIRED" },
    { task: "1", agent: "a", generation: 0 },
    { task: "1", generation: 6, attempt: 2, discardedAfter: 5 },
    { task: "1", generation: 7, givenUp: true },
  );
  const [child] = childrenOf(log);
  assert.deepEqual([child!.state, child!.attempt, child!.isGivenUp], ["TASK_STATE_WORKING", 2, true]);
});

test("a task knows who delegated it", () => {
  const lineage = { parent: "0", agent: "boss", run: 1, name: "n", path: ["boss"] };
  const first = { event: { task: { metadata: { "headrace.delegation": lineage } } } } as unknown as LogRow;
  assert.deepEqual(parentOf([first]), { task: "0", agent: "boss" });
  assert.equal(parentOf([]), null);
});
