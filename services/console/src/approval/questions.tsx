import { Check } from "lucide";
import { useState } from "preact/hooks";

import { InterruptForm } from "../chat/interrupt_form";
import type { Answer, Interrupt } from "../chat/transcript";
import { Icon } from "../ui/icon";
import { ApprovalCard } from "./approval_card";
import { approvalOf, callsOf, eachCall, joined, type AskedCall } from "./decision";
import { unsent } from "./unsent";
import { verdictsOf } from "./verdict";

interface Asked {
  task: string;
  interrupts: readonly Interrupt[];
  /** The calls that the agent has made, for those that questions are about. */
  calls: readonly AskedCall[];
  /** What the agent said last: a question that says the same is not said again. */
  said: string;
  /** Called once, with the answers to all of them. */
  onAnswer: (answers: Answer[]) => void;
}

/**
 * The questions of an agent, wherever they are answered: approvals as two buttons, others as a form.
 *
 * They are answered together, as the protocol wants it. Several approvals are sent when the last one
 * is decided.
 */
export function Questions({ task, interrupts, calls, said, onAnswer }: Asked) {
  const [decided, setDecided] = useState<ReadonlyMap<string, Answer>>(new Map());
  const [isSent, setSent] = useState(false);
  const each = interrupts.flatMap(eachCall);
  const approvals = each.map((one) => ({ one, approval: approvalOf(one) }));
  const others = approvals.filter(({ approval }) => !approval).map(({ one }) => one);
  const take = (answers: readonly Answer[]) => {
    const all = new Map([...decided, ...answers.map((one): [string, Answer] => [one.interruptId, one])]);
    setDecided(all);
    if (each.some(({ id }) => !all.has(id))) return;
    setSent(true);
    onAnswer(interrupts.map((one) => joined(one, all)));
  };
  const areOthersOpen = others.some(({ id }) => !decided.has(id));
  return (
    <div class="questions" role="group" aria-label="The agent asks" onInput={({ currentTarget }) => unsent.keep(task, currentTarget)}>
      {approvals.map(({ one, approval }, at) => {
        if (!approval) return null;
        const answer = decided.get(one.id);
        if (answer) return <Decided key={one.id} answer={answer} onUndo={isSent ? undefined : () => setDecided(without(decided, one.id))} />;
        return (
          <ApprovalCard
            key={one.id}
            interrupt={one}
            approval={approval}
            call={callsOf(one, calls)[0]}
            place={each.length > 1 ? `${at + 1} of ${each.length}` : ""}
            isSaid={one.message?.trim() === said}
            isBusy={isSent}
            onAnswer={(answer) => take([answer])}
          />
        );
      })}
      {areOthersOpen && <InterruptForm interrupts={others} calls={calls} asked={said} onAnswer={take} />}
    </div>
  );
}

function without(decided: ReadonlyMap<string, Answer>, id: string): ReadonlyMap<string, Answer> {
  return new Map([...decided].filter(([key]) => key !== id));
}

function Decided({ answer, onUndo }: { answer: Answer; onUndo: (() => void) | undefined }) {
  return (
    <p class="decided" role="status">
      <Icon of={Check} />
      {verdictsOf(answer.payload)[0]?.outcome}
      {onUndo && <button type="button" class="link" onClick={onUndo}>Change</button>}
    </p>
  );
}
