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

  /** Looks which script the console's page names, as its address has a hash of its content. */
  async check(): Promise<void> {
    const response = await fetch(`${ROOT}console/`, { cache: "no-cache" }).catch(() => null);
    const page = response?.ok ? await response.text() : "";
    const script = page.match(/assets\/[\w-]+\.js/)?.[0];
    // A gateway that is restarting says nothing about it.
    if (!script) return;
    this.isOther = !import.meta.url.endsWith(script);
    this.changed();
  }
}

export const build = new Build();
