import { Ban, Check, MessageCircleReply, X } from "lucide";

import { argumentsOf, withHidden, words, type Argument, type AskedCall } from "../approval/decision";
import { textOf, verdictsOf, type Verdict } from "../approval/verdict";
import { Icon } from "../ui/icon";
import type { Given } from "./transcript";

const ICONS = { Approved: Check, Rejected: X, Answered: MessageCircleReply };

/** What the user answered to a question: the decision on each call, or the values of a form. */
export function GivenView({ given }: { given: Given }) {
  const { isDeclined, payload, calls } = given;
  const verdicts = verdictsOf(payload);
  return (
    <div class="given">
      {isDeclined && <p class="verdict"><Icon of={Ban} size={14} /> Declined to answer</p>}
      {!isDeclined && verdicts.map((verdict, at) => <VerdictView key={at} verdict={verdict} call={calls[at]} />)}
      {!isDeclined && verdicts.length === 0 && <Values values={membersOf(payload)} />}
    </div>
  );
}

function VerdictView({ verdict, call }: { verdict: Verdict; call: AskedCall | undefined }) {
  const { outcome, args, said } = verdict;
  return (
    <>
      <p class="verdict">
        <Icon of={ICONS[outcome]} size={14} /> {outcome} by you{args && " with changes"}
        {call && <span class="soft">{words(call.name)}</span>}
      </p>
      {args && <Changes args={args} call={call} />}
      <Values values={said} />
    </>
  );
}

/** The arguments that were changed, each with what it was. */
function Changes({ args, call }: { args: object; call: AskedCall | undefined }) {
  const before = new Map((argumentsOf(call?.args ?? "") ?? []).map(({ key, value }) => [key, value]));
  const changed = (argumentsOf(JSON.stringify(args)) ?? []).filter(({ key, value }) => textOf(before.get(key)) !== textOf(value));
  return (
    <dl class="arguments">
      {changed.map(({ key, label, value }: Argument) => (
        <div key={key}>
          <dt>{label}</dt>
          <dd class="argument-value" dir="auto">
            {withHidden(textOf(value))}
            {before.has(key) && <span class="soft">instead of {withHidden(textOf(before.get(key)))}</span>}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Values({ values }: { values: [name: string, value: unknown][] }) {
  if (values.length === 0) return null;
  return (
    <dl class="arguments">
      {values.map(([name, value]) => (
        <div key={name}>
          {name && <dt>{words(name)}</dt>}
          <dd class="argument-value" dir="auto">{withHidden(textOf(value))}</dd>
        </div>
      ))}
    </dl>
  );
}

function membersOf(payload: unknown): [name: string, value: unknown][] {
  const isObject = typeof payload === "object" && payload !== null && !Array.isArray(payload);
  return isObject ? Object.entries(payload) : [["", payload ?? ""]];
}
