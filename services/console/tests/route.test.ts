import assert from "node:assert/strict";
import { test } from "node:test";

(globalThis as any).location = { hash: "", href: "" };
(globalThis as any).addEventListener = () => {};
const { linkTo, placeOf } = await import("../src/route");

test("a link leads to the place that it was made of", () => {
  const parts = ["tasks", "a/b", "ü?#%"];
  const place = placeOf(linkTo(parts, { status: "a&b", context: "", after: "x?y" }));
  assert.deepEqual(place.parts, parts);
  assert.deepEqual([...place.query], [["status", "a&b"], ["after", "x?y"]]);
});

test("a broken escape in the address is shown as it is", () => {
  assert.deepEqual(placeOf("#/chat/%zz").parts, ["chat", "%zz"]);
});
