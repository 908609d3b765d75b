import { useFold } from "./fold";
import { elapsed } from "./log_table";
import { Spans, type LogRow, type Span } from "./timeline";

const WIDTH = 1000;
const LINE = 22;
const MOST = 40;

/** A log as a picture: what went on when. */
export function Timeline({ rows }: { rows: LogRow[] }) {
  const all = useFold(() => new Spans(), rows).all;
  const spans = all.slice(0, MOST);
  if (spans.length === 0) return null;
  const begin = Date.parse(rows[0]!.time);
  const length = Math.max(1, Date.parse(rows.at(-1)!.time) - begin);
  const left = (span: Span) => ((span.from - begin) / length) * WIDTH;
  const text = spans.map((span) => `${span.label}: ${elapsed(span.to - span.from)}`).join("; ");
  return (
    <figure class="timeline">
      <div class="lanes">
        <ul class="labels" aria-hidden="true">
          {spans.map((span, at) => (
            <li key={at}>{span.label}</li>
          ))}
        </ul>
        <svg role="img" aria-label={text} viewBox={`0 0 ${WIDTH} ${spans.length * LINE}`} preserveAspectRatio="none" height={spans.length * LINE}>
          {spans.map((span, at) => (
            <rect
              key={at}
              class={`span ${span.kind}`}
              x={Math.min(left(span), WIDTH - 3)}
              y={at * LINE + 5}
              width={Math.max(3, ((span.to - span.from) / length) * WIDTH)}
              height={LINE - 10}
            >
              <title>{`${span.label}: ${elapsed(span.to - span.from)}`}</title>
            </rect>
          ))}
        </svg>
        <ul class="labels" aria-hidden="true">
          {spans.map((span, at) => (
            <li key={at} class="mono">{elapsed(span.to - span.from)}</li>
          ))}
        </ul>
      </div>
      {all.length > MOST && <figcaption class="hint">The first {MOST} of {all.length}.</figcaption>}
    </figure>
  );
}
