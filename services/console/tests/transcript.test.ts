import assert from "node:assert/strict";
import { test } from "node:test";

import { Transcript } from "../src/chat/transcript";

const text = (id: string, ...deltas: string[]) => [
  { type: "TEXT_MESSAGE_START", messageId: id, role: "assistant" },
  ...deltas.map((delta) => ({ type: "TEXT_MESSAGE_CONTENT", messageId: id, delta })),
  { type: "TEXT_MESSAGE_END", messageId: id },
];

function folded(...events: object[]) {
  const transcript = new Transcript();
  const run = transcript.begin("r1", [{ id: "u1", content: "hello" }]);
  for (const event of events) transcript.take(run, event);
  return { transcript, run };
}

test("text comes in pieces, and events that are sent again change nothing", () => {
  const events = text("m1", "one ", "two");
  const { run } = folded(...events, ...events);
  assert.deepEqual(run.items.map((item) => item.kind === "text" && item.text), ["one two"]);
});

test("a subagent's items are nested in it, and its own subagents in those", () => {
  const { run } = folded(
    { type: "SUBAGENT_STARTED", subagentRunId: "a", name: "planner" },
    { type: "SUBAGENT_STARTED", subagentRunId: "b", name: "writer", parentSubagentRunId: "a" },
    ...text("m1", "inner").map((event) => ({ ...event, subagentRunId: "b" })),
    { type: "SUBAGENT_FINISHED", subagentRunId: "b", outcome: { type: "success" } },
  );
  const [outer] = run.items as any[];
  assert.equal(outer.items[0].items[0].text, "inner");
  assert.deepEqual([outer.outcome, outer.items[0].outcome], ["", "success"]);
});

test("a snapshot retracts what a dead attempt said, and completes what is open", () => {
  const { run } = folded(
    ...text("gone", "never mind"),
    { type: "TEXT_MESSAGE_START", messageId: "m2" },
    { type: "MESSAGES_SNAPSHOT", messages: [
      { id: "u1", role: "user", content: "hello" },
      { id: "m2", role: "assistant", content: "so far" },
    ] },
    { type: "TEXT_MESSAGE_START", messageId: "m2" },
    { type: "TEXT_MESSAGE_CONTENT", messageId: "m2", delta: ", and on" },
  );
  assert.deepEqual(run.items.map((item: any) => [item.id, item.text]), [["m2", "so far, and on"]]);
  assert.equal(run.user.length, 1);
});

test("state follows snapshots and patches, which are kept", () => {
  const { transcript } = folded(
    { type: "STATE_SNAPSHOT", snapshot: { steps: [] }, timestamp: 1 },
    { type: "STATE_DELTA", delta: [{ op: "add", path: "/steps/-", value: "a" }], timestamp: 2 },
    { type: "STATE_DELTA", delta: [{ op: "remove", path: "/nothing" }], timestamp: 3 },
  );
  assert.deepEqual(transcript.state, { steps: ["a"] });
  assert.deepEqual(transcript.patches.map((patch) => patch.at), [1, 2, 3]);
});

test("a thread is restored with each message at its run", () => {
  const transcript = new Transcript();
  transcript.restore({
    state: { n: 1 },
    messages: [
      { id: "u1", role: "user", content: "one" },
      { id: "m1", role: "assistant", content: "1" },
      { id: "u2", role: "user", content: "fails" },
      { id: "u3", role: "user", content: "three" },
      { id: "m3", role: "assistant", content: "3" },
    ],
    runs: [
      { runId: "r1", taskId: "t1", events: [...text("m1", "1"), { type: "RUN_FINISHED" }] },
      { runId: "r2", taskId: "t2", events: [{ type: "RUN_ERROR", message: "broken" }] },
      { runId: "r3", taskId: "t3", events: [{ type: "RUN_STARTED" }, ...text("m3", "3")] },
    ],
  });
  assert.deepEqual(transcript.runs.map((run) => run.user.map(({ content }) => content)), [["one"], ["fails"], ["three"]]);
  assert.deepEqual(transcript.runs.map((run) => run.state), ["finished", "failed", "running"]);
  assert.equal(transcript.runs[1]!.error, "broken");
});

test("questions are open until the run that answers them begins", () => {
  const interrupts = [{ id: "q1", reason: "confirmation" }, { id: "q2", reason: "input" }];
  const { transcript } = folded({ type: "RUN_FINISHED", outcome: { type: "interrupt", interrupts } });
  assert.deepEqual(transcript.open.map(({ id }) => id), ["q1", "q2"]);
  transcript.begin("r2");
  assert.deepEqual(transcript.open, []);
});

test("a restored run has what began it: the answers, with the calls that were asked about", () => {
  const transcript = new Transcript();
  const call = [{ type: "TOOL_CALL_START", toolCallId: "c-1", toolCallName: "pay" }, { type: "TOOL_CALL_ARGS", toolCallId: "c-1", delta: "{}" }];
  const asks = { type: "RUN_FINISHED", outcome: { interrupts: [{ id: "q", reason: "tool_call", toolCallId: "c-1" }] } };
  const answers = [{ interruptId: "q", status: "resolved", payload: { approved: false } }];
  const runs = [{ runId: "1", taskId: "t", events: [...call, asks], answers: [] }, { runId: "2", taskId: "t", events: [], answers }];
  transcript.restore({ runs, messages: [], state: {} });
  const given = { isDeclined: false, payload: { approved: false }, calls: [{ id: "c-1", name: "pay", args: "{}" }] };
  assert.deepEqual(transcript.runs.map((run) => run.given), [[], [given]]);
  // What another client answers in plain words or data names no question.
  assert.deepEqual(transcript.begin("3", [], "t", [{ interruptId: "", status: "cancelled" }]).given, [{ isDeclined: true, payload: undefined, calls: [] }]);
});

test("what another thread has said comes before the first run, and goes with an edited message", () => {
  const transcript = new Transcript();
  transcript.restore({
    state: {},
    messages: [
      { id: "u1", role: "user", content: "one" },
      { id: "a1", role: "assistant", content: "1" },
      { id: "u2", role: "user", content: "two" },
      { id: "m2", role: "assistant", content: "2" },
    ],
    runs: [{ runId: "r2", taskId: "t2", events: [...text("m2", "2"), { type: "RUN_FINISHED" }] }],
  });
  assert.deepEqual(transcript.past.map(({ id }) => id), ["u1", "a1"]);
  assert.deepEqual(transcript.runs.map((run) => run.user.map(({ content }) => content)), [["two"]]);
  const run = transcript.begin("r3", [{ id: "u3", content: "three" }]);
  assert.deepEqual(transcript.before(run).map(({ id }) => id), ["u1", "a1", "u2", "m2"]);
  assert.deepEqual(transcript.before(transcript.runs[0]!).map(({ id }) => id), ["u1", "a1"]);
});

test("a failed run without an answer is no other thread's", () => {
  const transcript = new Transcript();
  const runs = [{ runId: "r1", taskId: "t1", events: [{ type: "RUN_ERROR", message: "broken" }] }];
  transcript.restore({ state: {}, messages: [{ id: "u1", role: "user", content: "one" }], runs });
  assert.deepEqual([transcript.past, transcript.runs[0]!.user.length], [[], 1]);
});
