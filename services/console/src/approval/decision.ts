import type { Json } from "../gateway";
import type { Answer, Interrupt } from "../chat/transcript";

/** A call of a tool that a question is about. */
export interface AskedCall {
  id: string;
  name: string;
  /** JSON, as the agent has it. */
  args: string;
}

/** How an approval of a call is answered. */
export interface Approval {
  /** Returns the answer that lets the call be made; `args`: with these arguments. */
  approve: (args?: Json, note?: string) => unknown;
  /** Returns the answer that refuses it. */
  reject: (reason: string) => unknown;
  canEdit: boolean;
  /** Whether the agent also takes words with an approval. */
  takesNote: boolean;
}

/**
 * Returns how a question is answered that is only about whether to do something; null: it asks for
 * something else, as a form.
 *
 * Two shapes are known: AG-UI's approvals of tool calls (`approved`, `editedArgs`, `reason`), and the
 * decisions of LangChain's middleware for one call (`{"decisions": [{"type": "approve"}]}`).
 */
export function approvalOf(interrupt: Interrupt): Approval | null {
  const schema = interrupt.responseSchema ?? {};
  const properties: Json = schema["properties"] ?? {};
  const asked = Object.keys(properties);
  if (asked.includes("approved") && asked.every((name) => ["approved", "editedArgs", "payload", "reason", "note", "comment"].includes(name))) {
    // A reason is for what is refused; notes and comments go with both decisions.
    const note = ["note", "comment"].find((name) => name in properties);
    const reason = "reason" in properties ? "reason" : note;
    return {
      approve: (args, text) => ({ approved: true, ...(args && { editedArgs: args }), ...(text && note && { [note]: text }) }),
      reject: (text) => ({ approved: false, ...(text && reason && { [reason]: text }) }),
      canEdit: "editedArgs" in properties,
      takesNote: note !== undefined,
    };
  }
  const [request, ...more] = requestsOf(interrupt);
  if (request && more.length === 0) return langChainApproval(interrupt, request);
  if (interrupt.reason === "tool_call" && interrupt.toolCallId && asked.length === 0) {
    return { approve: () => ({ approved: true }), reject: (text) => ({ approved: false, ...(text && { reason: text }) }), canEdit: false, takesNote: false };
  }
  return null;
}

function langChainApproval(interrupt: Interrupt, request: Json): Approval | null {
  const configs = interrupt.metadata?.["value"]?.["review_configs"];
  const allowed: string[] = (Array.isArray(configs) && configs[0]?.allowed_decisions) || ["approve", "edit", "reject"];
  if (!allowed.includes("approve") || !allowed.includes("reject")) return null;
  const decided = (decision: Json) => ({ decisions: [decision] });
  return {
    approve: (args) =>
      decided(args ? { type: "edit", edited_action: { name: request["name"], args } } : { type: "approve" }),
    reject: (message) => decided({ type: "reject", ...(message && { message }) }),
    canEdit: allowed.includes("edit"),
    takesNote: false,
  };
}

function requestsOf(interrupt: Interrupt): Json[] {
  const requests = interrupt.metadata?.["value"]?.["action_requests"];
  return Array.isArray(requests) ? requests : [];
}

/**
 * Returns a question as those that people answer: LangChain reviews several calls by one, and each is
 * decided on its own. Their answers belong together again: see `joined`.
 */
export function eachCall(interrupt: Interrupt): Interrupt[] {
  const requests = requestsOf(interrupt);
  const configs: Json[] = interrupt.metadata?.["value"]?.["review_configs"] ?? [];
  const each = requests.map((request, at): Interrupt => {
    const config = configs.find((one) => one["action_name"] === request["name"]) ?? configs[at];
    return {
      ...interrupt,
      id: `${interrupt.id} ${at}`,
      message: String(request["description"] ?? request["name"]),
      responseSchema: { properties: { editedArgs: schemaOf(interrupt, at) } },
      metadata: { value: { action_requests: [request], review_configs: config ? [config] : [] } },
    };
  });
  return each.length > 1 && each.every(approvalOf) ? each : [interrupt];
}

/** Returns the answer to a question, from those to what `eachCall` has made of it. */
export function joined(interrupt: Interrupt, answers: ReadonlyMap<string, Answer>): Answer {
  const [first, ...more] = eachCall(interrupt).map(({ id }) => answers.get(id)!);
  if (more.length === 0) return first!;
  const decisions = [first!, ...more].flatMap(({ payload }) => (payload as Json)["decisions"]);
  return { interruptId: interrupt.id, status: "resolved", payload: { decisions } };
}

/** Returns the calls that a question is about: by id, or as LangChain describes them. */
export function callsOf(interrupt: Interrupt, known: readonly AskedCall[]): AskedCall[] {
  const call = known.find(({ id }) => id === interrupt.toolCallId);
  if (call) return [call];
  const value: Json = interrupt.metadata?.["value"] ?? {};
  const requests = value["type"] === "tool_approval" ? [value] : value["action_requests"];
  if (!Array.isArray(requests)) return [];
  return requests.map(({ name, args }: Json, at) => ({ id: `${interrupt.id} ${at}`, name: String(name), args: JSON.stringify(args ?? {}) }));
}

/** Returns the schema of the arguments of one of several calls: what an edit of it may be. */
export function schemaOf(interrupt: Interrupt, at: number): Json {
  const ways: Json[] = interrupt.responseSchema?.["anyOf"] ?? [];
  const decisions: Json[] = ways.flatMap((way) => way["properties"]?.["decisions"]?.["prefixItems"]?.[at]?.["oneOf"] ?? []);
  const edit = decisions.find((one) => one["properties"]?.["edited_action"]);
  return edit?.["properties"]["edited_action"]["properties"]?.["args"] ?? {};
}

/** One argument of a call, as a field of a form. */
export interface Argument {
  key: string;
  label: string;
  hint: string;
  value: unknown;
}

/**
 * Returns the arguments of a call; null: they are no object.
 *
 * @param schema The tool's schema of its arguments, whose titles and descriptions become labels.
 */
export function argumentsOf(args: string, schema: Json = {}): Argument[] | null {
  const value = objectIn(args);
  if (value === null) return null;
  const properties: Json = schema["properties"] ?? {};
  const keys = [...new Set([...Object.keys(properties).filter((key) => key in value), ...Object.keys(value)])];
  return keys.map((key) => ({
    key,
    label: String(properties[key]?.["title"] ?? words(key)),
    hint: String(properties[key]?.["description"] ?? ""),
    value: value[key],
  }));
}

function objectIn(text: string): Json | null {
  try {
    const value: unknown = JSON.parse(text || "{}");
    return value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Json) : null;
  } catch {
    return null;
  }
}

/** A line that asks about a call as adapters write it for clients without forms; it may be cut. */
const ASKED_IN_FULL = /^Approve ([\w.-]+)\([{[].*$/gm;

/** Returns what is asked without the calls' arguments, which have a form of their own. */
export function withoutArguments(text: string): string {
  const asked = text.replace(ASKED_IN_FULL, "Approve $1?").split("\n");
  const each = [...new Set(asked)].map((line) => {
    const times = asked.filter((other) => other === line).length;
    return times > 1 && line ? `${line} (${times} calls)` : line;
  });
  return each.join("\n");
}

/** Returns a name of a program as people write it: `orderId` and `order_id` are "Order id". */
export function words(name: string): string {
  const text = name.replace(/([a-z\d])([A-Z])/g, "$1 $2").replace(/[_-]+/g, " ").trim().toLowerCase();
  return text ? text[0]!.toUpperCase() + text.slice(1) : name;
}

/** Characters that nobody sees, or that show others in another order: what is approved must not look like something else. */
const HIDDEN = /[\u200b\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;

/** Returns a text with its hidden characters by their numbers. */
export function withHidden(text: string): string {
  return text.replace(HIDDEN, (one) => `⟨U+${one.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/**
 * Returns an argument's value as it was entered, in the type that it had.
 *
 * @throws Error: the text is none of that type.
 */
export function edited(argument: Argument, entered: string): unknown {
  const { value, label } = argument;
  if (typeof value === "string") return entered;
  if (typeof value === "number") {
    const number = Number(entered);
    if (entered.trim() === "" || Number.isNaN(number)) throw new Error(`${label}: must be a number`);
    return number;
  }
  try {
    return JSON.parse(entered);
  } catch {
    throw new Error(`${label}: must be JSON`);
  }
}
