import { Check } from "lucide";
import { useState } from "preact/hooks";

import { InterruptForm } from "../chat/interrupt_form";
import type { Answer } from "../chat/conversation";
import type { Interrupt } from "../chat/transcript";
import { Icon } from "../ui/icon";
import { ApprovalCard } from "./approval_card";
import { approvalOf, callsOf, type AskedCall } from "./decision";

interface Asked {
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
export function Questions({ interrupts, calls, said, onAnswer }: Asked) {
  const [decided, setDecided] = useState<ReadonlyMap<string, Answer>>(new Map());
  const [isSent, setSent] = useState(false);
  const approvals = interrupts.map((one) => ({ one, approval: approvalOf(one) }));
  const others = approvals.filter(({ approval }) => !approval).map(({ one }) => one);
  const take = (answers: readonly Answer[]) => {
    const all = new Map([...decided, ...answers.map((one): [string, Answer] => [one.interruptId, one])]);
    setDecided(all);
    if (interrupts.some(({ id }) => !all.has(id))) return;
    setSent(true);
    onAnswer(interrupts.map(({ id }) => all.get(id)!));
  };
  const areOthersOpen = others.some(({ id }) => !decided.has(id));
  return (
    <div class="questions" role="group" aria-label="The agent asks">
      {approvals.map(({ one, approval }, at) => {
        if (!approval) return null;
        const answer = decided.get(one.id);
        if (answer) return <Decided key={one.id} answer={answer} onUndo={isSent ? undefined : () => setDecided(without(decided, one.id))} />;
        return (
          <ApprovalCard
            key={one.id}
            interrupt={one}
            approval={approval}
            calls={callsOf(one, calls)}
            place={interrupts.length > 1 ? `${at + 1} of ${interrupts.length}` : ""}
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
  const payload = JSON.stringify(answer.payload);
  const isApproved = payload.includes('"approved":true') || /"type":"(approve|edit)"/.test(payload);
  return (
    <p class="decided" role="status">
      <Icon of={Check} />
      {isApproved ? "Approved" : "Rejected"}
      {onUndo && <button type="button" class="link" onClick={onUndo}>Change</button>}
    </p>
  );
}
