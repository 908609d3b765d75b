import assert from "node:assert/strict";
import { test } from "node:test";

import { problemsOf } from "../src/operate/unwell";

const WELL = {
  agents: [{ name: "shop", available: true }],
  workers: [{ id: "w", heartbeatSeconds: 1 }],
  queues: [{ agent: "shop", waiting: 0, running: 3, oldestSeconds: null }],
  streams: [{ name: "EVENTS", bytes: 10, maxBytes: null, replicas: 1, currentReplicas: 1 }],
  ranges: [{ stream: "EVENTS", lag: 3 }],
};

test("a fleet that is well has no problems", () => {
  assert.deepEqual(problemsOf(WELL), []);
});

test("what is unwell is named, the worst first", () => {
  const state = {
    ...WELL,
    agents: [{ name: "shop", available: true }, { name: "bank", available: false }],
    queues: [{ agent: "shop", waiting: 4, oldestSeconds: 61.2 }, { agent: "bank", waiting: 1, oldestSeconds: 2 }],
    workers: [{ id: "w", heartbeatSeconds: 12 }],
    streams: [{ name: "EVENTS", bytes: 96, maxBytes: 100, replicas: 3, currentReplicas: 2 }],
    ranges: [{ stream: "EVENTS", lag: null }],
  };
  const told = problemsOf(state).map(({ subject, text, isBad }) => `${isBad ? "!" : ""}${subject}: ${text}`);
  assert.deepEqual(told, [
    "!bank: no worker serves it, and 1 run waits",
    "!stream EVENTS: 96 % full",
    "!task state: does not answer for stream EVENTS",
    "shop: 4 runs waiting, the oldest for 61 s",
    "w: no heartbeat for 12 s",
    "stream EVENTS: 2 of 3 replicas are current",
  ]);
});
