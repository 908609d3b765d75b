/** Like rows that follow each other: `period` different ones that repeat, or a row of its own. */
export interface LikeRows<Row> {
  rows: readonly Row[];
  period: number;
}

/** Different rows that repeat at most: such as a thought, a call of a model and one of a tool. */
const LONGEST_PERIOD = 3;
/** How often rows repeat at least to be shown as one. */
const FEWEST = 5;

/** Returns rows in their order, those that repeat together. */
export function likeRows<Row>(rows: readonly Row[], isLike: (one: Row, other: Row) => boolean): LikeRows<Row>[] {
  const found: LikeRows<Row>[] = [];
  for (let at = 0; at < rows.length; at += found.at(-1)!.rows.length) found.push(likeFrom(rows, at, isLike));
  return found;
}

function likeFrom<Row>(rows: readonly Row[], at: number, isLike: (one: Row, other: Row) => boolean): LikeRows<Row> {
  for (let period = 1; period <= LONGEST_PERIOD; period += 1) {
    let end = at + period;
    while (end < rows.length && isLike(rows[end - period]!, rows[end]!)) end += 1;
    const times = Math.floor((end - at) / period);
    if (times >= FEWEST) return { rows: rows.slice(at, at + times * period), period };
  }
  return { rows: rows.slice(at, at + 1), period: 1 };
}

/** Returns what like rows are called together: their names, and how many there are of each. */
export function nameOf<Row>({ rows, period }: LikeRows<Row>, name: (row: Row) => string): string {
  const names = [...new Set(rows.slice(0, period).map(name))];
  return `${names.join(", ")} × ${(rows.length / period).toLocaleString()}`;
}
