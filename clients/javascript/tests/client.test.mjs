// Connections that end in ways that gateways' tests can't cause at will.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ConnectionLost, RequestRefused, streamTask, watchTasks } from "@headrace/client";
import { EventsLost, HeadraceAgent } from "@headrace/client/ag-ui";

const retry = { attempts: 3, backoff: 1, silence: 200 };
const headers = { "Content-Type": "text/event-stream" };
const frame = (id, data) => `id: ${id}\ndata: ${JSON.stringify(data)}\n\n`;
const ran = { threadId: "t", runId: "r" };
const started = { type: "RUN_STARTED", ...ran };
const opened = { type: "TEXT_MESSAGE_START", messageId: "m", role: "assistant" };
const said = (delta) => ({ type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta });
const closed = { type: "TEXT_MESSAGE_END", messageId: "m" };
const finished = { type: "RUN_FINISHED", ...ran };
const begun = frame("l:1.1", started) + frame("l:2.1", opened) + frame("l:2.2", said("a"));
const resumed = frame("l:2.2", started) + frame("l:2.2", opened);
const rest = frame("l:3.1", said("b")) + frame("l:4.1", closed) + frame("l:4.2", finished);

/** A gateway that gives one answer after the other, and notes what each was asked for. */
function gateway(...answers) {
  const asked = [];
  const tokens = [];
  const bodies = [];
  const answer = async (_, init) => {
    const sent = new Headers(init.headers);
    asked.push(sent.get("Last-Event-ID"));
    tokens.push(sent.get("Authorization"));
    bodies.push(init.body ? JSON.parse(init.body) : null);
    const next = answers.shift();
    if (next instanceof Error) throw next;
    return next;
  };
  return { asked, tokens, bodies, fetch: answer };
}

function silentAfter(text) {
  const start = (controller) => controller.enqueue(new TextEncoder().encode(text));
  return new Response(new ReadableStream({ start }), { headers });
}

async function run(fetch) {
  const events = [];
  const agent = new HeadraceAgent({ url: "http://gateway", fetch, retry });
  await agent.runAgent({ runId: "r" }, { onEvent: ({ event }) => void events.push(event) });
  return { agent, events: events.map(({ type, delta }) => delta ?? type) };
}

const whole = ["RUN_STARTED", "TEXT_MESSAGE_START", "a", "b", "TEXT_MESSAGE_END", "RUN_FINISHED"];

test("a run goes on after a connection that ended, and has no event twice", async () => {
  const { asked, fetch } = gateway(
    new Response(begun, { headers: { ...headers, "Headrace-Task": "0-ab" } }),
    new TypeError("refused"),
    new Response(resumed + rest, { headers: { ...headers, "Headrace-Task": "0-ab" } }),
  );
  const { agent, events } = await run(fetch);
  assert.deepEqual(events, whole);
  assert.deepEqual(asked, [null, "l:2.2", "l:2.2"]);
  assert.equal(agent.cursor, "l:4.2");
  assert.equal(agent.task, "0-ab");
  assert.equal(agent.messages.at(-1).content, "ab");
});

test("a run waits at its beginning for a gateway that restarts", async () => {
  const { asked, fetch } = gateway(
    new TypeError("refused"),
    new TypeError("refused"),
    new Response(begun + rest, { headers }),
  );
  assert.deepEqual((await run(fetch)).events, whole);
  assert.equal(asked.length, 3);
});

test("a silent connection counts as lost", async () => {
  const { fetch } = gateway(silentAfter(begun), new Response(resumed + rest, { headers }));
  assert.deepEqual((await run(fetch)).events, whole);
});

test("a gateway that stops closes items that go on elsewhere", async () => {
  const left = { type: "RUN_ERROR", message: "restarting", code: "disconnected" };
  const stopped = begun + frame("l:2.2", closed) + frame("l:2.2", left);
  const { fetch } = gateway(
    new Response(stopped, { headers }),
    new Response(resumed + rest, { headers }),
  );
  assert.deepEqual((await run(fetch)).events, whole);
});

test("lost events are an error", async () => {
  const lost = { ...headers, "Headrace-Recovered": "false" };
  const { fetch } = gateway(
    new Response(begun, { headers }),
    new Response(frame("k:9.1", started), { headers: lost }),
  );
  await assert.rejects(run(fetch), EventsLost);
});

const stream = async (fetch) => {
  for await (const _ of streamTask("http://gateway", "hello", { fetch, retry }));
};

test("a gateway that can't be reached at the start is an error at once", async () => {
  const { asked, fetch } = gateway(new TypeError("refused"));
  await assert.rejects(stream(fetch), ConnectionLost);
  assert.equal(asked.length, 1);
});

test("a refusal is not tried again, unless the gateway is unavailable", async () => {
  const { asked, fetch } = gateway(
    new Response("", { status: 503 }),
    new Response("", { status: 404 }),
  );
  await assert.rejects(
    stream(fetch),
    (error) => error instanceof RequestRefused && error.response.status === 404,
  );
  assert.equal(asked.length, 2);
});

const task = (state, metadata) =>
  frame("l:1", { task: { id: "t1", status: { state: `TASK_STATE_${state}` }, metadata } });
const completed = frame("l:2", {
  statusUpdate: { taskId: "t1", status: { state: "TASK_STATE_COMPLETED" } },
});

async function eventsOf(fetch, message = "hello", options = {}) {
  const events = [];
  for await (const event of streamTask("http://gateway", message, { fetch, retry, ...options })) {
    events.push(event);
  }
  return events;
}

test("each request has the token, and a function is asked for the current one", async () => {
  const { asked, tokens, fetch } = gateway(
    new Response(task("WORKING"), { headers }),
    new Response(completed, { headers }),
  );
  let number = 0;
  const events = await eventsOf(fetch, "hello", { token: () => `token-${++number}` });
  assert.deepEqual(tokens, ["Bearer token-1", "Bearer token-2"]);
  assert.deepEqual(asked, [null, "l:1"]);
  assert.deepEqual(events.map((event) => event.cursor), ["l:1", "l:2"]);
  assert.ok(events.every((event) => event.recovered));
});

test("an event that replaces lost ones says so", async () => {
  const lost = task("COMPLETED", { "headrace.recovered": false });
  const { fetch } = gateway(new Response(lost, { headers }));
  const [event, ...others] = await eventsOf(fetch);
  assert.deepEqual([event.recovered, event.task, others], [false, "t1", []]);
});

test("a message that continues a task does not repeat how the task was", async () => {
  const { fetch } = gateway(new Response(task("INPUT_REQUIRED") + completed, { headers }));
  const events = await eventsOf(fetch, { parts: [{ text: "yes" }], taskId: "t1" });
  assert.deepEqual(events.map((event) => event.cursor), ["l:2"]);
});

test("a signal ends the stream", async () => {
  const { asked, fetch } = gateway(silentAfter(task("WORKING")));
  const controller = new AbortController();
  const reading = async () => {
    const options = { fetch, retry, signal: controller.signal };
    for await (const _ of streamTask("http://gateway", "hello", options)) controller.abort();
  };
  await assert.rejects(reading(), { name: "AbortError" });
  assert.equal(asked.length, 1);
});

test("a list is watched over connections, and says when to ask for it", async () => {
  const change = { task: "1", contextId: "c", state: "TASK_STATE_WORKING" };
  const named = (id, name, data) => `id: ${id}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
  const urls = [];
  const { asked, tokens, fetch } = gateway(
    new Response(named("g:1", "list", {}) + named("g:2", "change", change), { headers }),
    new Response(named("h:1", "list", {}), { headers }),
  );
  const noted = (url, init) => urls.push(url) && fetch(url, init);
  const seen = [];
  const filter = { contextId: "c&d", status: "TASK_STATE_WORKING" };
  for await (const one of watchTasks("http://g/", filter, { fetch: noted, retry, token: "secret" })) {
    if (seen.push(one) === 3) break;
  }
  assert.deepEqual(seen, [null, change, null]);
  assert.deepEqual(asked, [null, "g:2"]);
  assert.deepEqual(tokens, ["Bearer secret", "Bearer secret"]);
  assert.equal(urls[0], "http://g/tasks:watch?contextId=c%26d&status=TASK_STATE_WORKING");
});

test("a message may say when its run begins", async () => {
  const { bodies, fetch } = gateway(
    new Response(task("SUBMITTED") + completed, { headers }),
    new Response(task("SUBMITTED") + completed, { headers }),
  );
  await eventsOf(fetch, "hello", { startAt: new Date("2030-01-31T10:00:00+01:00") });
  await eventsOf(fetch);
  assert.deepEqual(
    bodies.map(({ metadata }) => metadata),
    [{ "headrace.startAt": "2030-01-31T09:00:00.000Z" }, {}],
  );
});

test("an agent's next run may say when it begins, beside what else is forwarded", async () => {
  const { bodies, fetch } = gateway(
    new Response(begun + rest, { headers }),
    new Response(begun + rest, { headers }),
  );
  const startAt = "2030-01-31T09:00:00Z";
  const agent = new HeadraceAgent({ url: "http://gateway", fetch, retry, startAt });
  const forwardedProps = { mode: "quick", headrace: { priority: "low" } };
  const { startAt: cloned } = agent.clone();
  await agent.runAgent({ runId: "r", forwardedProps });
  await agent.runAgent({ runId: "r", forwardedProps });
  assert.deepEqual(
    bodies.map((body) => body.forwardedProps),
    [{ mode: "quick", headrace: { priority: "low", startAt } }, forwardedProps],
  );
  assert.deepEqual([cloned, agent.startAt], [startAt, undefined]);
});

const redirect = (status, location) => new Response(null, { status, headers: { Location: location } });

test("a message and its stream follow a redirect that keeps the method", async () => {
  const requests = [];
  const { bodies, fetch } = gateway(
    redirect(308, "/moved"),
    new Response(task("WORKING"), { headers }),
    redirect(302, "http://gateway/tasks"),
    new Response(completed, { headers }),
  );
  const noted = (url, init) => requests.push([url, init.method ?? "GET"]) && fetch(url, init);
  const events = await eventsOf(noted);
  assert.deepEqual(events.map((event) => event.cursor), ["l:1", "l:2"]);
  assert.deepEqual(requests, [
    ["http://gateway/message:stream", "POST"],
    ["http://gateway/moved", "POST"],
    ["http://gateway/tasks/t1:subscribe", "GET"],
    ["http://gateway/tasks", "GET"],
  ]);
  assert.deepEqual(bodies[0], bodies[1]);
});

test("no redirect takes a message to another origin, or makes it a GET", async () => {
  const rules = [
    [308, "http://elsewhere/", /redirects to http:\/\/elsewhere, another origin/],
    [307, "https://gateway/", /redirects to https:\/\/gateway, another origin/],
    [302, "/moved", /redirects with 302; only a GET follows it/],
  ];
  for (const [status, location, message] of rules) {
    const { asked, fetch } = gateway(redirect(status, location));
    await assert.rejects(stream(fetch), { name: "RequestRefused", message });
    assert.equal(asked.length, 1);
    await assert.rejects(run(gateway(redirect(status, location)).fetch), { message });
  }
});

test("a redirect without end is refused", async () => {
  const { asked, fetch } = gateway(...Array.from({ length: 9 }, () => redirect(308, "/")));
  await assert.rejects(stream(fetch), { message: /more than 5 times/ });
  assert.equal(asked.length, 6);
});

test("a browser's hidden redirect is followed for a GET, and is refused for a message", async () => {
  const hidden = () => Object.defineProperty(new Response(), "type", { value: "opaqueredirect" });
  const at = (url, text) => Object.defineProperty(new Response(text, { headers }), "url", { value: url });
  const modes = [];
  const reading = (...answers) => {
    const { fetch } = gateway(...answers);
    const noted = (url, init) => modes.push(init.redirect) && fetch(url, init);
    return eventsOf(noted);
  };
  const begin = () => new Response(task("WORKING"), { headers });
  const events = await reading(begin(), hidden(), at("http://gateway/moved", completed));
  assert.deepEqual(events.map((event) => event.cursor), ["l:1", "l:2"]);
  assert.deepEqual(modes, ["manual", "manual", "follow"]);
  const elsewhere = reading(begin(), hidden(), at("http://elsewhere/", completed));
  await assert.rejects(elsewhere, { message: /another origin/ });
  await assert.rejects(reading(hidden()), { message: /redirects a message; use the URL/ });
});

test("a gateway may say by a date when to ask again", async () => {
  const answers = (date) =>
    gateway(
      new Response("", { status: 503, headers: { "Retry-After": date } }),
      new Response(completed, { headers }),
    );
  const past = answers("Wed, 21 Oct 2015 07:28:00 GMT");
  assert.equal((await eventsOf(past.fetch)).length, 1);
  const far = answers(new Date(Date.now() + 3_600_000).toUTCString());
  await assert.rejects(eventsOf(far.fetch), RequestRefused);
  assert.equal(far.asked.length, 1);
});
