import { User } from "lucide";
import type { ComponentChildren } from "preact";

import { AnswerHere } from "../approval/answer_here";
import { AnsweredElsewhere } from "../approval/answered_elsewhere";
import { withoutArguments } from "../approval/decision";
import { inWords } from "../approval/verdict";
import { FeedbackView } from "../chat/feedback_view";
import { FileView } from "../chat/file_view";
import { Markdown } from "../markdown/markdown";
import { linkTo } from "../route";
import { Icon } from "../ui/icon";
import { Skeleton } from "../ui/skeleton";
import type { Result, Said } from "./result";
import { stateName } from "./timeline";

const FAILURES = new Set(["failed", "rejected"]);

interface Shown {
  agent: string;
  task: string;
  result: Result;
  state: string;
  /** The thread in which a question is answered; empty: it can't be answered here. */
  context: string;
}

/** Who asked what, and what came of it. */
export function Summary({ agent, task, result, state, context }: Shown) {
  return (
    <section class="summary" aria-label="Question and answer">
      <div class="asked" role="group" aria-label="Asked" tabIndex={0}>
        <h2>
          <Icon of={User} size={14} /> {result.owner || "Somebody"} asked
        </h2>
        {result.said.map((one) => <SaidView key={one.generation} said={one} />)}
      </div>
      <div class="answered">
        <h2>{agent} {verbOf(stateName(state), result.status)}</h2>
        <Answer agent={agent} task={task} result={result} state={state} context={context} />
        {isEnd(stateName(state)) && (
          <div class="run-tools">
            <FeedbackView agent={agent} task={task} />
          </div>
        )}
      </div>
    </section>
  );
}

function verbOf(state: string, said: string): string {
  if (FAILURES.has(state)) return state === "failed" ? "failed" : "rejected it";
  if (state.endsWith("required")) return said ? "asks" : "waits";
  return state === "completed" ? "answered" : state === "canceled" ? "was stopped" : "is working";
}

function SaidView({ said }: { said: Said }) {
  return (
    <div class="said-one">
      {said.text.trim() ? <Markdown text={said.text} /> : said.files.length === 0 && <p class="soft">{described(said)}</p>}
      {said.files.map((file, at) => <FileView key={at} file={file} />)}
    </div>
  );
}

/** An answer to a question may have no text. */
function described({ parts }: Said): string {
  const data = parts.filter((part) => part["data"] !== undefined).map((part) => inWords(part["data"]));
  return data.join("; ") || "Nothing";
}

function isEnd(state: string): boolean {
  return /^(completed|canceled)$/.test(state) || FAILURES.has(state);
}

function Answer({ agent, task, result, state, context }: Shown): ComponentChildren {
  const name = stateName(state);
  const { answer, files, status } = result;
  const isOver = isEnd(name);
  const waits = name.endsWith("required");
  // An agent may say its question, or its last words, twice.
  const isSaid = !status.trim() || answer.trim().endsWith(status.trim());
  return (
    <>
      {answer.trim() && <Markdown text={answer} />}
      {files.map((file, at) => <FileView key={at} file={file} />)}
      {!isSaid && FAILURES.has(name) && <p class="failure" role="alert">{status}</p>}
      {!isSaid && !FAILURES.has(name) && <Markdown text={waits ? withoutArguments(status) : status} />}
      {!waits && <AnsweredElsewhere task={task} />}
      {waits && context && (
        <AnswerHere agent={agent} context={context} task={task} said={status.trim()}>
          <p class="waits">
            <a class="button" href={linkTo(["chat", agent, context])}>Answer</a>
            <span class="soft">The agent waits{name === "auth required" && " for credentials"}.</span>
          </p>
        </AnswerHere>
      )}
      {!answer.trim() && isSaid && files.length === 0 && !waits && (isOver ? <p class="soft">{name === "completed" ? "Nothing" : `The task was ${name}`}.</p> : <Skeleton lines={3} label="The agent is working" />)}
    </>
  );
}
