import { useEffect } from "preact/hooks";

import { Store } from "../store";

/** What the page shows, for its title and the bar of a phone. */
class Title extends Store {
  parts: readonly string[] = [];

  set(parts: readonly string[]): void {
    if (parts.join("\n") === this.parts.join("\n")) return;
    this.parts = parts;
    document.title = [...parts, "Headrace"].join(" · ");
    this.changed();
  }
}

export const title = new Title();

/** Titles the page: the most special first, such as `refund 7`, `waiting`. Empty parts are left out. */
export function useTitle(...parts: string[]): void {
  const given = parts.filter(Boolean);
  useEffect(() => title.set(given), [given.join("\n")]);
}
