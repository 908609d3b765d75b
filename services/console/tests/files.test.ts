import assert from "node:assert/strict";
import { test } from "node:test";

(globalThis as any).location = { href: "http://gateway.example/console/", hash: "" };
(globalThis as any).addEventListener = () => {};
(globalThis as any).sessionStorage = { getItem: () => null };
const { storedAt } = await import("../src/chat/files");

test("an address of a stored file is requested from this gateway", () => {
  const path = "v1/agents/shop/tasks/3-a1b2/files/0f.png";
  assert.ok(storedAt(`https://elsewhere.example/prefix/${path}`).endsWith(path));
});

for (const path of ["agents/../tasks/1/files/x", "agents/a/tasks/%2e%2e/files/x", "agents/a/tasks/1/files/.."]) {
  test(`an address with ${path} is no stored file's`, () => {
    assert.equal(storedAt(`https://elsewhere.example/v1/${path}`), "");
  });
}
