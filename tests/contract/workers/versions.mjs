// Prints what the JavaScript worker makes of run requests of the versions on stdin; null: no header.
import { readFileSync } from "node:fs";

import { RunRequest } from "../../../examples/javascript/headrace/run_request.mjs";

const body = JSON.stringify({ log: "abcdefgh", context: "c", owner: "o" });
const task = `0-${"0".repeat(32)}`;

function found(version) {
  const present = { has: () => true, get: () => version };
  const request = new RunRequest({
    subject: `h.run.t.a.${task}.1`,
    reply: "$JS.ACK.RUNS.a.1.1.1.1.1",
    data: Buffer.from(body),
    headers: version === null ? undefined : present,
  });
  if (request.isNewer()) return "newer";
  return request.read("h") ? "unreadable" : "readable";
}

console.log(JSON.stringify(JSON.parse(readFileSync(0)).map(found)));
