import { useEffect, useState } from "preact/hooks";

import type { LikeRows } from "./like_rows";

/** Returns which like rows are open, by their first one, and what opens and closes them; the selected row opens its own. */
export function useOpened<Row, Id>(all: readonly LikeRows<Row>[], idOf: (row: Row) => Id, selected: Id) {
  const [opened, setOpened] = useState<ReadonlySet<Id>>(new Set());
  const firstOf = ({ rows }: LikeRows<Row>) => idOf(rows[0]!);
  useEffect(() => {
    const like = all.find(({ rows }) => rows.length > 1 && rows.some((row) => idOf(row) === selected));
    if (like) setOpened((before) => new Set([...before, firstOf(like)]));
  }, [selected]);
  const toggle = (like: LikeRows<Row>) => {
    const next = new Set(opened);
    if (!next.delete(firstOf(like))) next.add(firstOf(like));
    setOpened(next);
  };
  return { isOpen: (like: LikeRows<Row>) => opened.has(firstOf(like)), toggle };
}
