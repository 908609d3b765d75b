import { authorized, ROOT, reasonOf, Refused, type Json } from "../gateway";
import { session } from "../session";

/** A process of `headrace dev`. */
export interface Process {
  role: "gateway" | "worker" | "task-state" | "nats" | "redis" | "prometheus";
  index: number;
  pid: number;
  port: number | null;
  running: boolean;
  /** The id with which a worker signs events; null: unknown. */
  worker: string | null;
}

const PATH = "v1/dev/processes";
/** How often gateways are asked, which may have just been started again. */
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

/** The processes of the development stack that serves this page, reached through any of its gateways. */
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
    if (session.token) headers.set("Authorization", `Bearer ${session.token}`);
    // A gateway of the same stack on this machine: its port comes from this page's gateway.
    return fetch(`http://${location.hostname}:${gateway.port}/${path}`, { ...init, headers });
  }

  /** Reads the list of processes; keeps the last one if no gateway answers. */
  async refresh(): Promise<void> {
    const answer = await this.askAny(PATH, {}, this.gateways);
    if (answer) this.processes = answer["processes"];
  }

  /** Kills a process as `kill -9` does. */
  async kill(process: Process): Promise<void> {
    const path = `${PATH}/${process.role}/${process.index}:kill`;
    const init = { method: "POST", headers: { "Content-Type": "application/json" } };
    const others = this.gateways.filter((one) => one.pid !== process.pid);
    if (others.length === 0) {
      // The only gateway can't answer after its own death.
      await this.askAny(path, init, this.gateways);
      return;
    }
    for (let tries = 0; tries < TRIES; tries += 1) {
      if (await this.askAny(path, init, others)) return;
      await pause();
    }
    throw new Error("no gateway answers");
  }

  /**
   * Asks the gateways in turn until one answers; null: none does.
   *
   * @throws Refused
   */
  private async askAny(path: string, init: RequestInit, gateways: Process[]): Promise<Json | null> {
    for (const gateway of gateways.length ? gateways : [undefined]) {
      const response = await this.fetchFrom(gateway, path, init).catch(() => null);
      if (response === null || response.status === 503) continue;
      if (!response.ok) throw new Refused(response.status, await reasonOf(response));
      return response.json();
    }
    return null;
  }
}
