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

  constructor() {
    super();
    addEventListener("hashchange", () => this.show());
  }

  go(fragment: string): void {
    location.hash = fragment;
  }

  /**
   * Goes from a page to a fragment without a step in the browser's history.
   *
   * Does nothing if the address is another page's by now: a page is rendered some time after the
   * address has changed, and until then the timers of the one before it may end.
   */
  replace(page: readonly string[], fragment: string): void {
    if (linkTo(placeOf(location.hash).parts) !== linkTo(page)) return;
    history.replaceState(null, "", fragment);
    this.show();
  }

  private show(): void {
    this.place = placeOf(location.hash);
    this.changed();
  }
}

export const route = new Route();
