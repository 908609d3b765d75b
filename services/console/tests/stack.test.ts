import assert from "node:assert/strict";
import { test } from "node:test";

const HERE = "http://127.0.0.1:81/console/";
const globals = globalThis as any;
globals.location = { hash: "", href: HERE, port: "81", hostname: "127.0.0.1" };
globals.addEventListener = () => {};
globals.sessionStorage = { getItem: (key: string) => (key === "headrace.token" ? "secret" : null), setItem: () => {}, removeItem: () => {} };
const { DevStack, nameOf } = await import("../src/break/stack");

const process = (role: string, index: number, fields = {}) => ({ role, index, pid: 10 + index, port: 80 + index, running: true, worker: null, ...fields }) as any;
const OWN = process("gateway", 1);
const OTHER = process("gateway", 2);

/** Answers each request with the next of `answers`; null: no connection. Returns what was asked. */
function answering(...answers: ([number, object] | null)[]): { url: string; headers: Headers; method: string }[] {
  const asked: { url: string; headers: Headers; method: string }[] = [];
  globals.fetch = async (url: string, { headers, method = "GET" }: RequestInit = {}) => {
    asked.push({ url, headers: new Headers(headers), method });
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    if (!answer) throw new TypeError("no connection");
    return new Response(JSON.stringify(answer[1]), { status: answer[0] });
  };
  return asked;
}

test("a stack knows its own gateway, and a process as it is now", async () => {
  const stack = new DevStack();
  answering([200, { processes: [OTHER, OWN, process("worker", 0)] }]);
  await stack.refresh();
  assert.deepEqual([stack.own, stack.gateways.length, nameOf(OTHER)], [OWN, 2, "gateway-2"]);
  assert.equal(stack.current({ ...OWN, pid: 99 })?.pid, OWN.pid);
  assert.equal(stack.current(process("nats", 0)), undefined);
});

test("the list stays while the page's gateway does not answer", async () => {
  const stack = new DevStack();
  answering([200, { processes: [OWN] }], null, [503, {}]);
  for (let times = 0; times < 3; times += 1) await stack.refresh();
  assert.deepEqual(stack.processes, [OWN]);
});

test("a refusal is told, with its reason", async () => {
  answering([403, { error: { message: "not you" } }]);
  await assert.rejects(new DevStack().refresh(), { status: 403, message: "not you" });
});

test("other gateways are asked at their ports, with the token", async () => {
  const asked = answering([200, {}]);
  const stack = new DevStack();
  await stack.fetchFrom(OTHER, "v1/agents");
  await stack.fetchFrom(OWN, "v1/agents");
  const [there, here] = asked.map(({ url }) => url);
  assert.deepEqual([there, here], ["http://127.0.0.1:82/v1/agents", "http://127.0.0.1:81/v1/agents"]);
  assert.deepEqual(asked.map(({ headers }) => headers.get("Authorization")), ["Bearer secret", "Bearer secret"]);
});

test("a kill is asked for until the gateway answers; after its own it can't", async () => {
  let asked = answering(null, [200, {}]);
  await new DevStack().kill(process("worker", 3));
  assert.deepEqual(asked.map(({ method, url }) => [method, url.slice(19)]), Array(2).fill(["POST", "/v1/dev/processes/worker/3:kill"]));
  asked = answering(null);
  await new DevStack().kill(OWN);
  assert.equal(asked.length, 1);
});
