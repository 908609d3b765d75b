import { Copy, Pencil, RotateCcw } from "lucide";
import { Component, type ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { Markdown } from "../markdown/markdown";
import { linkTo } from "../route";
import { copy } from "../ui/copy";
import { Icon } from "../ui/icon";
import { IconButton } from "../ui/icon_button";
import { FeedbackView } from "./feedback_view";
import { GivenView } from "./given_view";
import { Items, UserView } from "./items";
import type { Run, ThreadMessage, UserMessage } from "./transcript";

interface Shown {
  run: Run;
  agent: string;
  /** Whether it is the last run of its task, which feedback is about. */
  isLastOfTask: boolean;
  isLast: boolean;
  onFollow: () => void;
  onRetry: () => void;
  onEdit: (message: UserMessage, text: string) => void;
}

/**
 * One run, drawn again only while it changes: a run grows in place, with each frame of a stream, and a
 * thread may have hundreds that have ended.
 */
export class RunView extends Component<Shown> {
  private drawn = "";

  override shouldComponentUpdate(next: Shown): boolean {
    return next.run !== this.props.run || next.run.state === "running" || lookOf(next) !== this.drawn;
  }

  override render(): ComponentChildren {
    this.drawn = lookOf(this.props);
    return <Body {...this.props} />;
  }
}

/** Returns what a run that is not at work can change in. */
function lookOf({ run, isLast, isLastOfTask }: Shown): string {
  const { state, task, error, items, user, pending } = run;
  return [state, task, error, items.length, user.length, pending.length, isLast, isLastOfTask].join();
}

/** What the user said, what came of it, and what can be done with both. */
function Body({ run, agent, isLastOfTask, isLast, onFollow, onRetry, onEdit }: Shown) {
  const isOver = run.state !== "running" && run.state !== "asking";
  return (
    <article class="run" data-state={run.state}>
      {run.user.map((message) => (
        <Said key={message.id} message={message} onEdit={(text) => onEdit(message, text)} />
      ))}
      {run.given.map((given, at) => <GivenView key={at} given={given} />)}
      <div class="answer">
        <Items items={run.items} phase={run.state === "running" ? "running" : run.state === "asking" && isLast ? "asking" : "over"} />
        {run.state === "running" && (
          <p class="working">
            <span class="busy-mark" aria-hidden="true" /> {run.items.length === 0 ? "Thinking" : "Working"}
          </p>
        )}
        {run.state === "cancelled" && <p class="notice">Stopped.</p>}
        {run.pending.length > 0 && <p class="notice">The agent waits for results of tools that the console does not have.</p>}
        {run.state === "failed" && (
          <p class="failure" role="alert">
            {run.error}{" "}
            {run.isLost && <button type="button" class="plain small" onClick={onFollow}>Follow again</button>}
          </p>
        )}
        {run.state !== "running" && (
          <div class="run-tools">
            {textOf(run) && <IconButton icon={Copy} label="Copy the answer" isSmall onClick={() => void copy(textOf(run))} />}
            {isLast && isOver && run.user.length > 0 && <IconButton icon={RotateCcw} label="Try again" isSmall onClick={onRetry} />}
            {run.task && isOver && isLastOfTask && <FeedbackView agent={agent} task={run.task} />}
            {run.task && (
              <a class="task-link" href={linkTo(["tasks", agent, run.task])}>
                Task<span class="unseen"> {run.task}</span>
              </a>
            )}
          </div>
        )}
      </div>
    </article>
  );
}

/** What was said before the first run, in the thread that this one continues. */
export function Past({ messages }: { messages: readonly ThreadMessage[] }) {
  return (
    <>
      {messages.filter(({ content }) => content).map((message) => (
        <article key={message.id} class="run">
          {message.role === "user" ? <UserView message={message as unknown as UserMessage} /> : <Markdown text={String(message["content"])} />}
        </article>
      ))}
    </>
  );
}

function textOf({ items }: Run): string {
  return items.map((item) => (item.kind === "text" ? item.text.trim() : "")).filter(Boolean).join("\n\n");
}

function Said({ message, onEdit }: { message: UserMessage; onEdit: (text: string) => void }) {
  const [isEdited, setEdited] = useState(false);
  const text = textIn(message);
  if (isEdited) return <Edit text={text} onClose={() => setEdited(false)} onSend={onEdit} />;
  return (
    <div class="said-by-user">
      <UserView message={message} />
      <span class="user-tools">
        <IconButton icon={Pencil} label="Edit the message" isSmall onClick={() => setEdited(true)} />
      </span>
    </div>
  );
}

/** Returns the text of a message, which may have files, too. */
export function textIn({ content }: UserMessage): string {
  if (typeof content === "string") return content;
  return (content ?? []).map((part) => part["text"] ?? "").filter(Boolean).join("\n");
}

function Edit({ text, onSend, onClose }: { text: string; onSend: (text: string) => void; onClose: () => void }) {
  const [edited, setEdited] = useState(text);
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => field.current!.focus(), []);
  const submit = (event: Event) => {
    event.preventDefault();
    if (edited.trim()) onSend(edited.trim());
  };
  return (
    <form class="edit" onSubmit={submit}>
      <textarea
        ref={field}
        name="edited"
        aria-label="Edited message"
        rows={3}
        value={edited}
        onInput={({ currentTarget }) => setEdited(currentTarget.value)}
        onKeyDown={({ key }) => key === "Escape" && onClose()}
      />
      <p class="hint">The conversation goes on from here in a thread of its own.</p>
      <div class="actions">
        <button type="button" class="quiet small" onClick={onClose}>Go back</button>
        <button type="submit" class="small" disabled={!edited.trim()}>
          <Icon of={RotateCcw} size={14} /> Send edited
        </button>
      </div>
    </form>
  );
}
