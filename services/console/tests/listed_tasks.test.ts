import assert from "node:assert/strict";
import { test } from "node:test";

import { changed, type ListedTask } from "../src/listed_tasks";

const WORKING = "TASK_STATE_WORKING";

function task(id: string, second: number, state = WORKING): ListedTask {
  return { id, contextId: "c", state, time: new Date(second * 1000).toISOString() };
}

function change(id: string, second: number, state: string | null = WORKING) {
  return { task: id, contextId: "c", state, time: new Date(second * 1000).toISOString() };
}

const ids = (tasks: ListedTask[]) => tasks.map(({ id }) => id).join("");

test("a new task and one that changes come first", () => {
  const before = [task("a", 3), task("b", 2)];
  assert.equal(ids(changed(before, change("c", 4), "")), "cab");
  const after = changed(before, change("b", 4, "TASK_STATE_COMPLETED"), "");
  assert.deepEqual(after, [task("b", 4, "TASK_STATE_COMPLETED"), task("a", 3)]);
});

test("a task leaves with the state that is asked for, or when it is gone", () => {
  const before = [task("a", 3), task("b", 2)];
  assert.equal(ids(changed(before, change("a", 4, "TASK_STATE_FAILED"), WORKING)), "b");
  assert.equal(ids(changed(before, { task: "b", state: null }, "")), "a");
  assert.equal(ids(changed(before, { task: "x", state: null }, "")), "ab");
});

test("what the list knew already changes nothing", () => {
  const before = [task("a", 3, "TASK_STATE_COMPLETED")];
  assert.deepEqual(changed(before, change("a", 2), ""), before);
});

test("a page keeps its length", () => {
  const full = Array.from({ length: 50 }, (_, number) => task(`t${number}`, 100 - number));
  const after = changed(full, change("new", 200), "");
  assert.deepEqual([after.length, after[0]!.id, after.at(-1)!.id], [50, "new", "t48"]);
});
