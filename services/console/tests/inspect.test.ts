import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";

import { problemsOf } from "../src/inspect/card_problems";
import { codeOf } from "../src/inspect/code";
import { OPERATIONS, requestsOf, type RawRequest } from "../src/inspect/requests";

const PAGE = "https://example.com/v1/agents/a/.well-known/agent-card.json";
const CARD = {
  name: "A",
  description: "Does it.",
  version: "1",
  defaultInputModes: ["text/plain"],
  defaultOutputModes: ["text/plain"],
  capabilities: {},
  supportedInterfaces: [{ url: "https://example.com/v1/agents/a", protocolBinding: "JSONRPC", protocolVersion: "1.0" }],
  skills: [{ id: "s", name: "S", description: "Does it.", tags: ["t"] }],
  signatures: [{ protected: "p", signature: "s" }],
};
const found = (card: object) => problemsOf(card, PAGE).map(({ where, isError }) => `${isError ? "!" : "?"} ${where}`);

test("a whole card has no problem", () => {
  assert.deepEqual(found(CARD), []);
});

test("what A2A asks for and is missing is an error", () => {
  const fields = ["name", "description", "version", "defaultInputModes", "defaultOutputModes", "capabilities", "supportedInterfaces", "skills"];
  assert.deepEqual(found({ signatures: CARD.signatures }), fields.map((name) => `! ${name}`));
});

test("interfaces, skills and security are looked into", () => {
  const card = {
    ...CARD,
    supportedInterfaces: [
      { url: "/a", protocolBinding: "SOAP", protocolVersion: "" },
      { url: "http://other.example/a", protocolBinding: "HTTP+JSON", protocolVersion: "1.0" },
      { url: "other.example:443", protocolBinding: "GRPC", protocolVersion: "1.0" },
    ],
    skills: [CARD.skills[0], { ...CARD.skills[0], tags: [] }],
    securityRequirements: [{ schemes: { token: {} } }],
    signatures: [],
  };
  assert.deepEqual(found(card), [
    "! supportedInterfaces[0].protocolBinding",
    "! supportedInterfaces[0].protocolVersion",
    "! supportedInterfaces[0].url",
    "? supportedInterfaces[1].url",
    "? supportedInterfaces[1].url",
    "! skills[1].tags",
    "! skills[1].id",
    "! securityRequirements[0]",
    "? signatures",
  ]);
});

const ASKED = { agent: "a", text: "it's \"so\" $HOME `id` \\ \n${x} é", task: "t/1", message: "m", thread: "th" };

test("names in paths are escaped", () => {
  const paths = requestsOf("GetTask", ASKED).map(({ path }) => path);
  assert.ok(paths.every((path) => /^(v1\/agents\/a|lf\.a2a)/.test(path) && !path.includes("t/1")));
  assert.equal(new Set(OPERATIONS.map((one) => requestsOf(one, ASKED).length)).size, 3);
});

test("curl gets hostile texts as they are, and the token from the environment", () => {
  const [request] = requestsOf("SendMessage", ASKED) as [RawRequest];
  const code = codeOf("curl", request, { root: "http://127.0.0.1:1/", grpc: "" }, true).replace(/^curl/, 'printf "%s\\0"');
  const words = execFileSync("sh", ["-c", code], { env: { ...process.env, TOKEN: "secret" } }).toString().split("\0");
  assert.deepEqual([words[3], words.at(-2)], ["http://127.0.0.1:1/v1/agents/a/message:send", request.body]);
  assert.ok(words.includes("Authorization: Bearer secret"));
  assert.ok(!code.includes("secret"));
});

test("TypeScript gets hostile texts as they are", async () => {
  const [request] = requestsOf("SendMessage", ASKED) as [RawRequest];
  const code = codeOf("TypeScript", request, { root: "http://x/", grpc: "" }, false).split("\nfor await")[0]!;
  let sent: RequestInit = {};
  const fake = async (_: string, init: RequestInit) => void (sent = init);
  await new Function("fetch", `return (async () => { ${code} })()`)(fake);
  assert.equal(sent.body, request.body);
});

const of = (transport: string) => requestsOf("SendStreamingMessage", ASKED).find((one) => one.transport === transport)!;

test("grpcurl gets hostile texts as they are, the agent as metadata and the token from the environment", () => {
  const code = codeOf("grpcurl", of("grpc"), { root: "http://x/", grpc: "h:1" }, true).replace(/^grpcurl/, 'printf "%s\\0"');
  const words = execFileSync("sh", ["-c", code], { env: { ...process.env, TOKEN: "secret" } }).toString().split("\0").slice(0, -1);
  const metadata = ["-H", "agent-name: a", "-H", "a2a-version: 1.0", "-H", "authorization: Bearer secret"];
  assert.deepEqual(words, ["-plaintext", ...metadata, "-d", of("grpc").body, "h:1", "lf.a2a.v1.A2AService/SendStreamingMessage"]);
  assert.ok(!codeOf("grpcurl", of("grpc"), { root: "https://x/", grpc: "h:1" }, false).includes("-plaintext"));
});

test("a WebSocket's code sends the frame and closes after the last message", () => {
  const sockets: any[] = [];
  class FakeSocket {
    sent: string[] = [];
    isClosed = false;
    constructor(readonly url: string, readonly protocols: string[]) {
      sockets.push(this);
    }
    send(frame: string) {
      this.sent.push(frame);
    }
    close() {
      this.isClosed = true;
    }
  }
  const code = codeOf("TypeScript", of("websocket"), { root: "https://x/p/", grpc: "" }, true);
  const silent = { log: () => {} };
  new Function("WebSocket", "process", "console", code)(FakeSocket, { env: { TOKEN: "secret" } }, silent);
  const [socket] = sockets;
  socket.onopen();
  socket.onmessage({ data: '{"id":1,"event":{}}' });
  assert.deepEqual([socket.url, socket.protocols], ["wss://x/p/v1/agents/a/stream?A2A-Version=1.0", ["headrace", "bearer.secret"]]);
  assert.deepEqual([socket.sent, socket.isClosed], [[of("websocket").body], false]);
  socket.onmessage({ data: '{"id":1,"end":true}' });
  assert.ok(socket.isClosed);
});
