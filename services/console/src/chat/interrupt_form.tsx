import { useRef, useState } from "preact/hooks";

import { callsOf, words, type AskedCall } from "../approval/decision";
import type { Json } from "../gateway";
import { Markdown } from "../markdown/markdown";
import { answerOf, fieldsOf, valueOf, type Field } from "./answers";
import { base64Of } from "./files";
import type { Answer, Interrupt } from "./transcript";

interface Asked {
  interrupts: readonly Interrupt[];
  /** The calls that the agent has made, for those that questions are about. */
  calls?: readonly AskedCall[];
  /** What the agent said last. */
  asked: string;
  onAnswer: (answers: Answer[]) => void;
}

/** The agent's questions that are more than approvals, answered together. Nothing is chosen beforehand. */
export function InterruptForm({ interrupts, calls = [], asked, onAnswer }: Asked) {
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      const all = interrupts.map((one, at) => answer(one, form.current!, at));
      onAnswer(await Promise.all(all));
    } catch (reason) {
      setError((reason as Error).message);
      setBusy(false);
    }
  };
  const decline = () => onAnswer(interrupts.map(({ id }) => ({ interruptId: id, status: "cancelled" })));
  const isOne = interrupts.length === 1;
  return (
    <form ref={form} class="interrupt" onSubmit={submit} aria-label="The agent asks">
      {interrupts.map((interrupt, at) => (
        <fieldset key={interrupt.id}>
          <legend class={isOne ? "unseen" : ""}>{isOne ? "The agent asks" : `Question ${at + 1} of ${interrupts.length}`}</legend>
          {callsOf(interrupt, calls).map(({ id, name, args }) => (
            <p key={id} class="mono asked-call">{name}({args})</p>
          ))}
          {interrupt.message?.trim() !== asked && <Markdown text={interrupt.message ?? interrupt.reason} />}
          {fieldsOf(interrupt.responseSchema).map((field) => (
            <FieldView key={field.key} field={field} name={nameOf(at, field)} />
          ))}
        </fieldset>
      ))}
      {error && <p class="error" role="alert">{error}</p>}
      <div class="approval-buttons">
        <button type="submit" disabled={isBusy}>{isOne ? "Send answer" : "Send answers"}</button>
        <button type="button" class="plain" disabled={isBusy} onClick={decline}>Decline to answer</button>
      </div>
    </form>
  );
}

function nameOf(at: number, field: Field): string {
  return `${at}.${field.key}`;
}

async function answer(interrupt: Interrupt, form: HTMLFormElement, at: number): Promise<Answer> {
  const fields = fieldsOf(interrupt.responseSchema);
  const given = new FormData(form);
  const values = await Promise.all(fields.map((field) => entered(field, given.get(nameOf(at, field)))));
  return { interruptId: interrupt.id, status: "resolved", payload: answerOf(fields, values) };
}

async function entered(field: Field, value: FormDataEntryValue | null): Promise<unknown> {
  if (value instanceof File) return value.name ? contentOf(value, field.schema) : undefined;
  return valueOf(field, value ?? "");
}

async function contentOf(file: File, schema: Json): Promise<string> {
  const content = await base64Of(file);
  return schema["format"] === "data-url" ? `data:${file.type || "application/octet-stream"};base64,${content}` : content;
}

function FieldView({ field, name }: { field: Field; name: string }) {
  const { schema, key } = field;
  const title = String(schema["title"] ?? (key ? words(key) : "Answer"));
  const hint = schema["description"] ? String(schema["description"]) : "";
  const heading = `${title}${field.isRequired ? "" : " (optional)"}`;
  const options = optionsOf(field);
  if (options) {
    return (
      <fieldset class="choice-field">
        <legend>{heading}</legend>
        <div class="choices">
          {options.map(([value, text]) => (
            <label key={value} class="check">
              <input type="radio" name={name} value={value} required={field.isRequired} defaultChecked={value === initialOf(field)} />
              {text}
            </label>
          ))}
        </div>
        {hint && <span class="hint">{hint}</span>}
      </fieldset>
    );
  }
  return (
    <label>
      <span>{heading}</span>
      <Control field={field} name={name} initial={schema["default"]} schema={schema} />
      {hint && <span class="hint">{hint}</span>}
    </label>
  );
}

const FEW = 5;

/** Returns the choices that are shown side by side, each by its value in the form and its text. */
function optionsOf({ control, schema }: Field): [string, string][] | null {
  if (control === "yes or no") return [["true", "Yes"], ["false", "No"]];
  if (control !== "select" || schema["enum"].length > FEW) return null;
  return schema["enum"].map((one: unknown, at: number) => [String(at), textOf(one)]);
}

function initialOf({ control, schema }: Field): string | undefined {
  const initial = schema["default"];
  if (initial === undefined) return undefined;
  return control === "yes or no" ? String(initial) : String(schema["enum"].indexOf(initial));
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function Control({ field, name, initial, schema }: { field: Field; name: string; initial: unknown; schema: Json }) {
  const shared = { name, required: field.isRequired };
  const text = initial === undefined ? "" : textOf(initial);
  if (field.control === "select") {
    return (
      <select {...shared} defaultValue={initialOf(field) ?? ""}>
        <option value="" />
        {schema["enum"].map((one: unknown, at: number) => (
          <option key={at} value={String(at)}>{textOf(one)}</option>
        ))}
      </select>
    );
  }
  if (field.control === "number") {
    const step = schema["type"] === "integer" ? 1 : "any";
    return <input type="number" step={step} min={schema["minimum"]} max={schema["maximum"]} defaultValue={text} {...shared} />;
  }
  if (field.control === "file") return <input type="file" accept={schema["contentMediaType"]} {...shared} />;
  if (field.control === "text") return <input type="text" autocomplete="off" defaultValue={text} {...shared} />;
  return <textarea rows={3} class={field.control === "json" ? "mono" : ""} defaultValue={text} {...shared} />;
}
