import { AnswerHere } from "../approval/answer_here";
import { withoutArguments } from "../approval/decision";
import { linkTo } from "../route";
import { Ago } from "../rows/ago";
import { titleOf, type Row } from "../rows/query";

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
        <span class="inbox-question" dir="auto">{withoutArguments(text) || titleOf(row)}</span>
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
  return (
    <div class="inbox-body">
      <AnswerHere agent={agent} context={contextId} task={id} said={row.text.trim()}>
        <p class="hint">Open the chat to answer it: it needs more than a form.</p>
      </AnswerHere>
      <div class="inbox-links">
        <a href={linkTo(["tasks", agent, id])}>Task</a>
        <a href={linkTo(["chat", agent, contextId])}>Chat</a>
      </div>
    </div>
  );
}
