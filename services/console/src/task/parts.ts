import type { Json } from "../gateway";
import type { LogRow } from "./timeline";

/** What a part of an event is, by the hint that workers write with it. */
export type PartKind = "text" | "thinking" | "call" | "result" | "usage" | "file" | "data" | "other";

/** Hints of parts that say how a page should change; a log of what happened need not show them. */
const QUIET = new Set(["state_snapshot", "state_delta", "messages_snapshot", "activity_delta", "raw"]);

export function kindOf(part: Json): PartKind {
  const { agui_event_type: type, agui_is_error: isError } = part["metadata"] ?? {};
  if (type === "tool_call") return isError === undefined ? "call" : "result";
  if (type === "thinking" || type === "usage") return type;
  if (QUIET.has(type)) return "other";
  if (part["raw"] !== undefined || part["url"] !== undefined) return "file";
  if (part["text"] !== undefined) return "text";
  return part["data"] === undefined ? "other" : "data";
}

/** Returns the task or subagent that a part was relayed from; empty: the log's own task said it. */
export function childOf(part: Json): string {
  return part["metadata"]?.["agui_subagent_run_id"] ?? "";
}

/** Returns what pieces of one text have in common. */
export function blockOf(part: Json, event: Json): string {
  const { artifactUpdate, statusUpdate } = event;
  const own = artifactUpdate?.artifact?.artifactId ?? statusUpdate?.status?.message?.messageId ?? "";
  return part["metadata"]?.["agui_block_id"] ?? own;
}

/** A step that a worker has recorded: `seconds` is how long it took, once it has ended. */
export interface Step {
  name: string;
  state: string;
  seconds?: number;
  /** What a wait waits for. */
  use?: string;
}

export function stepOf({ event }: LogRow): Step | undefined {
  return event["statusUpdate"]?.metadata?.["headrace.step"];
}

/** Returns a step's name as people say it: a wait by what it waits for. */
export function stepName({ name, use }: Step): string {
  if (name === "ctx.wait") return use ? `wait for ${use}` : "wait";
  return name === "ctx.sleep" ? "sleep" : name;
}

/** Returns the user's message that asks for a run; null: the row is none. */
export function inputOf({ event, attempt }: LogRow): Json | null {
  const said = event["task"]?.history?.at(-1) ?? event["statusUpdate"]?.status?.message;
  return attempt === 0 && said?.role === "ROLE_USER" ? said : null;
}
