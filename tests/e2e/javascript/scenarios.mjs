// Runs the scenarios of tests/support/client_scenarios.py with the official A2A client.
//
// in:  { here, there, known, binding, hook, token }   (gateways' URLs; a webhook; a credential)
// out: { scenario: outcome }

import { randomUUID } from "node:crypto";

import { Role, TaskState } from "@a2a-js/sdk";
import { ClientFactory, ClientFactoryOptions } from "@a2a-js/sdk/client";
import { GrpcTransportFactory } from "@a2a-js/sdk/client/grpc";

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const order = JSON.parse(Buffer.concat(chunks).toString("utf8"));

const factory = new ClientFactory(
  ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
    transports: [new GrpcTransportFactory()],
    preferredTransports: [order.binding],
  }),
);
const connect = (gateway, agent) => factory.createFromUrl(`${gateway}/v1/agents/${agent}/`);
const counter = await connect(order.here, "counter");
const elsewhere = await connect(order.there, "counter");
const asker = await connect(order.here, "asker");

// The client's types demand every field.
const tenant = "";
const asking = (text, more = {}, configuration = undefined) => ({
  tenant,
  configuration,
  message: {
    messageId: randomUUID(),
    contextId: "",
    taskId: "",
    role: Role.ROLE_USER,
    parts: [{ content: { $case: "text", value: text }, filename: "", mediaType: "" }],
    extensions: [],
    referenceTaskIds: [],
    ...more,
  },
});

const state = (task) => TaskState[task.status.state];
const textOf = (parts) => parts.map(({ content }) => content.value).join("");
const answerOf = (task) => task.artifacts.map(({ parts }) => textOf(parts)).join("");
const countsUp = (text) =>
  text
    .trim()
    .split(" ")
    .every((number, index) => Number(number) === index + 1);

// Reads a stream to its end, or until `until` says so, and then hangs up.
const follow = async (stream, until = async () => false) => {
  const seen = { id: "", states: [], text: "", updates: 0, first: "" };
  for await (const { payload } of stream) {
    const { $case, value } = payload;
    seen.first ||= $case;
    if ($case === "task") {
      seen.id = value.id;
      seen.text += answerOf(value);
    }
    if (value.status) seen.states.push(state(value));
    if ($case === "artifactUpdate") {
      seen.updates += 1;
      seen.text += textOf(value.artifact.parts);
    }
    if (await until(seen)) break;
  }
  return seen;
};

const cancelAtThird = (client) => {
  let answer;
  return async ({ id, updates }) => {
    if (updates === 3 && !answer) answer = await client.cancelTask({ tenant, id });
    return false;
  };
};

const nameOfError = async (call) => {
  try {
    await call();
  } catch (error) {
    return error.name;
  }
  return "none";
};

const scenarios = {
  async send() {
    const task = await counter.sendMessage(asking("4"));
    return [state(task), answerOf(task)];
  },
  async stream() {
    const { states, text } = await follow(counter.sendMessageStream(asking("5")));
    return [states[0], states.at(-1), text];
  },
  async resubscribe() {
    const left = await follow(
      counter.sendMessageStream(asking("10000 20")),
      async ({ updates }) => updates === 2,
    );
    const again = await follow(
      elsewhere.resubscribeTask({ tenant, id: left.id }),
      cancelAtThird(elsewhere),
    );
    return [again.first, again.id === left.id, countsUp(again.text), again.states.at(-1)];
  },
  async cancel() {
    const { id, states } = await follow(
      counter.sendMessageStream(asking("10000 20")),
      cancelAtThird(elsewhere),
    );
    return [states.at(-1), state(await counter.getTask({ tenant, id }))];
  },
  async followUp() {
    const asked = await asker.sendMessage(asking("hi"));
    const done = await asker.sendMessage(asking("Ada", { taskId: asked.id }));
    const question = textOf(asked.status.message.parts);
    return [state(asked), question, state(done), answerOf(done), done.id === asked.id];
  },
  async push() {
    const { id: taskId } = await counter.sendMessage(
      asking("10000 20", {}, { acceptedOutputModes: [], returnImmediately: true }),
    );
    const config = { tenant, taskId, url: order.hook, token: "s3cret", authentication: undefined };
    await counter.createTaskPushNotificationConfig({ ...config, id: "kept" });
    await counter.createTaskPushNotificationConfig({ ...config, id: "dropped" });
    await elsewhere.deleteTaskPushNotificationConfig({ tenant, taskId, id: "dropped" });
    const one = await elsewhere.getTaskPushNotificationConfig({ tenant, taskId, id: "kept" });
    const query = { tenant, taskId, pageSize: 0, pageToken: "" };
    const { configs } = await elsewhere.listTaskPushNotificationConfig(query);
    await counter.cancelTask({ tenant, id: taskId });
    return [one.url === order.hook, one.token, configs.map(({ id }) => id)];
  },
  async list() {
    const first = await counter.sendMessage(asking("1"));
    const { contextId } = first;
    const second = await counter.sendMessage(asking("2", { contextId }));
    const status = TaskState.TASK_STATE_UNSPECIFIED;
    const page = (more) =>
      elsewhere.listTasks({ tenant, contextId, status, pageToken: "", pageSize: 1, ...more });
    const newest = await page();
    const oldest = await page({ pageToken: newest.nextPageToken });
    const listed = [...newest.tasks, ...oldest.tasks].map(({ id }) => id);
    const inOrder = listed.join() === [second.id, first.id].join();
    return [inOrder, newest.totalSize, oldest.nextPageToken];
  },
  async extendedCard() {
    const options = { serviceParameters: { authorization: `Bearer ${order.token}` } };
    const known = await connect(order.known, "asker");
    return [
      await nameOfError(() => asker.getAgentCard()),
      (await known.getAgentCard(options)).description,
    ];
  },
  async errors() {
    const { id } = await counter.sendMessage(asking("1"));
    const unknown = { tenant, id: "no-such-task" };
    return [
      await nameOfError(() => counter.getTask(unknown)),
      await nameOfError(() => counter.cancelTask(unknown)),
      await nameOfError(() => counter.sendMessage(asking("1", { taskId: unknown.id }))),
      await nameOfError(() => counter.cancelTask({ tenant, id })),
      await nameOfError(() => follow(counter.resubscribeTask({ tenant, id }))),
    ];
  },
};

const outcomes = {};
for (const [name, run] of Object.entries(scenarios)) {
  try {
    outcomes[name] = await run();
  } catch (error) {
    outcomes[name] = `${error.name}: ${error.message}`;
  }
}
process.stdout.write(JSON.stringify(outcomes));
