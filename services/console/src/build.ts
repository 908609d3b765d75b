import { ROOT } from "./gateway";
import { Store } from "./store";

const EVERY = 60_000;

/** Whether the gateway serves the console that this page is; after an update it is another one. */
class Build extends Store {
  isOther = false;

  constructor() {
    super();
    setInterval(() => void this.check(), EVERY);
    // Timers of hidden tabs hardly run.
    document.addEventListener("visibilitychange", () => document.hidden || void this.check());
  }

  /** Looks which files the console's page names, as each address has a hash of its content. */
  async check(): Promise<void> {
    const response = await fetch(`${ROOT}console/`, { cache: "no-cache" }).catch(() => null);
    const page = response?.ok ? await response.text() : "";
    const named = page.match(/assets\/[\w-]+\.(?:js|css)/g);
    // A gateway that is restarting says nothing about it.
    if (!named) return;
    const own = [import.meta.url, document.querySelector<HTMLLinkElement>("link[rel=stylesheet]")?.href];
    this.isOther = named.some((file) => !own.some((address) => address?.endsWith(file)));
    this.changed();
  }
}

export const build = new Build();
