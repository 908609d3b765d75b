import type { Json } from "../gateway";

/** What somebody decided on one call. */
export interface Verdict {
  outcome: "Approved" | "Rejected" | "Answered";
  /** The arguments with which it is made instead; null: they stay. */
  args: Json | null;
  /** What was said with it, by name. */
  said: [name: string, value: unknown][];
}

/** Returns the decisions in an answer, in AG-UI's form or in LangChain's; none: it is no approval. */
export function verdictsOf(payload: unknown): Verdict[] {
  if (typeof payload !== "object" || payload === null) return [];
  const { approved, editedArgs = null, decisions, ...others } = payload as Json;
  if (typeof approved === "boolean") return [{ outcome: approved ? "Approved" : "Rejected", args: editedArgs, said: saidIn(others) }];
  return Array.isArray(decisions) ? decisions.map(decided) : [];
}

const OUTCOMES: Record<string, Verdict["outcome"]> = { approve: "Approved", edit: "Approved", reject: "Rejected" };

function decided(decision: Json): Verdict {
  const { type, edited_action: action, ...others } = decision ?? {};
  return { outcome: OUTCOMES[type] ?? "Answered", args: action?.["args"] ?? null, said: saidIn(others) };
}

function saidIn(others: Json): Verdict["said"] {
  return Object.entries(others).filter(([, value]) => value !== "" && value !== null);
}

/** Returns an answer's data as people say it: its decisions, or each of its members. */
export function inWords(data: unknown): string {
  if (typeof data !== "object" || data === null || Array.isArray(data)) return textOf(data);
  const verdicts = verdictsOf(data);
  if (verdicts.length === 0) return listed(saidIn(data as Json)).join(", ");
  return verdicts
    .map(({ outcome, args, said }) => [args ? `${outcome} with changes` : outcome, ...listed(Object.entries(args ?? {})), ...listed(said)].join(", "))
    .join("; ");
}

function listed(members: [string, unknown][]): string[] {
  return members.map(([name, value]) => `${name}: ${textOf(value)}`);
}

/** Returns a value as text: JSON, if it is none. */
export function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
