import { useState } from "preact/hooks";

import { postJson } from "../gateway";
import { linkTo, route } from "../route";
import type { LogRow } from "./timeline";

interface Travel {
  agent: string;
  task: string;
  rows: LogRow[];
  /** The last event that is shown; 0: the newest. */
  at: number;
  onChange: (at: number) => void;
}

/** A slider over a task's events, and a form that forks the task where the slider is. */
export function TimeTravel({ agent, task, rows, at, onChange }: Travel) {
  const [text, setText] = useState("");
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [first, last] = [rows[0]!.generation, rows.at(-1)!.generation];
  const shown = at || last;
  // One key for each fork that is wanted: sent twice, it is begun once.
  const [key, setKey] = useState(() => crypto.randomUUID());

  const fork = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    const parts = [{ text }];
    const message = text.trim() ? { message: { messageId: key, role: "ROLE_USER", parts } } : {};
    const path = `v1/agents/${encodeURIComponent(agent)}/tasks/${encodeURIComponent(task)}:fork`;
    try {
      const forked = await postJson(path, { generation: shown, ...message }, { "Idempotency-Key": key });
      route.go(linkTo(["tasks", agent, forked["id"]], { beside: task }));
    } catch (refused) {
      setError((refused as Error).message);
      setKey(crypto.randomUUID());
    }
    setBusy(false);
  };

  return (
    <div class="travel">
      <label class="slider">
        As of event {shown} of {last}
        <input
          type="range"
          name="at"
          min={first}
          max={last}
          value={shown}
          onInput={({ currentTarget }) => onChange(currentTarget.valueAsNumber === last ? 0 : currentTarget.valueAsNumber)}
        />
      </label>
      {at !== 0 && (
        <button type="button" class="plain" onClick={() => onChange(0)}>
          Now
        </button>
      )}
      <form onSubmit={fork}>
        <input name="fork" aria-label="Message of the fork" placeholder="Message (optional)" value={text} onInput={({ currentTarget }) => setText(currentTarget.value)} />
        <button type="submit" class="plain" disabled={isBusy}>
          Fork from here
        </button>
      </form>
      {error && <p class="error" role="alert">{error}</p>}
    </div>
  );
}
