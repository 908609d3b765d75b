import { JsonTree } from "../json_tree";
import { LogTable } from "./log_table";
import type { LogRow } from "./timeline";

interface Shown {
  rows: LogRow[];
  selected: number;
  follows: boolean;
  onSelect: (generation: number) => void;
  onFollow: (follows: boolean) => void;
}

/** A log's events as they are stored, and the JSON of the one that is chosen. */
export function EventTable({ rows, selected, follows, onSelect, onFollow }: Shown) {
  const row = rows.find(({ generation }) => generation === selected);
  return (
    <>
      <div class="part-head">
        <h2 class="unseen">Events</h2>
        <label class="check">
          <input type="checkbox" checked={follows} onChange={({ currentTarget }) => onFollow(currentTarget.checked)} />
          Follow
        </label>
      </div>
      <div class={row ? "task-body has-detail" : "task-body"}>
        <LogTable rows={rows} selected={selected} follows={follows} onSelect={onSelect} />
        {row && <EventDetail row={row} />}
      </div>
    </>
  );
}

function EventDetail({ row }: { row: LogRow }) {
  return (
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
  );
}
