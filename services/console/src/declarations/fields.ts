import type { Json } from "../gateway";

/** A member of a trigger's or schedule's declaration, as a field of a form. */
export interface Field {
  /** The member's name in the API, by which the gateway names it when it refuses one. */
  name: string;
  label: string;
  /** `json`: an object; `parts`: a text, or a JSON list of A2A Parts; `time`: local, sent in UTC. */
  kind: "text" | "agent" | "area" | "number" | "time" | "choice" | "json" | "parts";
  options?: readonly string[];
  hint?: string;
  isRequired?: boolean;
}

/** A refusal of one field. */
export class FieldRefused extends Error {
  constructor(
    readonly field: string,
    rule: string,
  ) {
    super(rule);
  }
}

/** Returns what a form shows of a member. */
export function textOf({ kind }: Field, value: unknown): string {
  if (value === undefined || value === null) return "";
  if (kind === "time") return localTime(new Date(String(value)));
  if (kind === "parts") return partsText(value as Json[]);
  return typeof value === "object" ? JSON.stringify(value, null, 2) : String(value);
}

/**
 * Returns the declaration that a form states; empty fields are left out.
 *
 * @throws FieldRefused
 */
export function declarationOf(fields: readonly Field[], stated: (name: string) => string): Json {
  const found: Json = {};
  for (const field of fields) {
    const text = stated(field.name).trim();
    if (text !== "") found[field.name] = valueOf(field, text);
  }
  return found;
}

/** Returns the field that a refusal names, and the rule. No field: it is about all of them. */
export function refusalOf(fields: readonly Field[], message: string): { field: string; rule: string } {
  // Such as `filter.body.total: …`; the field comes first.
  const [, field = "", rule = ""] = message.match(/^(\w+)[^\s:]*: (.+)$/s) ?? [];
  return fields.some(({ name }) => name === field) ? { field, rule } : { field: "", rule: message };
}

function valueOf({ name, kind }: Field, text: string): unknown {
  if (kind === "number") return Number(text);
  if (kind === "time") return new Date(text).toISOString();
  if (kind === "json") return parsed(name, text);
  if (kind === "parts" && isParts(text)) return parsed(name, text);
  return text;
}

function parsed(name: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new FieldRefused(name, "must be JSON");
  }
}

function isParts(text: string): boolean {
  return text.trimStart().startsWith("[{");
}

function partsText(parts: Json[]): string {
  const [first] = parts;
  const isText = parts.length === 1 && Object.keys(first!).join() === "text";
  if (isText && !isParts(first!["text"])) return first!["text"];
  // In one line at first, by which it is told from a text.
  return JSON.stringify(parts);
}

/** Returns a time as fields of the browser write it. */
function localTime(time: Date): string {
  const local = new Date(time.getTime() - time.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 19);
}
