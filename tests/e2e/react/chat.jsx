// CopilotKit's chat with a tool of the page's own, from docs/guides/copilotkit.md. What it shows goes to
// whoever serves the page, whose answer may be something to do: { type } a text, or { press } the
// button as soon as it is one to "send", or to "stop", or { click } a surface's button with that text.

import { App } from "guide";
import { createRoot } from "react-dom/client";

const asked = new URLSearchParams(location.search);
const errors = [];
console.error = (...said) => errors.push(said.map(String).join(" "));
addEventListener("error", ({ message }) => errors.push(message));
addEventListener("unhandledrejection", ({ reason }) => errors.push(String(reason)));
const token = asked.get("token");
const headers = token ? { Authorization: `Bearer ${token}` } : undefined;

if (asked.get("expired")) {
  const real = window.fetch;
  window.fetch = async (...given) => {
    const answer = await real(...given);
    if (!String(given[0]).endsWith(":sign")) return answer;
    window.fetch = real;
    return Response.json({ url: (await answer.json()).url.replace(/.{9}$/, "AAAAAAAA=") });
  };
}

createRoot(document.getElementById("root")).render(
  <App
    runtime={asked.get("runtime")}
    agent={asked.get("agent")}
    thread={asked.get("thread")}
    headers={headers}
    onError={({ error }) => errors.push(String(error))}
  />,
);

// A chat that is opened connects to its thread, and the end of that also ends the display of a run that
// was begun meanwhile: its stop button goes away.
performance.setResourceTimingBufferSize(100_000);
const connected = () =>
  performance.getEntriesByType("resource").some(({ name }) => name.endsWith("/connect"));

const found = (name) => document.querySelector(`[data-testid="copilot-${name}"]`);
const setter = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value").set;

const type = (text) => {
  const area = found("chat-textarea");
  setter.call(area, text);
  area.dispatchEvent(new Event("input", { bubbles: true }));
};

let telling = false;
let press = null;
setInterval(async () => {
  if (telling) return;
  telling = true;
  const shown = (name) =>
    [...document.querySelectorAll(`[data-testid="copilot-${name}"]`)].map((e) => e.innerText.trim());
  const button = found("send-button");
  const running = button?.querySelector(".lucide-square") != null;
  const sendable = button?.disabled === false && !running;
  if ((press === "send" && sendable) || (press === "stop" && running)) {
    button.click();
    press = null;
  }
  const surfaces = [...document.querySelectorAll("[data-surface-id]")];
  const said = {
    ready: found("chat-textarea") !== null && connected(),
    typed: found("chat-textarea")?.value ?? "",
    running,
    sendable,
    user: shown("user-message"),
    assistant: shown("assistant-message").filter((text) => text !== ""),
    files: [...document.querySelectorAll("a[download]")].map(({ download, href }) => [download, href]),
    images: [...document.querySelectorAll("img[alt]")].map(({ alt, src, naturalWidth }) => [
      alt,
      src,
      naturalWidth,
    ]),
    surfaces: surfaces.map((surface) => [
      surface.innerText.trim().split("\n"),
      [...surface.querySelectorAll("input")].map(({ value }) => value),
    ]),
    background: document.body.style.background,
    errors,
  };
  try {
    const answer = await fetch("/seen", { method: "POST", body: JSON.stringify(said) });
    const todo = await answer.json();
    if (todo.type !== undefined) type(todo.type);
    press ??= todo.press;
    const buttons = surfaces.flatMap((surface) => [...surface.querySelectorAll("button")]);
    if (todo.click !== undefined) buttons.findLast((it) => it.innerText.trim() === todo.click).click();
  } finally {
    telling = false;
  }
}, 100);
