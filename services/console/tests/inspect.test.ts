import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";

import { problemsOf } from "../src/inspect/card_problems";
import { codeOf, OPERATIONS, requestsOf, type RawRequest } from "../src/inspect/requests";

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
  assert.ok(paths.every((path) => path.startsWith("v1/agents/a") && !path.includes("t/1")));
  assert.equal(new Set(OPERATIONS.map((one) => requestsOf(one, ASKED).length)).size, 3);
});

test("curl gets hostile texts as they are, and the token from the environment", () => {
  const [request] = requestsOf("SendMessage", ASKED) as [RawRequest];
  const code = codeOf("curl", request, "http://127.0.0.1:1/", true).replace(/^curl/, 'printf "%s\\0"');
  const words = execFileSync("sh", ["-c", code], { env: { ...process.env, TOKEN: "secret" } }).toString().split("\0");
  assert.deepEqual([words[3], words.at(-2)], ["http://127.0.0.1:1/v1/agents/a/message:send", request.body]);
  assert.ok(words.includes("Authorization: Bearer secret"));
  assert.ok(!code.includes("secret"));
});

test("TypeScript gets hostile texts as they are", async () => {
  const [request] = requestsOf("SendMessage", ASKED) as [RawRequest];
  const code = codeOf("TypeScript", request, "http://x/", false).split("\nfor await")[0]!;
  let sent: RequestInit = {};
  const fake = async (_: string, init: RequestInit) => void (sent = init);
  await new Function("fetch", `return (async () => { ${code} })()`)(fake);
  assert.equal(sent.body, request.body);
});
