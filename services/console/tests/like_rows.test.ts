import assert from "node:assert/strict";
import { test } from "node:test";

import { likeRows, nameOf } from "../src/task/like_rows";

const folded = (rows: string) => likeRows([...rows], (one, other) => one === other).map((one) => one.rows.join(""));

test("rows that repeat are together, also in turn with others", () => {
  assert.deepEqual(folded("abbbbbbc"), ["a", "bbbbbb", "c"]);
  assert.deepEqual(folded("xababababababy"), ["x", "abababababab", "y"]);
  assert.deepEqual(folded("abcabcabcabcabcab"), ["abcabcabcabcabc", "a", "b"]);
});

test("few like rows stay as they are, and so do rows that are all different", () => {
  assert.deepEqual(folded("aaaab"), ["a", "a", "a", "a", "b"]);
  assert.deepEqual(folded("abcdefgh"), [..."abcdefgh"]);
  assert.deepEqual(folded(""), []);
});

test("like rows are called by their names, and how many there are of each", () => {
  const named = likeRows(Array<string>(5_000).fill("search"), (one, other) => one === other);
  assert.equal(nameOf(named[0]!, (one) => one), "search × 5,000");
  const turns = likeRows([..."abababababab"], (one, other) => one === other);
  assert.equal(nameOf(turns[0]!, (one) => one), "a, b × 6");
});
