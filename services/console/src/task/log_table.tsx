import { useRowsInView } from "./rows_in_view";
import { stateName, summaryOf, type LogRow } from "./timeline";
import { elapsed } from "./units";

const HEIGHT = 26;

interface Shown {
  name?: string;
  rows: LogRow[];
  selected: number;
  follows: boolean;
  onSelect: (generation: number) => void;
}

/** The rows of a log; only those in view are in the page. */
export function LogTable({ name = "Log", rows, selected, follows, onSelect }: Shown) {
  const { first, last, frame } = useRowsInView(rows.length, HEIGHT, follows);
  const begin = rows[0] ? Date.parse(rows[0].time) : 0;
  return (
    <div class="log" aria-label={name} {...frame}>
      <table aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            <th scope="col">#</th>
            <th scope="col">After</th>
            <th scope="col">State</th>
            <th scope="col">Event</th>
            <th scope="col" class="wide">Run</th>
            <th scope="col" class="wide">Writer</th>
          </tr>
        </thead>
        <tbody>
          <Space rows={first} />
          {rows.slice(first, last).map((row, at) => (
            <tr
              key={row.generation}
              aria-rowindex={first + at + 2}
              class={row.generation === selected ? "is-selected" : ""}
              onClick={() => onSelect(row.generation)}
            >
              <td>
                <button type="button" class="link mono" aria-pressed={row.generation === selected}>
                  {row.generation}
                </button>
              </td>
              <td class="mono soft">{elapsed(Date.parse(row.time) - begin)}</td>
              <td>{stateName(row.state)}</td>
              <td class="event">{summaryOf(row)}</td>
              <td class="wide mono soft">{row.attempt ? `${row.run}.${row.attempt}` : row.run}</td>
              <td class="wide mono soft writer">{row.writer.id}</td>
            </tr>
          ))}
          <Space rows={rows.length - last} />
        </tbody>
      </table>
    </div>
  );
}

function Space({ rows }: { rows: number }) {
  if (rows <= 0) return null;
  return (
    <tr aria-hidden="true">
      <td class="space" colSpan={4} style={{ height: `${rows * HEIGHT}px` }} />
      <td class="space wide" colSpan={2} />
    </tr>
  );
}
