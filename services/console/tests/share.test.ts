import assert from "node:assert/strict";
import { test } from "node:test";

import { retired, shareOf, type Version } from "../src/versions/share";

const candidate = (fields: object) => ({ percent: 0, tenants: [], headers: {}, ...fields });

function sharesOf(...given: Partial<Version>[]): string[] {
  const all = given.map((one, at) => ({ version: `${at + 1}`, current: false, candidate: null, workers: [], openTasks: 0, continuedBy: null, ...one }));
  return all.map((one) => shareOf(one, all));
}

test("the current version gets what a candidate does not", () => {
  assert.deepEqual(sharesOf({ current: true }, {}), ["all", "none"]);
  assert.deepEqual(sharesOf({ current: true }, { candidate: candidate({ percent: 10 }) }, {}), ["90 % of contexts", "10 % of contexts", "none"]);
});

test("tenants and headers of a candidate are named", () => {
  const rule = candidate({ tenants: ["acme"], headers: { "x-canary": "yes" } });
  assert.deepEqual(sharesOf({ candidate: rule }, { current: true }), ["tenant acme, x-canary: yes", "100 % of contexts, without the other's rules"]);
});

test("a candidate without a rule gets nothing", () => {
  assert.deepEqual(sharesOf({ current: true }, { candidate: candidate({}) }), ["100 % of contexts", "none"]);
});

test("what a retirement has done is told with its tasks, and with the workers that announce it again", () => {
  const version: Version = { version: "1", current: false, candidate: null, workers: [], openTasks: 1, continuedBy: null };
  assert.equal(retired(version, 0, undefined), "Version 1 is retired.");
  assert.equal(retired({ ...version, workers: ["a"] }, 2, "2"), "Version 1 is retired: version 2 continues 2 open tasks. Stop its workers, which still run.");
  assert.equal(retired(version, 1, ""), "Version 1 is retired: version not pinned continues 1 open task.");
});
