// What an agent can emit, and the events it becomes (docs/bus.md, "What an agent says").

import { createHash } from "node:crypto";
import { CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, REJECTED, WORKING } from "./entry.mjs";

/** The agent's output can't be stored in a log, or not at this point. */
export class MalformedOutput extends Error {}

export const thinking = (text) => ({ kind: "thinking", text });
export const toolCall = (name, args = {}, id = "") => ({ kind: "toolCall", name, args, id });
export const toolResult = (id, content, error = "") => ({ kind: "toolResult", id, content, error });
export const file = (name, content, mediaType = "") => ({ kind: "file", name, content, mediaType });
export const data = (value, name = "") => ({ kind: "data", value, name });
export const status = (text) => ({ kind: "status", text });
export const inputRequired = (prompt, schema) => ({ ends: INPUT_REQUIRED, text: prompt, schema });
export const reject = (reason) => ({ ends: REJECTED, text: reason });
export const complete = (text) => ({ ends: COMPLETED, text });

/** Ids of one run, derived from task, run and number, so that every attempt generates the same. */
export class Ids {
  constructor(key, run, minted = {}) {
    this.minted = { ...minted };
    this.digest = createHash("sha256").update(`${key.task}/${run}`).digest("hex").slice(0, 10);
  }

  mint(kind) {
    const number = this.minted[kind] ?? 0;
    this.minted[kind] = number + 1;
    return `${kind}-${this.digest}-${number}`;
  }
}

/** Converts the output of one run's agent to events without generations. */
export class Encoder {
  #text; // the open text block
  #thought; // the open reasoning
  #continues = false; // whether the next text continues the open block

  constructor(key, context, ids, nextIndex = 0) {
    Object.assign(this, { key, context, ids, nextIndex, artifacts: new Set() });
  }

  /** The events of one emission that does not end the run. */
  events(emission) {
    if (typeof emission === "string") return emission === "" ? [] : this.#answer(emission);
    switch (emission?.kind) {
      case "thinking":
        return emission.text === "" ? [] : this.#think(emission.text);
      case "toolCall":
        return [...this.#endThought(), this.#statusUpdate([this.#call(emission)])];
      case "toolResult":
        return [...this.#endThought(), this.#statusUpdate([result(emission)])];
      case "file":
        return [this.#artifact("file", filePart(emission), emission.name)];
      case "data":
        return [this.#artifact("data", { data: json(emission.value), mediaType: "application/json" }, emission.name)];
      case "status":
        return [this.#statusUpdate([notice(emission.text, "task")])];
      default:
        throw new MalformedOutput(`not allowed as output of an agent: ${typeof emission}`);
    }
  }

  /** The event that ends the run. */
  end({ ends, text, schema }) {
    if (text !== undefined && typeof text !== "string") throw new MalformedOutput("the text of an end must be a string");
    const kind = ends === REJECTED || ends === FAILED ? "error" : undefined;
    const message = text || schema ? this.#message([kind ? notice(text, kind) : { text: text ?? "" }]) : undefined;
    if (schema) message.metadata = { "headrace.inputSchema": schema };
    return { event: this.status(ends, message), state: ends, message };
  }

  canceled = () => this.end({ ends: CANCELED });
  failed = (reason) => this.end({ ends: FAILED, text: reason });

  /** A status of the task. */
  status(state, message, metadata = {}) {
    const taskStatus = { state, timestamp: new Date().toISOString() };
    if (message) taskStatus.message = { ...message, taskId: this.key.task, contextId: this.context };
    return { statusUpdate: { taskId: this.key.task, contextId: this.context, status: taskStatus, metadata } };
  }

  /** The events that end all open blocks: no block spans a checkpoint. */
  checkpoint() {
    const ends = this.#endThought();
    if (this.#text) ends.push(this.#piece("", true));
    this.#text = undefined;
    this.#continues = false;
    return ends.length > 0 ? ends : [this.status(WORKING)];
  }

  /** The event that empties an artifact which only a discarded attempt produced. */
  retraction(artifactId) {
    const artifact = { artifactId, parts: [{ text: "" }] };
    return this.#update(artifact, { lastChunk: true, metadata: { "headrace.retracted": true } });
  }

  #answer(text) {
    const events = this.#endThought();
    if (!this.#continues) {
      if (this.#text) events.push(this.#piece("", true));
      this.#text = { id: this.ids.mint("block"), index: this.nextIndex++, started: false };
      this.#continues = true;
    }
    return [...events, this.#piece(text, false)];
  }

  #piece(text, end) {
    const block = this.#text;
    const append = block.started;
    block.started = true;
    this.artifacts.add(block.id);
    const part = { text, metadata: blockMetadata("content_block", "text", block, end) };
    const more = { ...(append && { append }), ...(end && { lastChunk: true }) };
    return this.#update({ artifactId: block.id, parts: [part] }, more);
  }

  #think(text) {
    this.#continues = false;
    this.#thought ??= { id: this.ids.mint("think"), index: this.nextIndex++ };
    return [this.#thoughtPiece(text, false)];
  }

  #endThought() {
    if (!this.#thought) return [];
    const end = this.#thoughtPiece("", true);
    this.#thought = undefined;
    return [end];
  }

  #thoughtPiece(text, end) {
    const metadata = blockMetadata("thinking", "thinking", this.#thought, end);
    return this.#statusUpdate([{ text, metadata }], this.#thought.id);
  }

  #call({ name, args, id }) {
    this.#continues = false;
    const callId = id || this.ids.mint("call");
    return {
      data: { id: callId, name, arguments: json(args) },
      metadata: { agui_event_type: "tool_call", agui_tool_call_id: callId, agui_tool_name: name },
    };
  }

  #artifact(kind, part, name) {
    const artifactId = this.ids.mint(kind);
    this.artifacts.add(artifactId);
    return this.#update({ artifactId, ...(name && { name }), parts: [part] }, { lastChunk: true });
  }

  #update(artifact, { metadata = {}, ...more }) {
    const body = { taskId: this.key.task, contextId: this.context, artifact, ...more, metadata };
    return { artifactUpdate: body };
  }

  #statusUpdate(parts, id) {
    return this.status(WORKING, this.#message(parts, id));
  }

  #message(parts, messageId = this.ids.mint("message")) {
    return { messageId, role: "ROLE_AGENT", parts };
  }
}

function blockMetadata(event, type, { id, index }, end) {
  return {
    agui_event_type: event,
    agui_block_type: type,
    agui_block_id: id,
    agui_block_index: index,
    ...(end && { agui_block_end: true }),
  };
}

function notice(text, kind) {
  return { text, metadata: { agui_event_type: kind } };
}

function result({ id, content, error }) {
  return {
    data: { tool_call_id: id, content: json(content), error },
    metadata: { agui_event_type: "tool_call", agui_tool_call_id: id, agui_is_error: error !== "" },
  };
}

function filePart({ name, content, mediaType }) {
  const raw = Buffer.from(content).toString("base64");
  return { raw, ...(name && { filename: name }), ...(mediaType && { mediaType }) };
}

function json(value) {
  try {
    const text = JSON.stringify(value);
    if (text !== undefined) return JSON.parse(text);
  } catch {
    // Reported below: undefined, a function, a cycle or a BigInt.
  }
  throw new MalformedOutput("the output contains a value that JSON cannot represent");
}
