import { authorized, ROOT, reasonOf, Refused, type Json } from "../gateway";
import { session } from "../session";

/** A process of `headrace dev`. */
export interface Process {
  role: "gateway" | "worker" | "task-state" | "triggers" | "nats" | "redis" | "prometheus";
  index: number;
  pid: number;
  port: number | null;
  running: boolean;
  /** The id with which a worker signs events; null: unknown. */
  worker: string | null;
}

const PATH = "v1/dev/processes";
/** How often the gateway is asked, which may have just been started again. */
const TRIES = 60;
const PAUSE = 500;

/** Waits until it is worth asking again. */
export function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, PAUSE));
}

/** Returns the name under which `headrace dev` logs a process. */
export function nameOf({ role, index }: Process): string {
  return `${role}-${index}`;
}

function isOwn(gateway: Process): boolean {
  return String(gateway.port) === location.port;
}

/** The processes of the development stack that serves this page. */
export class DevStack {
  processes: Process[] = [];

  get gateways(): Process[] {
    return this.of("gateway");
  }

  of(role: Process["role"]): Process[] {
    return this.processes.filter((one) => one.role === role);
  }

  /** Returns the process as it is now; undefined: it is gone. */
  current({ role, index }: Process): Process | undefined {
    return this.of(role).find((one) => one.index === index);
  }

  /** The gateway that serves this page. */
  get own(): Process | undefined {
    return this.gateways.find(isOwn);
  }

  /** Fetches a path of one of the gateways with the user's token. */
  fetchFrom(gateway: Process | undefined, path: string, init: RequestInit = {}): Promise<Response> {
    if (gateway === undefined || isOwn(gateway)) return authorized(ROOT + path, init);
    const headers = new Headers(init.headers);
    if (session.current) headers.set("Authorization", `Bearer ${session.current}`);
    // A gateway of the same stack on this machine: its port comes from this page's gateway.
    return fetch(`http://${location.hostname}:${gateway.port}/${path}`, { ...init, headers });
  }

  /** Reads the list of processes; keeps the last one if the page's gateway does not answer. */
  async refresh(): Promise<void> {
    const answer = await this.ask(PATH);
    if (answer) this.processes = answer["processes"];
  }

  /** Kills a process as `kill -9` does. */
  async kill(process: Process): Promise<void> {
    const path = `${PATH}/${process.role}/${process.index}:kill`;
    const init = { method: "POST", headers: { "Content-Type": "application/json" } };
    for (let tries = 0; tries < TRIES; tries += 1) {
      // The gateway of this page can't answer after its own death.
      if ((await this.ask(path, init)) || isOwn(process)) return;
      await pause();
    }
    throw new Error("the gateway does not answer");
  }

  /**
   * Asks the gateway of this page, which allows it to no other page; null: it does not answer.
   *
   * @throws Refused
   */
  private async ask(path: string, init: RequestInit = {}): Promise<Json | null> {
    const response = await authorized(ROOT + path, init).catch(() => null);
    if (response === null || response.status === 503) return null;
    if (!response.ok) throw new Refused(response.status, await reasonOf(response));
    return response.json();
  }
}
