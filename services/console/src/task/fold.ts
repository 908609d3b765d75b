import { useRef } from "preact/hooks";

import type { LogRow } from "./timeline";

/** What a log comes to, row by row. */
export interface Fold {
  take(row: LogRow): void;
}

/** Folds a log that grows in place; each of its rows is taken once. */
export class Folded<F extends Fold> {
  private rows: readonly LogRow[] = [];
  private taken = 0;
  private fold: F | undefined;

  constructor(private readonly begin: () => F) {}

  /** Returns the fold of `rows`, which may be those of the last time with others behind them. */
  of(rows: readonly LogRow[]): F {
    if (!this.fold || rows !== this.rows || rows.length < this.taken) {
      this.fold = this.begin();
      this.taken = 0;
      this.rows = rows;
    }
    while (this.taken < rows.length) this.fold.take(rows[this.taken++]!);
    return this.fold;
  }
}

/** Returns the fold of `rows`, in components. */
export function useFold<F extends Fold>(begin: () => F, rows: readonly LogRow[]): F {
  const folded = useRef<Folded<F> | null>(null);
  return (folded.current ??= new Folded(begin)).of(rows);
}
