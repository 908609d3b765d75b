import assert from "node:assert/strict";
import { test } from "node:test";

import { Folded } from "../src/task/fold";
import type { LogRow } from "../src/task/timeline";
import { Usage } from "../src/task/usage";

function row(data: object, type = "usage"): LogRow {
  const parts = [{ data, metadata: { agui_event_type: type } }];
  return { event: { statusUpdate: { status: { message: { parts } } } } } as unknown as LogRow;
}

test("usage is the sum of what the agent has reported", () => {
  const rows = [
    row({ inputTokens: 5, outputTokens: 2, cost: 0.5 }),
    row({ inputTokens: 5, outputTokens: 2, totalTokens: 9 }),
    row({ inputTokens: 100 }, "custom"),
    { event: { statusUpdate: { status: {} } } } as unknown as LogRow,
    row({ outputTokens: 1, cost: 0.25 }),
  ];
  const { tokens, cost } = new Folded(() => new Usage()).of(rows);
  assert.deepEqual([tokens, cost], [17, 0.75]);
});
