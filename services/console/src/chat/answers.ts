import type { Json } from "../gateway";

/** One field of a form for an interrupt's answer. */
export interface Field {
  /** Its key in the answer; empty if the answer is the value itself. */
  key: string;
  schema: Json;
  isRequired: boolean;
  control: "yes or no" | "select" | "number" | "text" | "long text" | "file" | "json";
}

const UNKNOWN: Json = { type: "string", title: "Answer" };

/** Returns the fields for answers of a JSON Schema; without one, a text. */
export function fieldsOf(schema: Json | undefined): Field[] {
  const properties: Json = schema?.["properties"] ?? {};
  if (schema?.["type"] !== "object" || Object.keys(properties).length === 0) {
    return [fieldOf("", schema && Object.keys(schema).length > 0 ? schema : UNKNOWN, true)];
  }
  const required: string[] = schema["required"] ?? [];
  return Object.entries(properties).map(([key, one]) => {
    return fieldOf(key, one === true ? {} : one, required.includes(key));
  });
}

function fieldOf(key: string, schema: Json, isRequired: boolean): Field {
  return { key, schema, isRequired, control: controlOf(schema) };
}

function controlOf(schema: Json): Field["control"] {
  const type = [schema["type"]].flat().find((one) => one !== "null");
  if (Array.isArray(schema["enum"])) return "select";
  if (type === "boolean") return "yes or no";
  if (type === "number" || type === "integer") return "number";
  if (type !== "string") return "json";
  if (schema["contentEncoding"] === "base64" || schema["format"] === "data-url") return "file";
  return schema["format"] === "textarea" || Number(schema["maxLength"]) > 200 ? "long text" : "text";
}

/**
 * Returns the value that a user entered in a field; undefined if it is left empty.
 *
 * @param entered The control's value.
 * @throws Error: it is no JSON, where the field asks for some.
 */
export function valueOf({ control, schema }: Field, entered: string): unknown {
  if (entered === "") return undefined;
  if (control === "yes or no") return entered === "true";
  if (control === "number") return Number(entered);
  if (control === "select") return schema["enum"][Number(entered)];
  if (control !== "json") return entered;
  try {
    return JSON.parse(entered);
  } catch {
    throw new Error(`not JSON: ${entered.slice(0, 40)}`);
  }
}

/** Returns the answer that has these values of `fields`. */
export function answerOf(fields: Field[], values: unknown[]): unknown {
  if (fields.length === 1 && fields[0]!.key === "") return values[0] ?? "";
  const given = fields.map((field, at) => [field.key, values[at]] as const);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined));
}
