// The AI SDK's chats, one for each name that an order gives. An order is a line of stdin; each change of
// a chat is a line of stdout: its messages, its status, its error, and how many of its orders are done.

import { createInterface } from "node:readline";
import { Chat } from "@ai-sdk/react";
import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} from "ai";

const chats = new Map();

const open = ({ chat: name, url, agent, id, token, body, tools = {} }) => {
  const held = { url, path: `/v1/agents/${agent}/ai-sdk`, done: 0, calls: [], finished: [] };
  held.headers = token ? { Authorization: `Bearer ${token}` } : undefined;
  const chat = (held.chat = new Chat({
    id,
    transport: new DefaultChatTransport({
      api: held.path,
      headers: held.headers,
      body,
      // As a load balancer: the client has one address, and gateways come and go behind it.
      fetch: (path, init) => fetch(held.url + path, init),
    }),
    sendAutomaticallyWhen: (given) =>
      lastAssistantMessageIsCompleteWithToolCalls(given) ||
      lastAssistantMessageIsCompleteWithApprovalResponses(given),
    onToolCall: ({ toolCall: { toolCallId, toolName } }) => {
      held.calls.push(toolCallId);
      const output = tools[toolName];
      if (output !== undefined) chat.addToolOutput({ tool: toolName, toolCallId, output });
    },
    onError: (error) => (held.error = { kind: error.name, message: error.message }),
    onFinish: ({ finishReason, isDisconnect }) => held.finished.push({ finishReason, isDisconnect }),
  }));
  const tell = () => {
    const { messages, status } = chat;
    if (status !== "error") held.error = undefined;
    const { done, error, calls, finished } = held;
    console.log(JSON.stringify({ chat: name, messages, status, error, done, calls, finished }));
  };
  chat["~registerMessagesCallback"](tell);
  chat["~registerStatusCallback"](tell);
  return Object.assign(held, { tell });
};

const orders = {
  send: ({ chat }, { message }) => chat.sendMessage(message),
  regenerate: ({ chat }) => chat.regenerate(),
  resume: (held, { url }) => {
    held.url = url;
    return held.chat.resumeStream();
  },
  halt: ({ chat }) => chat.stop(),
  stop: async (held, { url }) => {
    const { path, headers, chat } = held;
    const answer = await fetch(`${url}${path}/${chat.id}/stop`, { method: "POST", headers });
    held.finished.push(await answer.json());
  },
  approve: ({ chat }, { approval }) => chat.addToolApprovalResponse(approval),
};

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  if (order.do === "open") {
    chats.set(order.chat, open(order));
    continue;
  }
  const held = chats.get(order.chat);
  orders[order.do](held, order).finally(() => {
    held.done += 1;
    held.tell();
  });
}
