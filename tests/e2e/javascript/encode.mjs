// Encodes events with the official encoder.
//
// in:  [event]
// out: { frames: [base64], warnings }

import { EventEncoder } from "@ag-ui/encoder";

const warnings = [];
console.warn = console.error = (...said) => warnings.push(said.map(String).join(" "));

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const events = JSON.parse(Buffer.concat(chunks).toString("utf8"));

const encoder = new EventEncoder({ accept: "application/vnd.ag-ui.event+proto" });
const frames = events.map((event) => Buffer.from(encoder.encodeBinary(event)).toString("base64"));

process.stdout.write(JSON.stringify({ frames, warnings }));
