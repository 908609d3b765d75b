import assert from "node:assert/strict";
import { test } from "node:test";

import { countOf, rowsPath, statesOf, WAITING } from "../src/rows/query";
import { ago } from "../src/rows/time";

const NOW = Date.parse("2026-01-31T12:00:00Z");

test("filters of the address become a request; empty ones are left out", () => {
  assert.equal(rowsPath({}, [], NOW), "v1/tasks?limit=50");
  const filters = { agent: "shop", since: "24h", q: "nails & glue", owner: "" };
  const query = new URLSearchParams(rowsPath(filters, WAITING, NOW, { order: "oldest", limit: "5" }).split("?")[1]);
  assert.deepEqual(query.getAll("status"), [...WAITING]);
  assert.deepEqual(Object.fromEntries([...query].filter(([name]) => name !== "status")), {
    agent: "shop", statusTimestampAfter: "2026-01-30T12:00:00.000Z", q: "nails & glue", limit: "5", order: "oldest",
  });
  assert.equal(rowsPath({ since: "nonsense" }, [], NOW), "v1/tasks?limit=50");
});

test("a choice of states may stand for several, which are counted together", () => {
  assert.deepEqual(statesOf({ state: "waiting" }), WAITING);
  assert.deepEqual(statesOf({ state: "nonsense" }), []);
  assert.equal(countOf({ TASK_STATE_INPUT_REQUIRED: 2, TASK_STATE_AUTH_REQUIRED: 1, TASK_STATE_FAILED: 9 }, WAITING), 3);
});

test("times are told as people do", () => {
  const told = [0, 60, 3 * 3600, 50 * 3600].map((seconds) => ago(NOW - seconds * 1000, NOW));
  assert.deepEqual(told, ["just now", "1m ago", "3h ago", "2d ago"]);
});
