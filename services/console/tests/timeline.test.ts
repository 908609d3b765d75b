import assert from "node:assert/strict";
import { test } from "node:test";

import { Folded } from "../src/task/fold";
import { asOf, forkOf, resultsOf, summaryOf, type LogRow } from "../src/task/timeline";

const WORKING = "TASK_STATE_WORKING";

function row(generation: number, second: number, fields: Partial<LogRow> = {}): LogRow {
  const time = new Date(second * 1000).toISOString();
  const writer = { kind: "worker", id: "w" };
  return { generation, time, writer, run: 1, attempt: 1, state: WORKING, type: "artifactUpdate", event: {}, ...fields };
}

test("a line says which memory was written", () => {
  const metadata = { "headrace.memory": { conversation: 2, task: 1 } };
  const written = row(1, 1, { event: { statusUpdate: { metadata } }, state: "TASK_STATE_COMPLETED" });
  assert.equal(summaryOf(written), "completed; memory written: conversation 2, task 1");
});

test("a log as of an event ends with it, also if its beginning is gone", () => {
  const rows = [3, 4, 5].map((generation) => row(generation, generation));
  const generations = (at: number) => asOf(rows, at).map(({ generation }) => generation);
  assert.deepEqual([0, 4, 5, 9, 1].map(generations), [[3, 4, 5], [3, 4], [3, 4, 5], [3, 4, 5], [3]]);
});

test("a fork says where its past comes from", () => {
  const of = { task: "t", generation: 2, requested: 4 };
  const first = row(1, 1, { event: { task: { metadata: { "headrace.forkOf": of } } } });
  assert.deepEqual([forkOf([first]), forkOf([row(1, 1)]), forkOf([])], [of, null, null]);
});

test("an attempt that begins an artifact anew replaces what the one before said", () => {
  const said = (artifactId: string, text: string, append = true) => ({
    event: { artifactUpdate: { artifact: { artifactId, parts: [{ text }] }, append } },
  });
  const rows = [said("a", "1 ", false), said("a", "2 "), said("b", "x", false), said("a", "1 ", false), said("a", "2")];
  assert.equal(resultsOf(rows.map((event, at) => row(at + 1, at, event))), "1 2\nx");
});

test("a fold takes each row of a growing log once, and begins anew with a shorter or another one", () => {
  let begun = 0;
  const folded = new Folded(() => {
    begun += 1;
    const taken: number[] = [];
    return { taken, take: ({ generation }: LogRow) => taken.push(generation) };
  });
  const log = [row(1, 1), row(2, 2)];
  folded.of(log);
  log.push(row(3, 3));
  assert.deepEqual([folded.of(log).taken, begun], [[1, 2, 3], 1]);
  log.pop();
  assert.deepEqual([folded.of(log).taken, begun], [[1, 2], 2]);
  assert.deepEqual([folded.of([row(7, 1)]).taken, begun], [[7], 3]);
});
