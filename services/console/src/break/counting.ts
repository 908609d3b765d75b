import { follow, postJson } from "../gateway";
import { Store } from "../store";
import type { LogRow } from "../task/timeline";
import { DevStack, nameOf, pause, type Process } from "./stack";
import { Tally } from "./tally";

/** Something that was broken while the stream went on. */
export interface Breakage {
  what: string;
  at: Date;
  /** The longest pause between two events since then, in milliseconds. */
  gap: number;
  /** Continued by; empty until it is known. */
  outcome: string;
}

const AGENT = "v1/agents/counter";
/** 50 numbers a second, with a checkpoint every half second. */
const ORDER = "1000000 20 25";
const LONGEST_ABSENCE = 60_000;

/** A stream of numbers, what is done to the stack meanwhile, and whether an event is missing. */
export class Counting extends Store {
  readonly stack = new DevStack();
  readonly breakages: Breakage[] = [];
  tally = new Tally();
  task = "";
  number = 0;
  /** The gateway that the stream comes from. */
  gateway: Process | undefined;
  error = "";
  private chosen: Process | undefined;
  private connections = 0;
  private writer = "";
  private lastAt = 0;
  private aborting = new AbortController();
  private cutting = new AbortController();
  private arrivals: (() => void)[] = [];

  /** Whether a number can come. */
  get isRunning(): boolean {
    return this.task !== "";
  }

  /** What has been broken and has not recovered yet. */
  get open(): Breakage | undefined {
    return this.breakages.find((one) => one.outcome === "");
  }

  /** The worker that counts; undefined: its process is unknown. */
  get worker(): Process | undefined {
    return this.stack.of("worker").find((one) => one.worker !== null && one.worker === this.writer);
  }

  async load(): Promise<void> {
    await this.attempt(() => this.stack.refresh());
  }

  /** Starts to count, and follows the task's log. */
  async start(): Promise<void> {
    await this.attempt(async () => {
      const message = { messageId: crypto.randomUUID(), role: "ROLE_USER", parts: [{ text: ORDER }] };
      const answer = await postJson(`${AGENT}/message:send`, { message, configuration: { returnImmediately: true } });
      this.aborting = new AbortController();
      this.tally = new Tally();
      this.number = 0;
      this.lastAt = performance.now();
      this.task = answer["task"].id;
      void this.followLog(this.aborting.signal);
    });
  }

  /** Stops following, and cancels the task. */
  async stop(): Promise<void> {
    const { task } = this;
    if (!task) return;
    this.end();
    await this.attempt(() => postJson(`${AGENT}/tasks/${task}:cancel`, {}));
  }

  /** Kills the process that matters most to the stream, and waits until it has been replaced. */
  async kill(role: Process["role"]): Promise<void> {
    await this.load();
    const target = this.targetOf(role);
    if (target === undefined || this.open) return;
    await this.during(`kill -9 ${nameOf(target)}`, async () => {
      const killed = target.worker;
      await this.stack.kill(target);
      await this.replaced(target);
      await this.arrival();
      while (killed !== null && this.writer === killed) await this.arrival();
      await this.stack.refresh();
      return this.afterDeath(target);
    });
  }

  /** Cuts the stream's connection. */
  cut(): Promise<void> {
    return this.during("cut the stream", () => this.resumed());
  }

  /** Cuts the stream's connection and resumes on the next gateway. */
  move(): Promise<void> {
    return this.during("resume on another gateway", async () => {
      this.chosen = this.next();
      return this.resumed();
    });
  }

  private async resumed(): Promise<string> {
    const before = this.connections;
    this.cutting.abort();
    while (this.connections === before) await this.arrival();
    return `${this.servedBy()} resumed it`;
  }

  private targetOf(role: Process["role"]): Process | undefined {
    const preferred = role === "worker" ? this.worker : role === "gateway" ? this.gateway : undefined;
    return (preferred && this.stack.current(preferred)) ?? this.stack.of(role)[0];
  }

  private async during(what: string, action: () => Promise<string>): Promise<void> {
    const breakage: Breakage = { what, at: new Date(), gap: 0, outcome: "" };
    this.breakages.unshift(breakage);
    this.changed();
    try {
      breakage.outcome = await action();
    } catch (error) {
      breakage.outcome = (error as Error).message;
    }
    this.changed();
  }

  private async replaced(dead: Process): Promise<void> {
    const deadline = performance.now() + LONGEST_ABSENCE;
    for (;;) {
      await this.stack.refresh();
      const now = this.stack.current(dead);
      if (now?.running && now.pid !== dead.pid) return;
      if (performance.now() > deadline) throw new Error(`${nameOf(dead)} was not started again`);
      await pause();
    }
  }

  private afterDeath(dead: Process): string {
    if (dead.role === "worker") {
      const heir = this.worker;
      return `${heir ? nameOf(heir) : this.writer} goes on counting`;
    }
    if (dead.role === "gateway") return `${this.servedBy()} serves the stream`;
    return `${nameOf(dead)} is back`;
  }

  private servedBy(): string {
    return this.gateway ? nameOf(this.gateway) : "the gateway";
  }

  /** Resolves when the next event has come. */
  private arrival(): Promise<void> {
    if (!this.isRunning) throw new Error("the stream has ended");
    return new Promise((resolve) => this.arrivals.push(resolve));
  }

  private async followLog(signal: AbortSignal): Promise<void> {
    try {
      const path = `${AGENT}/tasks/${this.task}/log`;
      for await (const { data } of follow(path, signal, (_, init) => this.connect(path, init))) {
        this.take(data as unknown as LogRow);
      }
    } catch (error) {
      if (!signal.aborted) this.error = (error as Error).message;
    }
    if (!signal.aborted) this.end();
  }

  private async connect(path: string, init: RequestInit = {}): Promise<Response> {
    const gateway = this.chosen ?? this.stack.own ?? this.stack.gateways[0];
    const cutting = (this.cutting = new AbortController());
    const signal = AbortSignal.any([cutting.signal, ...(init.signal ? [init.signal] : [])]);
    try {
      const response = await this.stack.fetchFrom(gateway, path, { ...init, signal });
      if (response.ok) {
        this.gateway = this.chosen = gateway;
        this.connections += 1;
      }
      return response;
    } catch (error) {
      if (!cutting.signal.aborted) this.chosen = this.next(gateway);
      throw error;
    }
  }

  private next(after: Process | undefined = this.gateway): Process | undefined {
    const gateways = this.stack.gateways;
    const place = gateways.findIndex((one) => one.index === after?.index);
    return gateways[(place + 1) % gateways.length];
  }

  private take(row: LogRow): void {
    const now = performance.now();
    const { open } = this;
    if (open) open.gap = Math.max(open.gap, now - this.lastAt);
    this.lastAt = now;
    this.tally.take(row.generation);
    if (row.writer.kind === "worker") this.writer = row.writer.id.replace(/-[^-]*$/, "");
    const text: string = row.event["artifactUpdate"]?.artifact.parts[0]?.text ?? "";
    if (text) this.number = Number(text);
    for (const arrived of this.arrivals.splice(0)) arrived();
    this.changed();
  }

  private end(): void {
    this.task = "";
    this.aborting.abort();
    this.cutting.abort();
    for (const arrived of this.arrivals.splice(0)) arrived();
    this.changed();
  }

  private async attempt(action: () => Promise<unknown>): Promise<void> {
    this.error = "";
    try {
      await action();
    } catch (error) {
      this.error = (error as Error).message;
    }
    this.changed();
  }
}
