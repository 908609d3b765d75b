import assert from "node:assert/strict";
import { test } from "node:test";

import { Folded } from "../src/task/fold";
import { LogLines, matching } from "../src/task/log_lines";
import { inWords } from "../src/approval/verdict";
import type { LogRow } from "../src/task/timeline";

let count = 0;

function row(event: object, fields: Partial<LogRow> = {}): LogRow {
  count += 1;
  const writer = { kind: "worker", id: "w" };
  const time = new Date(count * 1000).toISOString();
  return { generation: count, time, writer, run: 1, attempt: 1, state: "TASK_STATE_WORKING", type: "statusUpdate", event, ...fields };
}

const parts = (...all: object[]) => row({ statusUpdate: { status: { message: { messageId: "m", parts: all } } } });
const piece = (text: string, id = "b", fields: object = {}) => parts({ text, metadata: { agui_event_type: "content_block", agui_block_id: id, ...fields } });
const noted = (metadata: object, state = "TASK_STATE_WORKING", said: object[] = []) =>
  row({ statusUpdate: { status: { state, message: { parts: said } }, metadata } }, { state });
const tool = (part: object, hints: object = {}) => parts({ ...part, metadata: { agui_event_type: "tool_call", agui_tool_call_id: "c", ...hints } });
const lines = (...rows: LogRow[]) => new Folded(() => new LogLines()).of(rows).all;
const shown = (...rows: LogRow[]) => lines(...rows).map(({ kind, who, title, text }) => [kind, who, title, text]);

test("a run of text is one line, whatever blocks it has", () => {
  const rows = [piece("one "), piece("two"), piece("three", "b2"), noted({ "headrace.attempt": 2 }), piece("four", "b3")];
  assert.deepEqual(shown(...rows).map(([kind, , , text]) => [kind, text]), [["text", "one two\nthree"], ["state", "taken over by a worker"], ["text", "four"]]);
  assert.deepEqual(lines(...rows)[0]!.generations, rows.slice(0, 3).map(({ generation }) => generation));
});

test("words of texts that go on at a time do not mix", () => {
  const rows = [piece("one "), piece("other "), piece("a", "b2"), piece("two"), piece("b", "b2"), piece(" three")];
  assert.deepEqual(shown(...rows).map(([, , , text]) => text), ["one other \nab", "two three"]);
});

test("an event that says nothing is no line", () => {
  assert.deepEqual(shown(noted({}), parts({ data: {}, metadata: { agui_event_type: "state_delta" } }), row({})), []);
});

test("a call is a line with its arguments, which may come in pieces, and its result", () => {
  const rows = [
    tool({ text: '{"city":' }, { agui_tool_name: "weather", agui_partial: true }),
    tool({ text: '"Rome"}' }, { agui_partial: true }),
    tool({ data: { content: { degrees: 18 } } }, { agui_is_error: false }),
  ];
  assert.deepEqual(shown(...rows), [["tool", "", "weather", '{"city":"Rome"}']]);
  assert.deepEqual(lines(...rows).map(({ result, look }) => [result, look]), [['{"degrees":18}', "good"]]);
  const failed = lines(tool({ data: { name: "pay", arguments: {} } }), tool({ data: { error: "no funds" } }, { agui_is_error: true }));
  assert.deepEqual(failed.map(({ result, look }) => [result, look]), [["no funds", "bad"]]);
});

test("what a child says is its agent's", () => {
  const rows = [
    noted({ "headrace.child": { task: "t", generation: 0, agent: "writer" } }),
    piece("hello", "b", { agui_subagent_run_id: "t" }),
    noted({ "headrace.child": { task: "t", generation: 4, state: "TASK_STATE_COMPLETED" } }),
  ];
  assert.deepEqual(shown(...rows), [["child", "", "writer", "completed"], ["text", "writer", "Answer", "hello"]]);
});

test("steps, attempts, questions and ends are told in words", () => {
  const step = (fields: object) => noted({ "headrace.step": { name: "charge", ...fields } });
  const rows = [
    noted({ "headrace.attempt": 2, "headrace.worker": "worker-1" }),
    step({ state: "started" }), step({ state: "completed", seconds: 1.5 }),
    noted({ "headrace.interrupts": [{ id: "q", message: "Pay?" }] }, "TASK_STATE_INPUT_REQUIRED"),
    noted({ "headrace.memory": { conversation: 1 } }, "TASK_STATE_COMPLETED", [{ text: "Done." }]),
  ];
  assert.deepEqual(shown(...rows), [
    ["state", "", "Attempt 2", "taken over by worker-1"],
    ["step", "", "charge", "completed in 1.5 s"],
    ["question", "", "Asks", "Pay?"],
    ["state", "", "Completed", "Done.; memory written: conversation 1"],
  ]);
});

test("an attempt that begins a text anew has a line of its own", () => {
  const said = (attempt: number, text: string, append: boolean) =>
    row({ artifactUpdate: { artifact: { artifactId: "a", parts: [{ text }] }, append } }, { attempt });
  assert.deepEqual(shown(said(1, "1 ", false), said(1, "2", true), said(2, "1 ", false)).map(([, , , text]) => text), ["1 2", "1 "]);
});

test("lines are found by kind and by what they say", () => {
  const all = lines(piece("Rome is warm"), tool({ data: { name: "weather", arguments: { city: "Rome" } } }));
  const found = (kinds: ("text" | "tool")[], search: string) => matching(all, new Set(kinds), search).map(({ kind }) => kind);
  assert.deepEqual([found([], "ROME"), found(["tool"], ""), found(["text"], "weather")], [["text", "tool"], ["tool"], []]);
});

test("an answer is told in words", () => {
  const answers = [{ approved: true }, { approved: false, reason: "too dear" }, { size: "large", count: 2, note: "" }, "yes", ["a"], 5];
  assert.deepEqual(answers.map(inWords), ["Approved", "Rejected, reason: too dear", "size: large, count: 2", "yes", '["a"]', "5"]);
});
