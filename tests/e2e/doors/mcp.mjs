// MCP's official clients for JavaScript: one order on stdin, what came of it on stdout.
import { readFileSync } from "node:fs";

import * as newer from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const { era, url, agent, text, context, answer, task } = JSON.parse(readFileSync(0, "utf8"));
const info = { name: "test", version: "1" };
const capabilities = { elicitation: {} };
const questions = [];
const pieces = [];
const statuses = [];
const elicit = async ({ params }) => {
  questions.push(params.message);
  return { action: "accept", content: { answer } };
};
const onprogress = ({ message }) => message && pieces.push(message);

async function connected() {
  const address = new URL(`${url}/mcp`);
  if (era === "modern") {
    const client = new newer.Client(info, { capabilities, versionNegotiation: { mode: "auto" } });
    client.setRequestHandler("elicitation/create", elicit);
    await client.connect(new newer.StreamableHTTPClientTransport(address));
    return client;
  }
  const client = new Client(info, { capabilities });
  client.setRequestHandler(ElicitRequestSchema, elicit);
  await client.connect(new StreamableHTTPClientTransport(address));
  return client;
}

// The tasks that the revision of 2025-11-25 has itself.
async function taskResult(client, params) {
  let result;
  for await (const one of client.experimental.tasks.callToolStream(params, undefined, { task: {} })) {
    if (one.type === "error") throw one.error;
    statuses.push(one.task?.status ?? one.type);
    result = one.result;
  }
  return result;
}

const client = await connected();
const { tools } = await client.listTools();
const params = { name: agent, arguments: { message: text, context } };
const options = { onprogress, timeout: 60_000 };
let result;
if (task) result = await taskResult(client, params);
else if (era === "modern") result = await client.callTool(params, options);
else result = await client.callTool(params, undefined, options);
console.log(JSON.stringify({ tools: tools.map((one) => one.name), result, questions, pieces, statuses }));
await client.close();
