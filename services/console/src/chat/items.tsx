import { Check, Wrench, X } from "lucide";
import { useState } from "preact/hooks";

import { withoutArguments } from "../approval/decision";
import { JsonTree } from "../json_tree";
import { goesOn } from "../markdown/continued";
import { Markdown } from "../markdown/markdown";
import { likeRows, nameOf, type LikeRows } from "../task/like_rows";
import { Icon } from "../ui/icon";
import { FileView } from "./file_view";
import { fileIn, type FileContent } from "./files";
import type { Item, UserMessage } from "./transcript";

type Of<K extends Item["kind"]> = Extract<Item, { kind: K }>;

/** What a user said, with the files that came with it. */
export function UserView({ message }: { message: UserMessage }) {
  const { content } = message;
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);
  return (
    <div class="user">
      {parts.map((part: any, at) => {
        const file = fileIn(part);
        return file ? <FileView key={at} file={file} /> : <Markdown key={at} text={String(part.text ?? "")} />;
      })}
    </div>
  );
}

/** Whether the run goes on; what it asks about, if it waits for an answer, is shown with the question. */
export type Phase = "running" | "asking" | "over";

interface Listed {
  items: Item[];
  phase: Phase;
}

/** Items in the order in which they began; calls of one tool after another are folded. */
export function Items({ items, phase }: Listed) {
  return (
    <>
      {likeRows(inWhole(items.filter(hasContent)), isLike).map((like) => {
        const item = like.rows[0]!;
        if (like.rows.length > 1) return <LikeItems key={`like ${item.kind} ${item.id}`} like={like} phase={phase} />;
        return <ItemView key={`${item.kind} ${item.id}`} item={item} phase={phase} />;
      })}
    </>
  );
}

/** Calls come with texts that have no words. */
function hasContent(item: Item): boolean {
  return item.kind !== "text" || item.text.trim() !== "";
}

/** Returns items with the texts that went on behind a checkpoint as one. */
function inWhole(items: Item[]): Item[] {
  const whole: Item[] = [];
  for (const item of items) {
    const before = whole.at(-1);
    if (item.kind === "text" && before?.kind === "text" && goesOn(before.text, item.text)) whole[whole.length - 1] = { ...before, text: before.text + item.text };
    else whole.push(item);
  }
  return whole;
}

/** Texts are never folded: they are the answer. */
function isLike(one: Item, other: Item): boolean {
  if (one.kind === "tool" && other.kind === "tool") return one.name === other.name;
  return one.kind === "reasoning" && other.kind === "reasoning";
}

/** Calls of one tool, with what the model thought before each; they are in the page while they are shown. */
function LikeItems({ like, phase }: { like: LikeRows<Item>; phase: Phase }) {
  const [isOpen, setOpen] = useState(false);
  const calls = like.rows.filter((item) => item.kind === "tool");
  const isBusy = phase === "running" && calls.some(({ result }) => result === null);
  const failed = calls.filter(({ isError }) => isError).length;
  const name = (item: Item) => (item.kind === "tool" ? item.name : "thought");
  return (
    <details class="card tool" open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary class="card-head">
        <Icon of={isBusy ? Wrench : Check} size={14} />
        <span class="mono name">{nameOf(like, name)}</span>
        {failed > 0 && <span class="bad-text">{failed.toLocaleString()} failed</span>}
        {isBusy && <span class="busy-mark" aria-hidden="true" />}
      </summary>
      {isOpen && <div class="nested">{like.rows.map((item) => <ItemView key={`${item.kind} ${item.id}`} item={item} phase={phase} />)}</div>}
    </details>
  );
}

function ItemView({ item, phase }: { item: Item; phase: Phase }) {
  switch (item.kind) {
    case "text":
      return <Markdown text={phase === "asking" ? withoutArguments(item.text) : item.text} />;
    case "reasoning":
      return <Reasoning item={item} />;
    case "tool":
      return <ToolCall item={item} phase={phase} />;
    case "activity":
      return <Activity item={item} />;
    case "subagent":
      return <Subagent item={item} phase={phase} />;
    case "step":
      return (
        <p class="step">
          <span class={item.isOpen ? "dot busy" : "dot good"} aria-hidden="true" />
          {item.name}
          <span class="unseen">{item.isOpen ? ", in progress" : ", done"}</span>
        </p>
      );
    case "notice":
      return <p class="notice">{item.text}</p>;
  }
}

function Reasoning({ item }: { item: Of<"reasoning"> }) {
  return (
    <details class="reasoning">
      <summary>
        {item.isOpen ? "Thinking" : "Thought"}
        {item.title && `: ${item.title}`}
        {item.isOpen && <span class="busy-mark" aria-hidden="true" />}
      </summary>
      <Markdown text={item.text} />
    </details>
  );
}

/** A call: open while it goes on, and a line once it is done, unless the user wants to see it. */
function ToolCall({ item, phase }: { item: Of<"tool">; phase: Phase }) {
  const isDone = item.result !== null;
  const [wanted, setWanted] = useState<boolean | null>(null);
  const isBusy = !isDone && phase === "running";
  const isShown = wanted ?? isBusy;
  return (
    <details class="card tool" open={isShown} onToggle={({ currentTarget: { open } }) => open !== isShown && setWanted(open)}>
      <summary class="card-head">
        <Icon of={item.isError ? X : isDone ? Check : Wrench} size={14} />
        <span class="mono name">{item.name}</span>
        {item.isError && <span class="bad-text">failed</span>}
        <span class="soft brief">{isBusy ? (item.isOpen ? "arguments come" : "waits for its result") : !isDone && phase === "asking" ? "waits for your answer" : briefly(item.args)}</span>
        {isBusy && <span class="busy-mark" aria-hidden="true" />}
      </summary>
      {item.args && <Content label="arguments" text={item.args} />}
      {item.result !== null && <Content label="result" text={item.result} />}
    </details>
  );
}

/** Characters of arguments that a line has. */
const BRIEF = 120;

/** Returns arguments as a line: the values of an object, which say most. */
function briefly(args: string): string {
  const value = jsonOf(args);
  const values = value && typeof value === "object" && !Array.isArray(value) ? Object.values(value) : [value ?? args];
  return values.map((one) => (typeof one === "string" ? one : JSON.stringify(one) ?? "")).join(", ").slice(0, BRIEF);
}

function Content({ label, text }: { label: string; text: string }) {
  const value = jsonOf(text);
  return (
    <div class="content">
      <span class="content-label">{label}</span>
      {value !== undefined && typeof value === "object" ? (
        <JsonTree value={value} isOpen={text.length < 2000} />
      ) : (
        <pre>{text}</pre>
      )}
    </div>
  );
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function Activity({ item }: { item: Of<"activity"> }) {
  const files = filesIn(item);
  if (files.length > 0) return <>{files.map((file, at) => <FileView key={at} file={file} />)}</>;
  return (
    <div class="card">
      <div class="card-head">
        <span class="name">{item.content?.["title"] ?? item.type}</span>
        {item.content?.["title"] && <span class="soft">{item.type}</span>}
      </div>
      <JsonTree value={item.content} isOpen />
    </div>
  );
}

function filesIn(item: Of<"activity">): FileContent[] {
  const parts = item.type === "artifact" ? item.content?.["parts"] : null;
  if (!Array.isArray(parts)) return [];
  return parts.map((part) => fileIn(part)).filter((file) => file !== null);
}

function Subagent({ item, phase }: { item: Of<"subagent">; phase: Phase }) {
  const state = item.outcome === "" ? "busy" : item.outcome === "success" ? "good" : "warn";
  return (
    <details class="subagent" open>
      <summary>
        <span class={`dot ${state}`} aria-hidden="true" />
        <span class="name">{item.name}</span> <span class="soft">{item.outcome === "success" ? "done" : item.outcome || "working"}</span>
      </summary>
      <div class="nested">
        <Items items={item.items} phase={phase} />
      </div>
    </details>
  );
}
