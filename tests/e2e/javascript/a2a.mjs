// Drives the official A2A client: a message as told by a line of stdin, what came of it on stdout.
//
// in:  { url, text, binding?, cancelAfter? }   (binding: JSONRPC, HTTP+JSON or GRPC)
// out: { agent, states, texts, task, listed }

import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";

import { Role, TaskState } from "@a2a-js/sdk";
import { ClientFactory, ClientFactoryOptions } from "@a2a-js/sdk/client";
import { GrpcTransportFactory } from "@a2a-js/sdk/client/grpc";

const textOf = (parts) =>
  parts.map(({ content }) => (content?.$case === "text" ? content.value : "")).join("");

const drive = async (order) => {
  const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
    transports: [new GrpcTransportFactory()],
    preferredTransports: order.binding ? [order.binding] : undefined,
  });
  const client = await new ClientFactory(options).createFromUrl(order.url);

  // The client's types demand every field.
  const tenant = "";
  const part = { content: { $case: "text", value: order.text }, filename: "", mediaType: "" };
  const message = {
    messageId: randomUUID(),
    contextId: "",
    taskId: "",
    role: Role.ROLE_USER,
    parts: [part],
    extensions: [],
    referenceTaskIds: [],
  };
  const states = [];
  const texts = [];
  let id = "";
  for await (const { payload } of client.sendMessageStream({ tenant, message })) {
    const { $case, value } = payload;
    id ||= $case === "task" ? value.id : value.taskId;
    if (value.status) states.push(TaskState[value.status.state]);
    if ($case === "artifactUpdate") texts.push(textOf(value.artifact.parts));
    if ($case === "artifactUpdate" && texts.length === order.cancelAfter) {
      await client.cancelTask({ tenant, id });
    }
  }

  const task = await client.getTask({ tenant, id });
  const { tasks } = await client.listTasks({
    tenant,
    contextId: task.contextId,
    status: TaskState.TASK_STATE_UNSPECIFIED,
    pageToken: "",
  });
  return {
    agent: (await client.getAgentCard()).name,
    states,
    texts,
    task: {
      id,
      state: TaskState[task.status.state],
      text: task.artifacts.map(({ parts }) => textOf(parts)).join(""),
    },
    listed: tasks.map((listed) => listed.id),
  };
};

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await drive(JSON.parse(line)))}\n`);
}
