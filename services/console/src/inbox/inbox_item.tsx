import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";

import { Questions } from "../approval/questions";
import { callsIn } from "../chat/calls";
import { Conversation, type Answer } from "../chat/conversation";
import { linkTo } from "../route";
import { Ago } from "../rows/ago";
import { titleOf, type Row } from "../rows/query";
import { useStore } from "../store";
import { Skeleton } from "../ui/skeleton";
import { toasts } from "../ui/toasts";
import { inbox } from "./inbox";

interface Shown {
  row: Row;
  isOpen: boolean;
  onToggle: () => void;
}

/** A question: what is asked, by whom, since when; open, it is answered in place. */
export function InboxItem({ row, isOpen, onToggle }: Shown) {
  const { agent, text, time } = row;
  return (
    <li class="inbox-item" data-task={row.id}>
      <button type="button" class="inbox-head" aria-expanded={isOpen} onClick={onToggle}>
        <span class="inbox-question">{text || titleOf(row)}</span>
        <span class="soft"><Ago time={time} /></span>
        <span class="inbox-about">
          {agent} asks{text && row.title && <> about “{row.title}”</>}
        </span>
      </button>
      {isOpen && <OpenItem row={row} />}
    </li>
  );
}

function OpenItem({ row }: { row: Row }) {
  const { agent, contextId, id } = row;
  const conversation = useMemo(() => new Conversation(agent, contextId), [agent, contextId]);
  useLayoutEffect(() => () => conversation.close(), [conversation]);
  const { transcript, isLoading, error } = useStore(conversation);
  const [isSent, setSent] = useState(false);
  const asking = [...transcript.runs].reverse().find((run) => run.state === "asking" && (!run.task || run.task === id));
  const last = transcript.runs.at(-1);
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
    <div class="inbox-body">
      {error && <p class="error" role="alert">{error}</p>}
      {isLoading && <Skeleton lines={3} />}
      {isSent && last?.state === "running" && <p class="hint" role="status">{agent} is at work with the answer<span class="busy-mark" aria-hidden="true" /></p>}
      {!isSent && asking && (
        <Questions key={asking.id} interrupts={asking.interrupts} calls={callsIn(transcript.runs)} said={row.text.trim()} onAnswer={answer} />
      )}
      {!isLoading && !isSent && !asking && !error && <p class="hint">Open the chat to answer it: it needs more than a form.</p>}
      <div class="inbox-links">
        <a href={linkTo(["tasks", agent, id])}>Task</a>
        <a href={linkTo(["chat", agent, contextId])}>Chat</a>
      </div>
    </div>
  );
}
