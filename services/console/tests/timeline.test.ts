import assert from "node:assert/strict";
import { test } from "node:test";

import { Folded } from "../src/task/fold";
import { asOf, forkOf, resultsOf, Spans, summaryOf, type LogRow } from "../src/task/timeline";

const WORKING = "TASK_STATE_WORKING";

function row(generation: number, second: number, fields: Partial<LogRow> = {}): LogRow {
  const time = new Date(second * 1000).toISOString();
  const writer = { kind: "worker", id: "w" };
  return { generation, time, writer, run: 1, attempt: 1, state: WORKING, type: "artifactUpdate", event: {}, ...fields };
}

const spansOf = (rows: LogRow[]) => new Folded(() => new Spans()).of(rows).all;
const shown = (rows: LogRow[]) => spansOf(rows).map(({ kind, from, to }) => [kind, from / 1000, to / 1000]);

test("a gap is between the last event of a dead attempt and the first of the next", () => {
  const rows = [row(1, 0, { attempt: 0 }), row(2, 1), row(3, 4), row(4, 9, { attempt: 2 }), row(5, 10, { attempt: 2 })];
  assert.deepEqual(shown(rows), [["attempt", 1, 4], ["gap", 4, 9], ["attempt", 9, 10]]);
});

test("a question is open until the input that answers it", () => {
  const rows = [row(1, 1), row(2, 2, { state: "TASK_STATE_INPUT_REQUIRED" }), row(3, 8, { attempt: 0, run: 3 })];
  assert.deepEqual(shown(rows), [["attempt", 1, 2], ["waiting", 2, 8]]);
});

test("a tool call lasts from its first event to its result", () => {
  const call = (data: object) => ({
    event: { artifactUpdate: { artifact: { parts: [{ data, metadata: { agui_tool_call_id: "c" } }] } } },
  });
  const rows = [row(1, 1, call({ name: "weather" })), row(2, 3, call({ content: 1 }))];
  assert.deepEqual(spansOf(rows).filter(({ kind }) => kind === "tool").map(({ label, to }) => [label, to]), [["weather", 3000]]);
  assert.equal(summaryOf(rows[0]!), '{"name":"weather"}');
});

test("a step ends with its record, and began as long before as it took", () => {
  const step = (fields: object) => ({ event: { statusUpdate: { metadata: { "headrace.step": { name: "charge", ...fields } } } } });
  const rows = [row(1, 1, step({ state: "started" })), row(2, 3, step({ state: "completed", seconds: 1.5 }))];
  assert.deepEqual(spansOf(rows).filter(({ kind }) => kind === "step"), [
    { kind: "step", label: "step charge", from: 1500, to: 3000 },
  ]);
  assert.equal(summaryOf(rows[1]!), "step charge completed");
});

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
