import { useEffect, useMemo, useState } from "preact/hooks";

import { JsonTree } from "../json_tree";
import { linkTo, route } from "../route";
import { session } from "../session";
import { useStore } from "../store";
import { TaskActions } from "../task/actions";
import { Comparison } from "../task/comparison";
import { Children, parentOf } from "../task/delegation";
import { DelegationTree } from "../task/delegation_tree";
import { useFold } from "../task/fold";
import { TaskLog } from "../task/log";
import { elapsed, LogTable } from "../task/log_table";
import { StateDot } from "../task/state_dot";
import { TimeTravel } from "../task/time_travel";
import { asOf, forkOf, stateName, summaryOf } from "../task/timeline";
import { Timeline } from "../task/timeline_view";
import { Usage } from "../task/usage";

/** States whose message says what went wrong, with the error's id. */
const FAILURES = new Set(["failed", "rejected"]);

interface Shown {
  agent: string;
  task: string;
  query: URLSearchParams;
}

/** One task, now or as of an event: what went on when, and each event of its log. */
export function TaskPage({ agent, task, query }: Shown) {
  const { token } = useStore(session);
  const log = useMemo(() => new TaskLog(agent, task), [agent, task, token]);
  useEffect(() => {
    void log.open();
    return () => log.close();
  }, [log]);
  const { rows: all, error } = useStore(log);
  const [at, setAt] = useState(Number(query.get("at")) || 0);
  // The log grows in place; what is shown of it, only as far as `at`.
  const rows = useMemo(() => asOf(all, at), [log, at, Math.min(all.length, at)]);
  const fork = forkOf(all);
  const parent = parentOf(all);
  const children = useFold(() => new Children(), rows).all;
  const { tokens, cost } = useFold(() => new Usage(), rows);
  const beside = query.get("beside") ?? "";
  const [place, wanted] = [query.get("at") ?? "", at ? String(at) : ""];
  useEffect(() => {
    if (place === wanted) return;
    // Once the slider rests: browsers limit how often an address changes.
    const page = ["tasks", agent, task];
    const timer = setTimeout(() => route.replace(page, linkTo(page, { at: wanted, beside })), 300);
    return () => clearTimeout(timer);
  }, [wanted]);
  const [selected, setSelected] = useState(0);
  const [follows, setFollows] = useState(false);
  const [first, last] = [rows[0], rows.at(-1)];
  const context = first?.event["task"]?.contextId;
  const row = rows.find((one) => one.generation === selected);
  return (
    <section class="task">
      <header class="task-head">
        <h1 class="mono">{task}</h1>
        {last && (
          <span>
            <StateDot state={last.state} />
            {stateName(last.state)}
          </span>
        )}
        <span class="soft">{agent}</span>
        {last && <span class="soft">{rows.length} events in {elapsed(Date.parse(last.time) - Date.parse(first!.time))}</span>}
        {tokens > 0 && <span class="soft">{tokens.toLocaleString()} tokens</span>}
        {cost > 0 && <span class="soft">cost {cost.toLocaleString(undefined, { maximumSignificantDigits: 4 })}</span>}
        <span class="grow" />
        <label class="check">
          <input type="checkbox" checked={follows} onChange={({ currentTarget }) => setFollows(currentTarget.checked)} />
          Follow
        </label>
        {all.length > 0 && <TaskActions agent={agent} task={task} state={all.at(-1)!.state} />}
        {context && (
          <a class="button plain" href={linkTo(["chat", agent, context])}>
            Open chat
          </a>
        )}
      </header>
      {error && <p class="error pad" role="alert">{error}</p>}
      {last && FAILURES.has(stateName(last.state)) && <p class="error pad">{summaryOf(last)}</p>}
      {parent && (
        <p class="hint pad">
          Delegated by {parent.agent} <a class="mono" href={linkTo(["tasks", parent.agent, parent.task])}>{parent.task}</a>
        </p>
      )}
      {fork && (
        <p class="hint pad">
          Forked from <a class="mono" href={linkTo(["tasks", agent, fork.task])}>{fork.task}</a> at event {fork.generation}
          {fork.generation < fork.requested && `, the last input, checkpoint or step before ${fork.requested}`}.{" "}
          <a href={linkTo(["tasks", agent, task], { beside: beside ? "" : fork.task })}>{beside ? "Close the comparison" : "Compare"}</a>
        </p>
      )}
      {all.length > 0 && <TimeTravel agent={agent} task={task} rows={all} at={at} onChange={setAt} />}
      {fork && beside === fork.task && <Comparison agent={agent} fork={fork} rows={rows} />}
      <Timeline rows={rows} />
      <DelegationTree tasks={children} />
      <div class={row ? "task-body has-detail" : "task-body"}>
        <LogTable rows={rows} selected={selected} follows={follows} onSelect={setSelected} />
        {row && (
          <aside class="detail" aria-label={`Event ${row.generation}`} tabIndex={0}>
            <h2>Event {row.generation}</h2>
            <p class="hint">
              {row.type}, {row.time.replace("T", " ").slice(0, 23)}, {row.writer.kind} <span class="mono">{row.writer.id}</span>
            </p>
            <JsonTree key={row.generation} value={Object.values(row.event)[0]} isOpen />
            <details>
              <summary class="soft">Raw</summary>
              <pre>{JSON.stringify(row.event, null, 2)}</pre>
            </details>
          </aside>
        )}
      </div>
    </section>
  );
}
