import type { Json } from "../gateway";

export const OPERATIONS = ["SendMessage", "SendStreamingMessage", "GetTask", "ListTasks"] as const;
export type Operation = (typeof OPERATIONS)[number];

/** What an operation is asked with. */
export interface Asked {
  agent: string;
  text: string;
  task: string;
  /** Ids of what is sent. */
  message: string;
  thread: string;
}

/** A request in one binding or dialect. */
export interface RawRequest {
  binding: string;
  transport: "http" | "websocket" | "grpc";
  /** HTTP's. */
  method: "GET" | "POST";
  /** Below the gateway's address; over gRPC the service and its method. */
  path: string;
  /** Over gRPC the metadata. */
  headers: Record<string, string>;
  /** JSON: a body, a WebSocket's frame or a gRPC message; empty: none. */
  body: string;
}

const V1 = { "A2A-Version": "1.0" };
const V03 = { "A2A-Version": "0.3" };

/** Returns the same request in each binding that has the operation. */
export function requestsOf(operation: Operation, asked: Asked): RawRequest[] {
  const agent = `v1/agents/${encodeURIComponent(asked.agent)}`;
  const parts = [{ text: asked.text }];
  const message = { messageId: asked.message, role: "ROLE_USER", parts };
  const old = { kind: "message", messageId: asked.message, role: "user", parts: [{ kind: "text", text: asked.text }] };
  const run = {
    threadId: asked.thread,
    runId: asked.message,
    state: {},
    messages: [{ id: asked.message, role: "user", content: asked.text }],
    tools: [],
    context: [],
    forwardedProps: {},
  };
  const task = encodeURIComponent(asked.task);
  const frame = (content: Json): RawRequest => ({
    ...get("WebSocket", `${agent}/stream?A2A-Version=1.0`, {}),
    transport: "websocket",
    body: JSON.stringify({ id: 1, ...content }),
  });
  const socketRpc = (params: Json) => frame({ jsonrpc: "2.0", method: operation, params });
  const grpc = (content: Json): RawRequest => ({
    ...post("gRPC", `lf.a2a.v1.A2AService/${operation}`, {}, content),
    transport: "grpc",
    headers: { "agent-name": asked.agent, "a2a-version": "1.0" },
  });
  const rpc = (binding: string, headers: Record<string, string>, method: string, params: Json) =>
    post(binding, agent, headers, { jsonrpc: "2.0", id: 1, method, params });
  switch (operation) {
    case "SendMessage":
      return [
        post("REST", `${agent}/message:send`, V1, { message }),
        rpc("JSON-RPC", V1, "SendMessage", { message }),
        post("REST, A2A 0.3", `${agent}/v1/message:send`, V03, { message: old }),
        rpc("JSON-RPC, A2A 0.3", V03, "message/send", { message: old }),
        post("Hector", `${agent}/message:send?format=hector`, {}, { message }),
        socketRpc({ message }),
        grpc({ message }),
      ];
    case "SendStreamingMessage":
      return [
        post("REST", `${agent}/message:stream`, V1, { message }),
        rpc("JSON-RPC", V1, "SendStreamingMessage", { message }),
        post("REST, A2A 0.3", `${agent}/v1/message:stream`, V03, { message: old }),
        rpc("JSON-RPC, A2A 0.3", V03, "message/stream", { message: old }),
        post("AG-UI", `${agent}/ag-ui`, { Accept: "text/event-stream" }, run),
        post("Hector", `${agent}/message:stream?format=hector`, {}, { message }),
        frame({ send: { message } }),
        grpc({ message }),
      ];
    case "GetTask":
      return [
        get("REST", `${agent}/tasks/${task}`, V1),
        rpc("JSON-RPC", V1, "GetTask", { id: asked.task }),
        get("REST, A2A 0.3", `${agent}/v1/tasks/${task}`, V03),
        rpc("JSON-RPC, A2A 0.3", V03, "tasks/get", { id: asked.task }),
        get("Log", `${agent}/tasks/${task}/log`, {}),
        socketRpc({ id: asked.task }),
        grpc({ id: asked.task }),
      ];
    case "ListTasks":
      return [
        get("REST", `${agent}/tasks?pageSize=10`, V1),
        rpc("JSON-RPC", V1, "ListTasks", { pageSize: 10 }),
        socketRpc({ pageSize: 10 }),
        grpc({ pageSize: 10 }),
      ];
  }
}

function post(binding: string, path: string, headers: Record<string, string>, body: Json): RawRequest {
  const all = { "Content-Type": "application/json", ...headers };
  return { binding, transport: "http", method: "POST", path, headers: all, body: JSON.stringify(body) };
}

function get(binding: string, path: string, headers: Record<string, string>): RawRequest {
  return { binding, transport: "http", method: "GET", path, headers, body: "" };
}
