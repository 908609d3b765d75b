import assert from "node:assert/strict";
import { test } from "node:test";

const location = { hash: "", href: "" };
let hashChanged = () => {};
Object.assign(globalThis, {
  location,
  history: { replaceState: (_state: unknown, _title: string, fragment: string) => (location.hash = fragment) },
  addEventListener: (_name: string, listener: () => void) => (hashChanged = listener),
});
const { linkTo, placeOf, route } = await import("../src/route");

test("a link leads to the place that it was made of", () => {
  const parts = ["tasks", "a/b", "ü?#%"];
  const place = placeOf(linkTo(parts, { status: "a&b", context: "", after: "x?y" }));
  assert.deepEqual(place.parts, parts);
  assert.deepEqual([...place.query], [["status", "a&b"], ["after", "x?y"]]);
});

test("a broken escape in the address is shown as it is", () => {
  assert.deepEqual(placeOf("#/chat/%zz").parts, ["chat", "%zz"]);
});

test("a page that is being left does not take the address back", () => {
  const page = ["tasks", "a", "1"];
  route.go(linkTo(page));
  hashChanged();
  route.replace(page, linkTo(page, { at: "3" }));
  assert.equal(location.hash, "#/tasks/a/1?at=3");
  assert.equal(route.place.query.get("at"), "3");
  route.go("#/tasks/a/2");
  route.replace(page, linkTo(page));
  assert.equal(location.hash, "#/tasks/a/2");
  hashChanged(); // The page before is still rendered.
  route.replace(page, linkTo(page));
  assert.equal(location.hash, "#/tasks/a/2");
  assert.deepEqual(route.place.parts, ["tasks", "a", "2"]);
});
