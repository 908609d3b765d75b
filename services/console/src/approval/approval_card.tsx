import { Check, CircleHelp, Pencil, Wrench, X } from "lucide";
import { useId, useRef, useState } from "preact/hooks";

import type { Answer, Interrupt } from "../chat/transcript";
import type { Json } from "../gateway";
import { Markdown } from "../markdown/markdown";
import { Icon } from "../ui/icon";
import { argumentsOf, edited, withHidden, words, type Approval, type Argument, type AskedCall } from "./decision";
import { Until } from "./until";

interface Asked {
  interrupt: Interrupt;
  approval: Approval;
  /** What is to be approved; undefined: no call of a tool. */
  call: AskedCall | undefined;
  /** Its place among several, such as "1 of 2". */
  place: string;
  /** Whether the question's text stands above it already. */
  isSaid: boolean;
  isBusy: boolean;
  onAnswer: (answer: Answer) => void;
}

/** An approval: what is to be done with which arguments, and two buttons. */
export function ApprovalCard({ interrupt, approval, call, place, isSaid, isBusy, onAnswer }: Asked) {
  const [mode, setMode] = useState<"" | "edit" | "reject">("");
  const [error, setError] = useState("");
  const form = useRef<HTMLFormElement>(null);
  const schema = interrupt.responseSchema?.["properties"]?.["editedArgs"];
  const args = call ? argumentsOf(call.args, schema) : null;
  const answer = (payload: unknown) => onAnswer({ interruptId: interrupt.id, status: "resolved", payload });
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const given = new FormData(form.current!);
    const said = String(given.get("reason") ?? "").trim();
    if (mode === "reject") return answer(approval.reject(said));
    try {
      answer(approval.approve(mode === "edit" && args ? changed(args, given) : undefined, String(given.get("note") ?? "").trim()));
    } catch (wrong) {
      setError((wrong as Error).message);
    }
  };
  return (
    <form ref={form} class="approval" aria-label={["Approve", call?.name, place].filter(Boolean).join(" ")} onSubmit={submit}>
      <Head name={call?.name ?? ""} place={place} />
      {!isSaid && !(call && interrupt.message?.includes(call.name)) && <Markdown text={interrupt.message ?? interrupt.reason} />}
      {args ? <Arguments args={args} isEdited={mode === "edit"} /> : call?.args && <pre>{call.args}</pre>}
      <Until time={interrupt.expiresAt} />
      {mode === "reject" && (
        <label>
          Reason, which the agent gets
          <input name="reason" maxLength={1000} placeholder="optional" autocomplete="off" autofocus ref={(field) => field?.focus()} />
        </label>
      )}
      {mode !== "reject" && approval.takesNote && (
        <label>
          Note, which the agent gets
          <input name="note" maxLength={1000} placeholder="optional" autocomplete="off" />
        </label>
      )}
      {error && <p class="error" role="alert">{error}</p>}
      <div class="approval-buttons">
        {mode === "reject" ? (
          <>
            <button type="submit" class="danger" disabled={isBusy}><Icon of={X} />Reject</button>
            <button type="button" class="quiet" onClick={() => setMode("")}>Go back</button>
          </>
        ) : (
          <>
            <button type="submit" disabled={isBusy}><Icon of={Check} />{mode === "edit" ? "Approve with changes" : "Approve"}</button>
            {mode === "" && <button type="button" class="plain" disabled={isBusy} onClick={() => setMode("reject")}><Icon of={X} />Reject</button>}
            {approval.canEdit && args && args.length > 0 && (
              <button type="button" class="quiet" onClick={() => { setMode(mode === "edit" ? "" : "edit"); setError(""); }}>
                {mode === "edit" ? "Discard changes" : <><Icon of={Pencil} />Edit</>}
              </button>
            )}
          </>
        )}
      </div>
    </form>
  );
}

/** The tool by name. */
function Head({ name, place }: { name: string; place: string }) {
  return (
    <div class="approval-head">
      <Icon of={name ? Wrench : CircleHelp} />
      <span class="approval-tool">{name ? words(name) : "Approval"}</span>
      {name && <code class="soft">{name}</code>}
      {place && <span class="soft">{place}</span>}
    </div>
  );
}

/** The arguments as a form that is filled in, or as text while nobody edits them. */
function Arguments({ args, isEdited }: { args: Argument[]; isEdited: boolean }) {
  // Several questions may be about the same arguments.
  const form = useId();
  if (args.length === 0) return <p class="hint">Without arguments.</p>;
  return (
    <dl class="arguments">
      {args.map((argument) => (
        <div key={argument.key}>
          <dt><label for={isEdited ? `${form} ${argument.key}` : undefined}>{argument.label}</label></dt>
          <dd>
            {isEdited ? <ArgumentField argument={argument} id={`${form} ${argument.key}`} /> : <ArgumentValue text={withHidden(shown(argument.value))} />}
            {argument.hint && <span class="hint">{argument.hint}</span>}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** Characters of a value that may need to be scrolled, so that the buttons stay near. */
const LONG = 500;

function ArgumentValue({ text }: { text: string }) {
  return <span class="argument-value" dir="auto" {...(text.length > LONG && { tabIndex: 0 })}>{text}</span>;
}

function ArgumentField({ argument, id }: { argument: Argument; id: string }) {
  const { value } = argument;
  const shared = { id, name: nameOf(argument) };
  if (typeof value === "boolean") return <input type="checkbox" {...shared} defaultChecked={value} />;
  if (typeof value === "number") return <input type="number" step="any" {...shared} defaultValue={String(value)} />;
  const text = shown(value);
  if (typeof value === "string" && text.length < 60 && !text.includes("\n")) return <input {...shared} defaultValue={text} autocomplete="off" />;
  return <textarea rows={Math.min(8, text.split("\n").length + 1)} class={typeof value === "string" ? "" : "mono"} {...shared} defaultValue={text} />;
}

/** The argument's name in the form, where it may be called as the form's own fields are. */
function nameOf({ key }: Argument): string {
  return `argument-${key}`;
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

function changed(args: readonly Argument[], given: FormData): Json {
  const value = (one: Argument) =>
    typeof one.value === "boolean" ? given.has(nameOf(one)) : edited(one, String(given.get(nameOf(one)) ?? ""));
  return Object.fromEntries(args.map((one) => [one.key, value(one)]));
}
