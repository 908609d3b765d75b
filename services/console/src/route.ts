import { Store } from "./store";

/** A place in the console: `#/chat/echo/…?open=state` has parts and a query. */
export interface Place {
  parts: string[];
  query: URLSearchParams;
}

/** Returns the place that a URL's fragment names. */
export function placeOf(fragment: string): Place {
  const [path = "", query = ""] = fragment.replace(/^#?\/?/, "").split(/\?(.*)/s);
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { parts, query: new URLSearchParams(query) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Returns the fragment of a place; empty values of the query are left out. */
export function linkTo(parts: readonly string[], query: Record<string, string> = {}): string {
  const set = Object.entries(query).filter(([, value]) => value !== "");
  const asked = new URLSearchParams(set).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${asked && `?${asked}`}`;
}

/** The place that the address bar shows. The fragment is never sent to a server. */
class Route extends Store {
  place = placeOf(location.hash);
  /** The fragment of `place`, as the address bar has it. */
  private shown = location.hash;

  constructor() {
    super();
    addEventListener("hashchange", () => this.show());
  }

  /**
   * Goes to a fragment; `replaces`: without a step in the browser's history, and only if the address
   * is still that of what is shown: `hashchange` comes later than a change.
   */
  go(fragment: string, replaces = false): void {
    if (!replaces) {
      location.hash = fragment;
    } else if (location.hash === this.shown) {
      history.replaceState(null, "", fragment);
      this.show();
    }
  }

  private show(): void {
    this.shown = location.hash;
    this.place = placeOf(this.shown);
    this.changed();
  }
}

export const route = new Route();
