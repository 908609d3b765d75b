import { useState } from "preact/hooks";

import type { Json } from "../gateway";
import { Markdown } from "../markdown/markdown";
import { answerOf, fieldsOf, valueOf, type Field } from "./answers";
import type { Answer } from "./conversation";
import type { Interrupt } from "./transcript";

interface Asked {
  interrupts: Interrupt[];
  /** What the agent said last. */
  asked: string;
  onAnswer: (answers: Answer[]) => void;
}

/** The agent's questions, which are answered together. */
export function InterruptForm({ interrupts, asked, onAnswer }: Asked) {
  const [declined, setDeclined] = useState<string[]>([]);
  const [error, setError] = useState("");
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    try {
      onAnswer(interrupts.map((one, at) => answer(one, form, at, declined.includes(one.id))));
    } catch (reason) {
      setError((reason as Error).message);
    }
  };
  const toggle = (id: string) =>
    setDeclined(declined.includes(id) ? declined.filter((one) => one !== id) : [...declined, id]);
  return (
    <form class="card interrupt" onSubmit={submit} aria-label="The agent asks">
      {interrupts.map((interrupt, at) => (
        <fieldset key={interrupt.id}>
          <legend class={interrupts.length > 1 ? "" : "unseen"}>
            {interrupts.length > 1 ? `Question ${at + 1} of ${interrupts.length}` : "The agent asks"}
          </legend>
          {interrupt.message?.trim() !== asked && <Markdown text={interrupt.message ?? interrupt.reason} />}
          {!declined.includes(interrupt.id) &&
            fieldsOf(interrupt.responseSchema).map((field) => (
              <FieldView key={field.key} field={field} name={nameOf(at, field)} />
            ))}
          <label class="check">
            <input type="checkbox" checked={declined.includes(interrupt.id)} onChange={() => toggle(interrupt.id)} />
            Decline to answer
          </label>
        </fieldset>
      ))}
      {error && <p class="error" role="alert">{error}</p>}
      <div class="actions">
        <button type="submit">{interrupts.length > 1 ? "Send answers" : "Send answer"}</button>
      </div>
    </form>
  );
}

function nameOf(at: number, field: Field): string {
  return `${at}.${field.key}`;
}

function answer(interrupt: Interrupt, form: HTMLFormElement, at: number, isDeclined: boolean): Answer {
  if (isDeclined) return { interruptId: interrupt.id, status: "cancelled" };
  const fields = fieldsOf(interrupt.responseSchema);
  const values = fields.map((field) => {
    const control = form.elements.namedItem(nameOf(at, field)) as HTMLInputElement;
    return valueOf(field, control.type === "checkbox" ? control.checked : control.value);
  });
  return { interruptId: interrupt.id, status: "resolved", payload: answerOf(fields, values) };
}

function FieldView({ field, name }: { field: Field; name: string }) {
  const { schema, key, control } = field;
  const title = String(schema["title"] ?? (key || "Answer"));
  const hint = schema["description"] ? String(schema["description"]) : "";
  if (control === "checkbox") {
    return (
      <label class="check">
        <input type="checkbox" name={name} defaultChecked={schema["default"] === true} />
        {title}
        {hint && <span class="soft">{hint}</span>}
      </label>
    );
  }
  return (
    <label>
      <span>
        {title}
        {field.isRequired ? "" : " (optional)"}
      </span>
      <Control field={field} name={name} initial={schema["default"]} schema={schema} />
      {hint && <span class="hint">{hint}</span>}
    </label>
  );
}

function Control({ field, name, initial, schema }: { field: Field; name: string; initial: unknown; schema: Json }) {
  const shared = { name, required: field.isRequired };
  const text = initial === undefined ? "" : typeof initial === "string" ? initial : JSON.stringify(initial);
  if (field.control === "select") {
    return (
      <select {...shared} defaultValue={initial === undefined ? "" : String(schema["enum"].indexOf(initial))}>
        <option value="" />
        {schema["enum"].map((one: unknown, at: number) => (
          <option key={at} value={String(at)}>
            {typeof one === "string" ? one : JSON.stringify(one)}
          </option>
        ))}
      </select>
    );
  }
  if (field.control === "number") {
    const step = schema["type"] === "integer" ? 1 : "any";
    return <input type="number" step={step} min={schema["minimum"]} max={schema["maximum"]} defaultValue={text} {...shared} />;
  }
  if (field.control === "text") return <input type="text" defaultValue={text} {...shared} />;
  return <textarea rows={3} class={field.control === "json" ? "mono" : ""} defaultValue={text} {...shared} />;
}
