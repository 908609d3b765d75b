import { SearchX } from "lucide";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";

import { linkTo, route } from "../route";
import { session } from "../session";
import { useTitle } from "../shell/title";
import { useStore } from "../store";
import { Comparison } from "../task/comparison";
import { Children, parentOf } from "../task/delegation";
import { DelegationTree } from "../task/delegation_tree";
import { EventTable } from "../task/event_table";
import { useFold } from "../task/fold";
import { LineDetail } from "../task/line_detail";
import { LineTable } from "../task/line_table";
import { TaskLog } from "../task/log";
import { lineOf, LogLines } from "../task/log_lines";
import { Result } from "../task/result";
import { Summary } from "../task/summary";
import { TaskHead } from "../task/task_head";
import { TimeTravel } from "../task/time_travel";
import { asOf, forkOf, type LogRow } from "../task/timeline";
import { Trace, type SpanKind } from "../task/trace";
import { Usage } from "../task/usage";
import { Waterfall } from "../task/waterfall";
import { EmptyState } from "../ui/empty_state";
import { Skeleton } from "../ui/skeleton";
import { TabPanel, Tabs } from "../ui/tabs";

const VIEWS = [["timeline", "Timeline"], ["trace", "Trace"], ["events", "Events"]] as const;

interface Shown {
  agent: string;
  task: string;
  query: URLSearchParams;
}

/** One task, now or as of an event: who asked what, the answer, when what went on, and its log. */
export function TaskPage({ agent, task, query }: Shown) {
  const { token } = useStore(session);
  const log = useMemo(() => new TaskLog(agent, task), [agent, task, token]);
  useEffect(() => {
    void log.open();
    return () => log.close();
  }, [log]);
  const { rows: all, error, isMissing } = useStore(log);
  const [at, setAt] = useState(Number(query.get("at")) || 0);
  const view = query.get("view") ?? "timeline";
  // The log grows in place; what is shown of it, only as far as `at`.
  const rows = useMemo(() => asOf(all, at), [log, at, Math.min(all.length, at)]);
  const beside = query.get("beside") ?? "";
  const place = (chosen: string) => linkTo(["tasks", agent, task], { at: at ? String(at) : "", view: chosen === "timeline" ? "" : chosen, beside });
  usePlace(["tasks", agent, task], place(view));
  const result = useFold(() => new Result(), rows);
  const trace = useFold(() => new Trace(), rows);
  const usage = useFold(() => new Usage(), rows);
  const children = useFold(() => new Children(), rows).all;
  const [first, last] = [rows[0], rows.at(-1)];
  const context: string = first?.event["task"]?.contextId ?? "";
  const [from, to] = [first ? Date.parse(first.time) : 0, last ? Date.parse(last.time) : 0];
  if (isMissing) return <NoTask task={task} />;
  return (
    <section class="page task">
      <TaskHead
        agent={agent} task={task} state={last?.state ?? ""} present={all.at(-1)?.state ?? ""} context={context}
        result={result} from={from} to={to} events={rows.length} attempts={last?.attempt ?? 0}
        tokens={usage.tokens} cost={usage.cost}
      />
      {error && <p class="error" role="alert">{error}</p>}
      {!first && !error && <Skeleton lines={6} />}
      <Origin agent={agent} task={task} rows={all} beside={beside} />
      {last && <Summary agent={agent} task={task} result={result} state={last.state} context={at === 0 ? context : ""} />}
      {all.length > 0 && <TimeTravel agent={agent} task={task} rows={all} at={at} onChange={setAt} />}
      <Beside agent={agent} rows={rows} beside={beside} />
      {last && (
        <>
          <Tabs label="Views of the task" tabs={VIEWS} chosen={view} onChoose={(chosen) => route.replace(["tasks", agent, task], place(chosen))} />
          <TabPanel name={view} class="task-view">
            {view === "trace" && <TraceView trace={trace} rows={rows} from={from} to={to} isLive={at === 0} />}
            {view === "events" && <EventsView rows={rows} />}
            {view === "timeline" && (
              <>
                <TimelineView trace={trace} rows={rows} from={from} to={to} isLive={at === 0}>
                  <DelegationTree tasks={children} />
                </TimelineView>
              </>
            )}
          </TabPanel>
        </>
      )}
    </section>
  );
}

/** Keeps the page's address; once a slider rests, because browsers limit how often it changes. */
function usePlace(page: string[], wanted: string): void {
  useEffect(() => {
    if (wanted === location.hash) return;
    const timer = setTimeout(() => route.replace(page, wanted), 300);
    return () => clearTimeout(timer);
  }, [wanted]);
}

/** Where a task comes from: the one that delegated it, or that it is a fork of. */
function Origin({ agent, task, rows, beside }: { agent: string; task: string; rows: LogRow[]; beside: string }) {
  const fork = forkOf(rows);
  const parent = parentOf(rows);
  return (
    <>
      {parent && (
        <p class="hint origin">
          Delegated by {parent.agent} <a class="mono" href={linkTo(["tasks", parent.agent, parent.task])}>{parent.task}</a>
        </p>
      )}
      {fork && (
        <p class="hint origin">
          Forked from <a class="mono" href={linkTo(["tasks", agent, fork.task])}>{fork.task}</a> at event {fork.generation}
          {fork.generation < fork.requested && `, the last input, checkpoint or step before ${fork.requested}`}.{" "}
          <a href={linkTo(["tasks", agent, task], { beside: beside ? "" : fork.task })}>{beside ? "Close the comparison" : "Compare"}</a>
        </p>
      )}
    </>
  );
}

function NoTask({ task }: { task: string }) {
  useTitle("No such task");
  return (
    <section class="page">
      <EmptyState icon={SearchX} title="No such task" actions={<a class="button plain" href="#/">All tasks</a>}>
        {task} has been deleted, has been kept as long as the fleet keeps tasks, or is not yours.
      </EmptyState>
    </section>
  );
}

function Beside({ agent, rows, beside }: { agent: string; rows: LogRow[]; beside: string }) {
  const fork = forkOf(rows);
  return fork && beside === fork.task ? <Comparison agent={agent} fork={fork} rows={rows} /> : null;
}

interface Viewed {
  trace: Trace;
  rows: LogRow[];
  from: number;
  to: number;
  isLive: boolean;
}

const OUTER: ReadonlySet<SpanKind> = new Set(["run", "queue", "attempt", "gap", "waiting", "step", "child"]);

/** What went on when, above the log as lines. */
function TimelineView({ trace, rows, from, to, isLive, children }: Viewed & { children: ComponentChildren }) {
  const { all } = useFold(() => new LogLines(), rows);
  const [selected, setSelected] = useState(0);
  const [span, setSpan] = useState("");
  const [follows, setFollows] = useState(false);
  const line = all.find(({ generation }) => generation === selected);
  const spans = trace.flat.filter((one) => OUTER.has(one.span.kind));
  return (
    <>
      <Waterfall
        name="Timeline" spans={spans} from={from} to={to} isLive={isLive} hasUsage={false} selected={span}
        onSelect={(chosen) => {
          setSpan(chosen.id);
          setSelected(lineOf(all, chosen.kind, chosen.generation)?.generation ?? 0);
        }}
      />
      {children}
      <div class="part-head">
        <h2>Log</h2>
        <label class="check">
          <input type="checkbox" checked={follows} onChange={({ currentTarget }) => setFollows(currentTarget.checked)} />
          Follow
        </label>
      </div>
      <div class={line ? "task-body has-detail" : "task-body"}>
        <div class="task-log">
          <LineTable lines={all} begin={from} selected={selected} follows={follows} onSelect={({ generation }) => setSelected(generation)} />
        </div>
        {line && <LineDetail key={line.generation} line={line} rows={rows} onClose={() => setSelected(0)} />}
      </div>
    </>
  );
}

/** Each call of a model or tool, with what it took. */
function TraceView({ trace, rows, from, to, isLive }: Viewed) {
  const { all } = useFold(() => new LogLines(), rows);
  const [selected, setSelected] = useState("");
  const spans = trace.flat;
  const chosen = spans.find(({ span }) => span.id === selected)?.span;
  const line = chosen && lineOf(all, chosen.kind, chosen.generation);
  return (
    <div class={line ? "task-body has-detail" : "task-body"}>
      <Waterfall name="Trace" spans={spans} from={from} to={to} isLive={isLive} hasUsage selected={selected} onSelect={({ id }) => setSelected(id === selected ? "" : id)} />
      {line && <LineDetail key={selected} line={line} rows={rows} onClose={() => setSelected("")} />}
    </div>
  );
}

/** Each event, as it is stored. */
function EventsView({ rows }: { rows: LogRow[] }) {
  const [selected, setSelected] = useState(0);
  const [follows, setFollows] = useState(false);
  return <EventTable rows={rows} selected={selected} follows={follows} onSelect={setSelected} onFollow={setFollows} />;
}
