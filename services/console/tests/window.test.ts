import assert from "node:assert/strict";
import { test } from "node:test";

import { elapsed, ticksOf } from "../src/task/units";
import { moved, WHOLE, zoomed } from "../src/task/window";

test("a window is zoomed around a point, and never beyond the whole", () => {
  assert.deepEqual(zoomed(WHOLE, 0.5), { from: 0.25, to: 0.75 });
  assert.deepEqual(zoomed(WHOLE, 0.5, 0), { from: 0, to: 0.5 });
  assert.deepEqual(zoomed({ from: 0.25, to: 0.75 }, 4), WHOLE);
});

test("a window is moved by a share of its width, and stops at the ends", () => {
  assert.deepEqual(moved({ from: 0.25, to: 0.75 }, 0.25), { from: 0.375, to: 0.875 });
  assert.deepEqual(moved({ from: 0.25, to: 0.75 }, -2), { from: 0, to: 0.5 });
  assert.deepEqual(moved(WHOLE, 1), WHOLE);
});

test("ticks are round times from 0 on, and durations are as people write them", () => {
  assert.deepEqual(ticksOf(2_080, 5), [0, 500, 1_000, 1_500, 2_000]);
  assert.deepEqual([0, 999, 1_500, 61_000, 7_260_000, 259_200_000].map(elapsed), ["0 ms", "999 ms", "1.50 s", "1 min 1 s", "2 h 1 min", "3 days 0 h"]);
});
