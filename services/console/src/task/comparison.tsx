import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";

import { linkTo } from "../route";
import { session } from "../session";
import { useStore } from "../store";
import { TaskLog } from "./log";
import { LogTable } from "./log_table";
import { resultsOf, type ForkOf, type LogRow } from "./timeline";

interface Compared {
  agent: string;
  fork: ForkOf;
  rows: LogRow[];
}

/** A fork beside its source: what each has after their common past. */
export function Comparison({ agent, fork, rows }: Compared) {
  const { token } = useStore(session);
  const log = useMemo(() => new TaskLog(agent, fork.task), [agent, fork.task, token]);
  useEffect(() => {
    void log.open();
    return () => log.close();
  }, [log]);
  const { rows: sources, error } = useStore(log);
  const after = (all: LogRow[]) => all.filter(({ generation }) => generation > fork.generation);
  return (
    <div class="beside">
      {error && <p class="error pad" role="alert">{error}</p>}
      <Side title="Source" rows={after(sources)}>
        <a class="mono" href={linkTo(["tasks", agent, fork.task])}>{fork.task}</a>
      </Side>
      <Side title="Fork" rows={after(rows)}>
        <span class="hint">after event {fork.generation}</span>
      </Side>
    </div>
  );
}

function Side({ title, rows, children }: { title: string; rows: LogRow[]; children: ComponentChildren }) {
  const [selected, setSelected] = useState(0);
  const text = resultsOf(rows);
  return (
    <section class="side" aria-label={title}>
      <h2>
        {title} {children}
      </h2>
      {text && <p class="said" tabIndex={0}>{text}</p>}
      {rows.length === 0 && <p class="hint pad">Nothing after the common past.</p>}
      <LogTable name={`Log of the ${title.toLowerCase()}`} rows={rows} selected={selected} follows={false} onSelect={setSelected} />
    </section>
  );
}
