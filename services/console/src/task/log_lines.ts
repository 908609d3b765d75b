import type { Json } from "../gateway";
import { inWords } from "../approval/verdict";
import { blockOf, childOf, inputOf, kindOf, stepName, stepOf } from "./parts";
import { partsOf, stateName, type LogRow } from "./timeline";

export type LineKind = "message" | "text" | "thinking" | "tool" | "step" | "child" | "question" | "file" | "state" | "usage";

/** One thing that happened, which many events may tell of. */
export interface LogLine {
  /** Of the event with which it began; those of a line need not follow each other. */
  generation: number;
  generations: number[];
  at: number;
  until: number;
  kind: LineKind;
  /** The child that it comes from; empty: the task itself. */
  who: string;
  title: string;
  text: string;
  /** What a tool answered; null: nothing yet, or it is no call. */
  result: string | null;
  look: "" | "good" | "bad" | "warn" | "busy";
  /** The child task that it tells of. */
  task: string;
}

/** A log as people read it: a text, a call or a step is one line, whatever number of events it took. */
export class LogLines {
  readonly all: LogLine[] = [];
  private readonly known = new Map<string, LogLine>();
  private readonly blocks = new Map<LogLine, string>();
  private readonly agents = new Map<string, string>();

  /** Takes the log's next row. */
  take(row: LogRow): void {
    const input = inputOf(row);
    if (input) this.input(row, input);
    else this.output(row);
  }

  private input(row: LogRow, message: Json): void {
    const parts: Json[] = message["parts"] ?? [];
    const texts = parts.map((part) => part["text"] ?? part["filename"] ?? (part["data"] === undefined ? "file" : inWords(part["data"])));
    const isAnswer = parts.some((part) => part["metadata"]?.["agui_interrupt_id"]);
    this.add(row, "message", isAnswer ? "Answer" : "Message", { text: texts.join(" ") });
  }

  private output(row: LogRow): void {
    const { metadata = {}, status } = row.event["statusUpdate"] ?? {};
    const step = stepOf(row);
    if (metadata["headrace.attempt"]) this.attempt(row, metadata);
    if (step) this.step(row, step.state, stepName(step), step.seconds);
    if (metadata["headrace.child"]) this.child(row, metadata["headrace.child"]);
    const asks = /_(INPUT|AUTH)_REQUIRED$/.test(status?.state ?? "");
    const ends = /_(COMPLETED|FAILED|CANCELED|REJECTED)$/.test(status?.state ?? "");
    if (asks) this.question(row, metadata);
    else if (ends) this.end(row, metadata);
    else for (const part of partsOf(row.event)) this.part(row, part);
  }

  private attempt(row: LogRow, metadata: Json): void {
    const number = metadata["headrace.attempt"];
    const title = number > 1 ? `Attempt ${number}` : "Started";
    const text = number > 1 ? `taken over by ${metadata["headrace.worker"] ?? "a worker"}` : `on ${metadata["headrace.worker"] ?? "a worker"}`;
    this.add(row, "state", title, { text, look: number > 1 ? "warn" : "" });
  }

  private step(row: LogRow, state: string, name: string, seconds: number | undefined): void {
    const id = `step ${row.run} ${row.attempt} ${name}`;
    const open = this.known.get(id);
    const line = open?.look === "busy" ? this.more(open, row) : this.add(row, "step", name, { id, look: "busy" });
    const isOver = state !== "started";
    line.look = isOver ? (state === "failed" ? "bad" : "good") : "busy";
    line.text = isOver && seconds !== undefined ? `${state} in ${seconds} s` : state;
  }

  private child(row: LogRow, update: Json): void {
    const task: string = update["task"];
    if (update["agent"]) this.agents.set(task, update["agent"]);
    const id = `child ${task}`;
    const isAsked = update["generation"] === 0;
    const state: string = update["state"] ?? "";
    if (update["child"]) this.child(row, update["child"]);
    const known = this.known.get(id);
    if (known && !isAsked && !state) return;
    const line = known ? this.more(known, row) : this.add(row, "child", this.agents.get(task) ?? "child task", { id, task });
    line.text = state ? stateName(state) : known ? line.text : "begun";
    line.look = lookOf(state);
  }

  private question(row: LogRow, metadata: Json): void {
    const texts = partsOf(row.event).map((part) => part["text"] ?? "");
    const pending: string[] = metadata["headrace.pendingToolCalls"] ?? [];
    const asked = (metadata["headrace.interrupts"] ?? []).map((one: Json) => one["message"] ?? one["reason"] ?? "");
    const text = texts.join(" ").trim() || asked.join(" ") || pending.map((id) => this.known.get(`tool ${id}`)?.title ?? id).join(", ");
    const title = pending.length > 0 ? "Waits for a tool of the client" : row.state.includes("AUTH") ? "Waits for credentials" : "Asks";
    this.add(row, "question", title, { text, look: "warn" });
  }

  private end(row: LogRow, metadata: Json): void {
    const said = partsOf(row.event).filter((part) => kindOf(part) === "text").map((part) => part["text"]).join(" ");
    const written = Object.entries(metadata["headrace.memory"] ?? {}).map(([kind, count]) => `${kind} ${count}`);
    const text = [said, written.length > 0 ? `memory written: ${written.join(", ")}` : ""].filter(Boolean).join("; ");
    const name = stateName(row.state);
    this.add(row, "state", name.charAt(0).toUpperCase() + name.slice(1), { text, look: lookOf(row.state) });
  }

  private part(row: LogRow, part: Json): void {
    const kind = kindOf(part);
    const child = childOf(part);
    const who = child && (this.agents.get(child) ?? "child task");
    if (kind === "text" || kind === "thinking") this.text(row, part, kind, who);
    else if (kind === "call") this.call(row, part, who);
    else if (kind === "result") this.result(row, part);
    else if (kind === "usage") this.usage(row, part["data"] ?? {}, who);
    else if (kind === "file") this.add(row, "file", part["filename"] ?? "file", { text: part["mediaType"] ?? "", who });
    else if (kind === "data") this.data(row, part, who);
  }

  private text(row: LogRow, part: Json, kind: "text" | "thinking", who: string): void {
    const block = `${kind} ${row.attempt} ${blockOf(part, row.event)}`;
    const isBegun = row.event["artifactUpdate"] && !row.event["artifactUpdate"].append;
    const known = isBegun ? undefined : this.known.get(block);
    const last = this.all.at(-1);
    // A block that goes on behind another one has a line of its own again: their words would mix.
    if (known && this.blocks.get(known) === block) this.more(known, row).text += part["text"];
    else if (!known && kind === "text" && last?.kind === "text" && last.who === who && this.isOf(last, row.attempt)) {
      this.more(last, row).text += `\n${part["text"]}`;
      this.open(last, block);
    } else {
      const title = kind === "text" ? "Answer" : part["metadata"]?.["title"] ?? part["metadata"]?.["agui_title"] ?? "Thought";
      this.open(this.add(row, kind, title, { text: String(part["text"]), who }), block);
    }
  }

  /** The block that a line's next words belong to. */
  private open(line: LogLine, block: string): void {
    this.known.set(block, line);
    this.blocks.set(line, block);
  }

  private isOf(line: LogLine, attempt: number): boolean {
    return this.blocks.get(line)?.startsWith(`text ${attempt} `) ?? false;
  }

  private call(row: LogRow, part: Json, who: string): void {
    const { agui_tool_call_id: call, agui_tool_name: name } = part["metadata"] ?? {};
    const id = `tool ${call ?? part["data"]?.id ?? row.generation}`;
    const line = this.known.get(id) ?? this.add(row, "tool", String(name ?? part["data"]?.name ?? "tool"), { id, look: "busy", who });
    this.more(line, row);
    if (part["data"]) line.text = JSON.stringify(part["data"].arguments ?? {});
    else line.text += part["text"] ?? "";
  }

  private result(row: LogRow, part: Json): void {
    const data = part["data"] ?? {};
    const line = this.known.get(`tool ${part["metadata"]?.["agui_tool_call_id"] ?? data.tool_call_id}`);
    if (!line) return;
    const failed = part["metadata"]?.["agui_is_error"] === true;
    const content = failed && data.error ? data.error : data.content;
    this.more(line, row).result = typeof content === "string" ? content : JSON.stringify(content ?? null);
    line.look = failed ? "bad" : "good";
  }

  private usage(row: LogRow, usage: Json, who: string): void {
    const { model = "model", inputTokens = 0, outputTokens = 0, totalTokens, cost } = usage;
    const text = [
      `${(totalTokens || inputTokens + outputTokens).toLocaleString()} tokens (${inputTokens.toLocaleString()} in, ${outputTokens.toLocaleString()} out)`,
      cost === undefined ? "" : `cost ${cost}`,
    ];
    this.add(row, "usage", String(model), { text: text.filter(Boolean).join(", "), who });
  }

  private data(row: LogRow, part: Json, who: string): void {
    const type: string = part["metadata"]?.["agui_event_type"] ?? "";
    if (/^(subagent|step)_/.test(type)) {
      const name = part["data"]?.name ?? part["metadata"]?.["agui_step_name"] ?? "";
      this.phase(row, type.startsWith("step") ? "step" : "child", String(name), type.replace(/^.*_/, ""), who);
      return;
    }
    const title = part["metadata"]?.["agui_activity_type"] ?? part["metadata"]?.["agui_custom_name"] ?? "Data";
    this.add(row, "file", String(title), { text: JSON.stringify(part["data"]), who });
  }

  /** A step, or an agent in the same process, that an agent says to have begun or ended. */
  private phase(row: LogRow, kind: "step" | "child", name: string, state: string, who: string): void {
    const id = `${kind} ${row.run} ${row.attempt} ${who} ${name} `;
    const open = this.known.get(id);
    const line = open?.look === "busy" ? this.more(open, row) : this.add(row, kind, name, { id, who });
    line.text = state;
    line.look = state === "started" ? "busy" : "good";
  }

  private add(row: LogRow, kind: LineKind, title: string, more: Partial<LogLine> & { id?: string }): LogLine {
    const { id = "", ...fields } = more;
    const at = Date.parse(row.time);
    const { generation } = row;
    const line: LogLine = { generation, generations: [generation], at, until: at, kind, who: "", title, text: "", result: null, look: "", task: "", ...fields };
    if (id) this.known.set(id, line);
    this.all.push(line);
    return line;
  }

  private more(line: LogLine, row: LogRow): LogLine {
    if (line.generations.at(-1) !== row.generation) line.generations.push(row.generation);
    line.until = Date.parse(row.time);
    return line;
  }
}

function lookOf(state: string): LogLine["look"] {
  if (/_COMPLETED$/.test(state)) return "good";
  if (/_(FAILED|REJECTED)$/.test(state)) return "bad";
  if (/_REQUIRED$/.test(state)) return "warn";
  return state && !/_CANCELED$/.test(state) ? "busy" : "";
}

/** Returns the lines of these kinds that contain `search`, whatever its case; no kinds: all. */
export function matching(lines: readonly LogLine[], kinds: ReadonlySet<LineKind>, search: string): LogLine[] {
  const wanted = search.trim().toLowerCase();
  return lines.filter(({ kind, who, title, text, result }) => {
    if (kinds.size > 0 && !kinds.has(kind)) return false;
    return !wanted || `${who} ${title} ${text} ${result ?? ""}`.toLowerCase().includes(wanted);
  });
}

const LINES_OF: Partial<Record<string, LineKind>> = { tool: "tool", step: "step", child: "child", waiting: "question", attempt: "state", gap: "state" };

/** Returns the line that tells of a span of some kind, or of what was there last. */
export function lineOf(lines: readonly LogLine[], kind: string, generation: number): LogLine | undefined {
  const told = lines.filter((line) => line.generations.includes(generation));
  const before = () => lines.filter((line) => line.generation <= generation).at(-1);
  return told.find((line) => line.kind === LINES_OF[kind]) ?? told[0] ?? before();
}
