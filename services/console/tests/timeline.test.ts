import assert from "node:assert/strict";
import { test } from "node:test";

import { spansOf, summaryOf, type LogRow } from "../src/task/timeline";

const WORKING = "TASK_STATE_WORKING";

function row(generation: number, second: number, fields: Partial<LogRow> = {}): LogRow {
  const time = new Date(second * 1000).toISOString();
  const writer = { kind: "worker", id: "w" };
  return { generation, time, writer, run: 1, attempt: 1, state: WORKING, type: "artifactUpdate", event: {}, ...fields };
}

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
