import { useEffect, useRef, useState } from "preact/hooks";

import { useAgents } from "../agents";
import type { Json } from "../gateway";
import { declarationOf, FieldRefused, refusalOf, textOf, type Field } from "./fields";

interface Declared {
  title: string;
  fields: readonly Field[];
  /** The declaration that is changed; null: a new one. Its name stays. */
  old: Json | null;
  /** Where it leads back to. */
  back: string;
  /** What its button says. */
  verb?: string;
  onSave: (name: string, declaration: Json) => Promise<unknown>;
}

const NAME: Field = { name: "name", label: "Name", kind: "text", isRequired: true };

/** A form for a trigger or schedule. Errors of the gateway are shown at their fields. */
export function DeclarationForm({ title, fields, old, back, verb = "Save", onSave }: Declared) {
  const form = useRef<HTMLFormElement>(null);
  const [refusal, setRefusal] = useState({ field: "", rule: "" });
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    if (refusal.field) form.current?.querySelector<HTMLElement>(`[name="${refusal.field}"]`)?.focus();
  }, [refusal]);

  const shown = old === null ? [NAME, ...fields] : fields;
  const save = async (event: SubmitEvent) => {
    event.preventDefault();
    const stated = new FormData(form.current!);
    setBusy(true);
    setRefusal({ field: "", rule: "" });
    try {
      const { name, ...declaration } = declarationOf(shown, (one) => String(stated.get(one)));
      await onSave(old === null ? name : old["name"], declaration);
    } catch (error) {
      const { message } = error as Error;
      setRefusal(error instanceof FieldRefused ? { field: error.field, rule: message } : refusalOf(shown, message));
      setBusy(false);
    }
  };
  return (
    <form ref={form} class="declaration" aria-label={title} onSubmit={save}>
      {shown.map((field) => (
        <FieldView
          key={field.name}
          field={field}
          text={textOf(field, old?.[field.name])}
          rule={refusal.field === field.name ? refusal.rule : ""}
        />
      ))}
      {refusal.rule && !refusal.field && <p class="error" role="alert">{refusal.rule}</p>}
      <div class="actions">
        <a class="button quiet" href={back}>Go back</a>
        <button type="submit" disabled={isBusy}>{verb}</button>
      </div>
    </form>
  );
}

/** One field, with its hint and why the gateway refuses what it has. */
function FieldView({ field, text, rule }: { field: Field; text: string; rule: string }) {
  const { name, label, hint, isRequired } = field;
  const [hintId, ruleId] = [`${name}-hint`, `${name}-rule`];
  const described = [hint && hintId, rule && ruleId].filter(Boolean).join(" ");
  const shared = {
    id: name,
    name,
    required: isRequired ?? false,
    "aria-invalid": rule !== "",
    ...(described && { "aria-describedby": described }),
  };
  return (
    <div class="field">
      <label for={name}>{label}{isRequired ? "" : " (optional)"}</label>
      <Control field={field} text={text} shared={shared} />
      {hint && <span id={hintId} class="hint">{hint}</span>}
      {rule && <span id={ruleId} class="error" role="alert">{rule}</span>}
    </div>
  );
}

/** The agents that are known are offered; one may come later. */
function AgentField({ text, shared }: { text: string; shared: object }) {
  const agents = useAgents().value ?? [];
  return (
    <>
      <input type="text" list="known-agents" autocomplete="off" defaultValue={text} {...shared} />
      <datalist id="known-agents">
        {agents.map(({ id }) => <option key={id} value={id} />)}
      </datalist>
    </>
  );
}

function Control({ field, text, shared }: { field: Field; text: string; shared: object }) {
  const { kind, options = [] } = field;
  if (kind === "choice") {
    return (
      <select {...shared} defaultValue={text}>
        {!field.isRequired && <option value="" />}
        {options.map((one) => (
          <option key={one} value={one} selected={one === text}>{one}</option>
        ))}
      </select>
    );
  }
  if (kind === "agent") return <AgentField text={text} shared={shared} />;
  if (kind === "number") return <input type="number" step="any" defaultValue={text} {...shared} />;
  if (kind === "time") return <input type="datetime-local" step={1} defaultValue={text} {...shared} />;
  if (kind === "text") return <input type="text" defaultValue={text} {...shared} />;
  return <textarea rows={3} class={kind === "json" ? "mono" : ""} defaultValue={text} {...shared} />;
}
