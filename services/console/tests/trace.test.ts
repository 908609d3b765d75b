import assert from "node:assert/strict";
import { test } from "node:test";

import { Folded } from "../src/task/fold";
import { Trace, type Span } from "../src/task/trace";
import type { LogRow } from "../src/task/timeline";

const WORKING = "TASK_STATE_WORKING";
let count = 0;

function row(second: number, fields: Partial<LogRow> = {}): LogRow {
  count += 1;
  const writer = { kind: "worker", id: "w" };
  const time = new Date(second * 1000).toISOString();
  return { generation: count, time, writer, run: 1, attempt: 1, state: WORKING, type: "statusUpdate", event: {}, ...fields };
}

const message = { role: "ROLE_USER", parts: [{ text: "hello" }] };
const asked = (second: number) => row(second, { attempt: 0, event: { task: { history: [message] } } });
const status = (second: number, state: string) => row(second, { state: `TASK_STATE_${state}`, event: { statusUpdate: { status: { state: `TASK_STATE_${state}` } } } });
const said = (second: number, part: object, child = "") => {
  const { metadata = {}, ...rest } = part as { metadata?: object };
  const hints = child ? { agui_subagent_run_id: child, ...metadata } : metadata;
  return row(second, { event: { statusUpdate: { status: { message: { parts: [{ ...rest, metadata: hints }] } } } } });
};
const child = (second: number, update: object) => row(second, { event: { statusUpdate: { metadata: { "headrace.child": update } } } });
const step = (second: number, fields: object) => row(second, { event: { statusUpdate: { metadata: { "headrace.step": fields } } } });
const call = (second: number, name: string) => said(second, { data: { id: "c", name }, metadata: { agui_event_type: "tool_call", agui_tool_call_id: "c" } });
const answer = (second: number, isError = false) =>
  said(second, { data: { content: 1 }, metadata: { agui_event_type: "tool_call", agui_tool_call_id: "c", agui_is_error: isError } });
const usage = (second: number, data: object, by = "") => said(second, { data, metadata: { agui_event_type: "usage" } }, by);

const trace = (...rows: LogRow[]) => new Folded(() => new Trace()).of(rows);
const shown = (...rows: LogRow[]) => trace(...rows).flat.map(({ span, depth }) => [depth, span.kind, span.name, span.from / 1000, span.to / 1000]);
const found = (one: Trace, name: string): Span => one.flat.find(({ span }) => span.name === name)!.span;

test("the time between a dead attempt and the next has no worker", () => {
  const rows = [asked(0), row(0.1), row(4), row(9, { attempt: 2 }), row(10, { attempt: 2 })];
  assert.deepEqual(shown(...rows), [
    [0, "attempt", "Attempt 1", 0.1, 4],
    [0, "gap", "No worker", 4, 9],
    [0, "attempt", "Attempt 2", 9, 10],
  ]);
});

test("a run that waits for a worker says so", () => {
  assert.deepEqual(shown(asked(0), row(3)).map(([, kind, , from, to]) => [kind, from, to]), [["queue", 0, 3], ["attempt", 3, 3]]);
});

test("a question is open until the input that answers it, which begins another run", () => {
  const input = row(8, { attempt: 0, run: 9, event: { statusUpdate: { status: { message } } } });
  const rows = [asked(0), row(0.1), status(2, "INPUT_REQUIRED"), input, row(8.1, { run: 9 })];
  assert.deepEqual(shown(...rows), [
    [0, "run", "Run 1", 0, 2],
    [1, "attempt", "Attempt 1", 0.1, 2],
    [0, "waiting", "Waits for an answer", 2, 8],
    [0, "run", "Run 2", 8, 8.1],
    [1, "attempt", "Attempt 1", 8.1, 8.1],
  ]);
  assert.equal(found(trace(...rows.slice(0, 3)), "Waits for an answer").isOpen, true);
});

test("a model's call begins when it could, and ends with its usage, which counts upwards", () => {
  const text = { text: "18 °C", metadata: { agui_event_type: "content_block" } };
  const spent = { model: "m-1", inputTokens: 4, outputTokens: 8, cost: 0.5 };
  const one = trace(asked(0), row(0.1), call(1, "weather"), answer(2), said(3, text), usage(4, spent), status(5, "COMPLETED"));
  assert.deepEqual(one.flat.map(({ span }) => [span.kind, span.name, span.from / 1000, span.to / 1000]), [
    ["attempt", "Attempt 1", 0.1, 5],
    ["model", "Model", 0.1, 1],
    ["tool", "weather", 1, 2],
    ["model", "m-1", 2, 4],
  ]);
  assert.deepEqual([found(one, "m-1").tokens, found(one, "Attempt 1").tokens, found(one, "Attempt 1").cost], [12, 12, 0.5]);
});

test("a tool that failed says so, and what it never answered is over with its run", () => {
  assert.equal(found(trace(asked(0), row(0), call(1, "pay"), answer(2, true)), "pay").hasFailed, true);
  const one = trace(asked(0), row(0), call(1, "pay"), status(2, "FAILED"));
  assert.deepEqual([found(one, "pay").isOpen, found(one, "Attempt 1").hasFailed], [false, true]);
});

test("a child is called by its agent, and what it does is in it, also two levels deep", () => {
  const one = trace(
    asked(0), row(0),
    child(1, { task: "a", generation: 0, agent: "planner" }),
    child(2, { task: "a", generation: 3, child: { task: "b", generation: 0, agent: "writer" } }),
    usage(3, { model: "m", totalTokens: 7 }, "b"),
    child(4, { task: "a", generation: 4, child: { task: "b", generation: 5, state: "TASK_STATE_FAILED" } }),
    child(5, { task: "a", generation: 9, state: "TASK_STATE_COMPLETED" }),
  );
  const inOrder = one.flat.map(({ span, depth }) => [depth, span.kind, span.name]);
  assert.deepEqual(inOrder, [[0, "attempt", "Attempt 1"], [1, "child", "planner"], [2, "child", "writer"], [3, "model", "m"]]);
  assert.deepEqual([found(one, "planner").tokens, found(one, "writer").hasFailed, found(one, "planner").isOpen], [7, true, false]);
  assert.deepEqual([found(one, "planner").task, found(one, "planner").to], ["a", 5000]);
});

test("a step ends with its record, and a wait is named by what it waits for", () => {
  const rows = [asked(0), row(0), step(1, { name: "charge", state: "started" }), step(3, { name: "charge", state: "completed", seconds: 1.5 })];
  assert.deepEqual(shown(...rows).at(-1), [1, "step", "charge", 1.5, 3]);
  const waits = trace(asked(0), row(0), step(1, { name: "ctx.wait", use: "webhook/paid", state: "started" }));
  assert.equal(found(waits, "wait for webhook/paid").isOpen, true);
});
