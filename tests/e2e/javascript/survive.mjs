// Follows a task and a run while the gateway of both is killed.
//
// in:  { urls, text, gate }   gate: a file that is made once both streams are under way
// out: { task, events, resumed, frames, messages }

import { writeFileSync } from "node:fs";
import { json } from "node:stream/consumers";
import { resumeTask, streamTask } from "@headrace/client";
import { HeadraceAgent } from "@headrace/client/ag-ui";

const { urls, text, gate } = await json(process.stdin);
let underWay = 0;
const count = (seen) => {
  if (seen === 10 && ++underWay === 2) writeFileSync(gate, "");
};

const events = [];
const follow = async () => {
  for await (const event of streamTask(urls, text)) count(events.push(event));
};
const [url, ...otherUrls] = urls.map((one) => `${one}/ag-ui`);
const agent = new HeadraceAgent({ url, otherUrls });
agent.addMessage({ id: "1", role: "user", content: text });
const frames = [];
const onEvent = ({ event }) => count(frames.push(event));
await Promise.all([follow(), agent.runAgent({}, { onEvent })]);

const { task, cursor } = events[9];
const resumed = [];
for await (const event of resumeTask(urls, task, cursor)) resumed.push(event);
process.stdout.write(JSON.stringify({ task, events, resumed, frames, messages: agent.messages }));
