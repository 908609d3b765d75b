import { CircleX, Copy, Ellipsis, MessageSquare, RotateCcw } from "lucide";
import { useState } from "preact/hooks";

import { linkTo } from "../route";
import { useTitle } from "../shell/title";
import { copy } from "../ui/copy";
import { Icon } from "../ui/icon";
import { Menu, MenuItem } from "../ui/menu";
import { StateBadge } from "../ui/state_badge";
import { useEndings } from "./actions";
import type { Result } from "./result";
import { RunAgain } from "./run_again";
import { stateName } from "./timeline";
import { costOf, elapsed, tokensOf } from "./units";

const LONGEST = 80;
/** Where there is no room for the buttons that end a task: they are in the menu. */
const NARROW = "(max-width: 640px)";

interface Headed {
  agent: string;
  task: string;
  /** The task's state as shown, and as it is. */
  state: string;
  present: string;
  context: string;
  result: Result;
  from: number;
  to: number;
  events: number;
  attempts: number;
  tokens: number;
  cost: number;
}

/** What a task is about, its state and figures, and what can be done with it. */
export function TaskHead(shown: Headed) {
  const { agent, task, state, present, context, result } = shown;
  const [isAgain, setAgain] = useState(false);
  const asked = result.said[0];
  const title = titleOf(asked?.text ?? "") || task;
  const [endings, dialog] = useEndings({ agent, task, state: present });
  useTitle(title, stateName(state), agent);
  return (
    <header class="task-head">
      <nav class="crumbs" aria-label="Where this is">
        <a href="#/">Tasks</a> <span aria-hidden="true">/</span> <a href={linkTo([], { agent })}>{agent}</a>
      </nav>
      <div class="task-title">
        <h1 dir="auto">{title}</h1>
        {state && <StateBadge state={state} />}
        <span class="grow" />
        <span class="task-actions">
          {context && (
            <a class="button plain" href={linkTo(["chat", agent, context])}>
              <Icon of={MessageSquare} /> Open chat
            </a>
          )}
          {asked && (
            <button type="button" class="plain" name="again" onClick={() => setAgain(true)}>
              <Icon of={RotateCcw} /> Run again
            </button>
          )}
          {endings.map(({ name, label, ask }) => (
            <button key={name} type="button" class="plain wide" name={name} onClick={ask}>{label}</button>
          ))}
          <Menu class="quiet icon" name="More" label={<Icon of={Ellipsis} />}>
            {(close) => (
              <>
                <MenuItem onChoose={() => { close(); void copy(task); }}>
                  <Icon of={Copy} /> Copy the task's id
                </MenuItem>
                {matchMedia(NARROW).matches && endings.map(({ name, label, ask }) => (
                  <MenuItem key={name} isDangerous onChoose={() => { close(); ask(); }}>
                    <Icon of={CircleX} /> {label}
                  </MenuItem>
                ))}
              </>
            )}
          </Menu>
        </span>
      </div>
      <Facts {...shown} />
      {dialog}
      {isAgain && asked && <RunAgain agent={agent} said={asked} onClose={() => setAgain(false)} />}
    </header>
  );
}

function Facts({ task, from, to, events, attempts, tokens, cost }: Headed) {
  const facts: [string, string][] = [
    ["Began", from ? new Date(from).toLocaleString() : ""],
    ["Took", from ? elapsed(to - from) : ""],
    ["Tokens", tokensOf(tokens)],
    ["Cost", costOf(cost)],
    ["Attempts", attempts > 1 ? String(attempts) : ""],
    ["Log", `${events.toLocaleString()} ${events === 1 ? "event" : "events"}`],
    ["Task", task],
  ];
  return (
    <dl class="facts">
      {facts.filter(([, fact]) => fact).map(([name, fact]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd class={name === "Task" ? "mono" : "number"}>{fact}</dd>
        </div>
      ))}
    </dl>
  );
}

/** The first line of a text, not too long. */
export function titleOf(text: string): string {
  const line = text.trim().split("\n", 1)[0]!.replace(/^#+ /, "").trim();
  return line.length > LONGEST ? `${line.slice(0, LONGEST - 1).trimEnd()}…` : line;
}
