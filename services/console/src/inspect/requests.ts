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
  method: "GET" | "POST";
  /** Below the gateway's address. */
  path: string;
  headers: Record<string, string>;
  /** JSON; empty: none. */
  body: string;
}

const V1 = { "A2A-Version": "1.0" };
const V03 = { "A2A-Version": "0.3" };

/** Returns the same request in each binding that browsers can use and that has the operation. */
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
      ];
    case "SendStreamingMessage":
      return [
        post("REST", `${agent}/message:stream`, V1, { message }),
        rpc("JSON-RPC", V1, "SendStreamingMessage", { message }),
        post("REST, A2A 0.3", `${agent}/v1/message:stream`, V03, { message: old }),
        rpc("JSON-RPC, A2A 0.3", V03, "message/stream", { message: old }),
        post("AG-UI", `${agent}/ag-ui`, { Accept: "text/event-stream" }, run),
        post("Hector", `${agent}/message:stream?format=hector`, {}, { message }),
      ];
    case "GetTask":
      return [
        get("REST", `${agent}/tasks/${task}`, V1),
        rpc("JSON-RPC", V1, "GetTask", { id: asked.task }),
        get("REST, A2A 0.3", `${agent}/v1/tasks/${task}`, V03),
        rpc("JSON-RPC, A2A 0.3", V03, "tasks/get", { id: asked.task }),
        get("Log", `${agent}/tasks/${task}/log`, {}),
      ];
    case "ListTasks":
      return [get("REST", `${agent}/tasks?pageSize=10`, V1), rpc("JSON-RPC", V1, "ListTasks", { pageSize: 10 })];
  }
}

function post(binding: string, path: string, headers: Record<string, string>, body: Json): RawRequest {
  const all = { "Content-Type": "application/json", ...headers };
  return { binding, method: "POST", path, headers: all, body: JSON.stringify(body) };
}

function get(binding: string, path: string, headers: Record<string, string>): RawRequest {
  return { binding, method: "GET", path, headers, body: "" };
}

export const LANGUAGES = ["curl", "Python", "TypeScript"] as const;
export type Language = (typeof LANGUAGES)[number];

/**
 * Returns the request as code.
 *
 * @param root The gateway's address.
 * @param hasToken Whether a token is sent. It is read from the environment, never shown.
 */
export function codeOf(language: Language, request: RawRequest, root: string, hasToken: boolean): string {
  const url = root + request.path;
  if (language === "curl") return curlOf(url, request, hasToken);
  return language === "Python" ? pythonOf(url, request, hasToken) : typescriptOf(url, request, hasToken);
}

function curlOf(url: string, { method, headers, body }: RawRequest, hasToken: boolean): string {
  const lines = [`curl -N -X ${method} ${quoted(url)}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (hasToken) lines.push('-H "Authorization: Bearer $TOKEN"');
  if (body) lines.push(`--data-raw ${quoted(body)}`);
  return lines.join(" \\\n  ");
}

function pythonOf(url: string, { method, headers, body }: RawRequest, hasToken: boolean): string {
  // A JSON string is a Python literal, too.
  const given = Object.entries(headers).map(([name, value]) => `    ${JSON.stringify(name)}: ${JSON.stringify(value)},`);
  if (hasToken) given.push('    "Authorization": f"Bearer {os.environ[\'TOKEN\']}",');
  return [
    ...(hasToken ? ["import os", ""] : []),
    "import httpx",
    "",
    `headers = {\n${given.join("\n")}\n}`,
    ...(body ? [`body = ${JSON.stringify(body)}`] : []),
    `with httpx.stream(${JSON.stringify(method)}, ${JSON.stringify(url)}, headers=headers${body ? ", content=body" : ""}, timeout=None) as answer:`,
    "    for text in answer.iter_text():",
    '        print(text, end="")',
  ].join("\n");
}

function typescriptOf(url: string, { method, headers, body }: RawRequest, hasToken: boolean): string {
  const given = Object.entries(headers).map(([name, value]) => `    ${JSON.stringify(name)}: ${JSON.stringify(value)},`);
  if (hasToken) given.push("    Authorization: `Bearer ${process.env.TOKEN}`,");
  return [
    `const answer = await fetch(${JSON.stringify(url)}, {`,
    `  method: ${JSON.stringify(method)},`,
    `  headers: {\n${given.join("\n")}\n  },`,
    ...(body ? [`  body: ${JSON.stringify(body)},`] : []),
    "});",
    "for await (const text of answer.body!.pipeThrough(new TextDecoderStream())) console.log(text);",
  ].join("\n");
}

/** Returns a text as one word of a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
