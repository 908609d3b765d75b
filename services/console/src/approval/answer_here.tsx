import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";

import { callsIn } from "../chat/calls";
import { Conversation } from "../chat/conversation";
import type { Answer } from "../chat/transcript";
import { answersElsewhere } from "../inbox/answers_elsewhere";
import { inbox } from "../inbox/inbox";
import { useStore } from "../store";
import { Skeleton } from "../ui/skeleton";
import { toasts } from "../ui/toasts";
import { AnsweredElsewhere } from "./answered_elsewhere";
import { Questions } from "./questions";

interface Asked {
  agent: string;
  /** The task's thread. */
  context: string;
  task: string;
  /** What is said above already. */
  said: string;
  /** Where to go for what needs more than a form. */
  children: ComponentChildren;
}

/** The questions of a task that waits, outside of its chat. */
export function AnswerHere({ agent, context, task, said, children }: Asked) {
  const conversation = useMemo(() => new Conversation(agent, context), [agent, context]);
  useLayoutEffect(() => () => conversation.close(), [conversation]);
  const { transcript, isLoading, error } = useStore(conversation);
  const [isSent, setSent] = useState(false);
  const asking = [...transcript.runs].reverse().find((run) => run.state === "asking" && (!run.task || run.task === task));
  const last = transcript.runs.at(-1);
  const elsewhere = useStore(answersElsewhere).of(task);
  useEffect(() => answersElsewhere.mind(agent, task), [agent, task]);
  const answer = (answers: Answer[]) => {
    setSent(true);
    conversation.answer(answers);
  };
  useEffect(() => {
    if (!isSent || last?.state === "running") return;
    if (last?.state === "failed") toasts.fail(last.error);
    else toasts.say(`${agent} has the answer.`);
    void inbox.load();
  }, [isSent, last?.state]);
  return (
    <>
      {error && <p class="error" role="alert">{error}</p>}
      {isLoading && <Skeleton lines={3} />}
      {isSent && last?.state === "running" && <p class="hint" role="status">{agent} is at work with the answer<span class="busy-mark" aria-hidden="true" /></p>}
      <AnsweredElsewhere task={task} />
      {elsewhere === undefined && !isSent && asking && (
        <Questions key={asking.id} task={task} interrupts={asking.interrupts} calls={callsIn(transcript.runs)} said={said} onAnswer={answer} />
      )}
      {elsewhere === undefined && !isLoading && !isSent && !asking && !error && children}
    </>
  );
}
