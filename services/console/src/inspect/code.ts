import { socketUrl } from "./socket";
import type { RawRequest } from "./requests";

const LANGUAGES = {
  http: ["curl", "Python", "TypeScript"],
  websocket: ["Python", "TypeScript"],
  grpc: ["grpcurl", "Python"],
} as const;
export type Language = (typeof LANGUAGES)[RawRequest["transport"]][number];

/** Returns the languages in which a request can be had as code. */
export function languagesOf({ transport }: RawRequest): readonly Language[] {
  return LANGUAGES[transport];
}

/** Where a request goes: the gateway's address, and the one of its gRPC port. */
export interface Addresses {
  root: string;
  /** Host and port; empty: the card names none. */
  grpc: string;
}

/**
 * Returns the request as code.
 *
 * @param hasToken Whether a token is sent. It is read from the environment, never shown.
 */
export function codeOf(language: Language, request: RawRequest, { root, grpc }: Addresses, hasToken: boolean): string {
  const isPython = language === "Python";
  if (request.transport === "websocket") {
    const url = socketUrl(root + request.path);
    return isPython ? socketPythonOf(url, request, hasToken) : socketTypescriptOf(url, request, hasToken);
  }
  if (request.transport === "grpc") {
    const isPlain = root.startsWith("http:");
    return isPython ? grpcPythonOf(grpc, request, isPlain, hasToken) : grpcurlOf(grpc, request, isPlain, hasToken);
  }
  const url = root + request.path;
  if (language === "curl") return curlOf(url, request, hasToken);
  return isPython ? pythonOf(url, request, hasToken) : typescriptOf(url, request, hasToken);
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

function socketPythonOf(url: string, { body }: RawRequest, hasToken: boolean): string {
  const options = hasToken ? ', additional_headers={"Authorization": f"Bearer {os.environ[\'TOKEN\']}"}' : "";
  return [
    "import json",
    ...(hasToken ? ["import os"] : []),
    "",
    "from websockets.sync.client import connect",
    "",
    `with connect(${JSON.stringify(url)}${options}) as socket:`,
    `    socket.send(${JSON.stringify(body)})`,
    "    for answer in socket:",
    "        print(answer)",
    '        if json.loads(answer).keys() & {"result", "error", "end"}:',
    "            break",
  ].join("\n");
}

function socketTypescriptOf(url: string, { body }: RawRequest, hasToken: boolean): string {
  const protocols = hasToken ? ', ["headrace", `bearer.${process.env.TOKEN}`]' : "";
  return [
    `const socket = new WebSocket(${JSON.stringify(url)}${protocols});`,
    `socket.onopen = () => socket.send(${JSON.stringify(body)});`,
    "socket.onmessage = ({ data }) => {",
    "  console.log(data);",
    "  const { result, error, end } = JSON.parse(data);",
    "  if (result || error || end) socket.close();",
    "};",
  ].join("\n");
}

function grpcurlOf(address: string, { path, headers, body }: RawRequest, isPlain: boolean, hasToken: boolean): string {
  const lines = [`grpcurl${isPlain ? " -plaintext" : ""}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (hasToken) lines.push('-H "authorization: Bearer $TOKEN"');
  lines.push(`-d ${quoted(body)}`, `${quoted(address)} ${path}`);
  return lines.join(" \\\n  ");
}

function grpcPythonOf(address: string, { path, headers, body }: RawRequest, isPlain: boolean, hasToken: boolean): string {
  const method = path.split("/")[1]!;
  const type = `${method.replace("Streaming", "")}Request`;
  const channel = isPlain ? `insecure_channel(${JSON.stringify(address)})` : `secure_channel(${JSON.stringify(address)}, grpc.ssl_channel_credentials())`;
  const metadata = Object.entries(headers).map(([name, value]) => `    (${JSON.stringify(name)}, ${JSON.stringify(value)}),`);
  if (hasToken) metadata.push('    ("authorization", f"Bearer {os.environ[\'TOKEN\']}"),');
  const call = `A2AServiceStub(channel).${method}(request, metadata=metadata)`;
  return [
    ...(hasToken ? ["import os", ""] : []),
    "import grpc",
    `from a2a.types.a2a_pb2 import ${type}`,
    "from a2a.types.a2a_pb2_grpc import A2AServiceStub",
    "from google.protobuf.json_format import MessageToJson, Parse",
    "",
    `request = Parse(${JSON.stringify(body)}, ${type}())`,
    `metadata = [\n${metadata.join("\n")}\n]`,
    `with grpc.${channel} as channel:`,
    ...(method.includes("Streaming")
      ? [`    for event in ${call}:`, "        print(MessageToJson(event))"]
      : [`    print(MessageToJson(${call}))`]),
  ].join("\n");
}

/** Returns a text as one word of a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
