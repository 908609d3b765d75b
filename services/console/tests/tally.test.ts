import assert from "node:assert/strict";
import { test } from "node:test";

import { Tally } from "../src/break/tally";

function tallyOf(...generations: number[]): number[] {
  const tally = new Tally();
  for (const generation of generations) tally.take(generation);
  return [tally.events, tally.lost, tally.repeated];
}

test("a log that comes whole has lost and repeated nothing", () => {
  assert.deepEqual(tallyOf(1, 2, 3), [3, 0, 0]);
});

test("generations that are skipped are lost, also at the beginning", () => {
  assert.deepEqual(tallyOf(2, 3, 7), [3, 4, 0]);
});

test("a generation that comes again is repeated", () => {
  assert.deepEqual(tallyOf(1, 2, 2, 1, 3), [3, 0, 2]);
});
