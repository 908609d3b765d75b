import assert from "node:assert/strict";
import { test } from "node:test";

// What a page has, and the list's modules read when they are loaded.
Object.assign(globalThis, { location: { href: "http://gateway/console/" }, sessionStorage: { getItem: () => null } });
const { TaskList } = await import("../src/task_list");

const NOTHING = { tasks: [], totalSize: 0, nextPageToken: "" };

/** Returns a list's errors, and how often it was asked for: at first, and six seconds later. */
async function asked(answers: (() => Response)[]): Promise<[string, number][]> {
  const found: [string, number][] = [];
  let count = 0;
  test.mock.timers.enable({ apis: ["setTimeout"] });
  test.mock.method(globalThis, "fetch", async () => answers[count++]!());
  const list = new TaskList("counter", { page: "2" });
  await list.open();
  found.push([list.error, count]);
  test.mock.timers.tick(6_000);
  for (let turn = 0; turn < 10; turn += 1) await new Promise(setImmediate);
  found.push([list.error, count]);
  list.close();
  test.mock.reset();
  return found;
}

test("a list that is not answered is asked for again", async () => {
  const lost = () => {
    throw new TypeError("no answer");
  };
  const away = () => Response.json({ error: { message: "away" } }, { status: 503 });
  const answer = () => Response.json(NOTHING);
  assert.deepEqual(await asked([lost, answer]), [["no answer", 1], ["", 2]]);
  assert.deepEqual(await asked([away, answer]), [["away", 1], ["", 2]]);
});

test("a list that is refused is not asked for again", async () => {
  const refused = () => Response.json({ error: { message: "no" } }, { status: 403 });
  assert.deepEqual(await asked([refused]), [["no", 1], ["no", 1]]);
});
