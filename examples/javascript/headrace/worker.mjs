// A worker: announces its agents, pulls and executes their runs, and shuts down gracefully.

import { randomBytes } from "node:crypto";
import { Bus, settings as fromEnvironment, sleep } from "./bus.mjs";
import { Registration } from "./directory.mjs";
import { Attempt } from "./attempt.mjs";
import { QueueWatch } from "./queues.mjs";
import { Slots } from "./slots.mjs";
import { RunRequest } from "./run_request.mjs";

const LAST_MOMENTS = 1000;

/** Declare an agent: `run` is an async generator function that yields its output. */
export function agent({ name, run, maxAttempts = 3, backoff = 1, followUps = "enqueue", ...options }) {
  const card = {
    name,
    description: options.description ?? "",
    version: options.version ?? "1.0.0",
    skills: options.skills ?? [],
    input_modes: options.inputModes ?? ["text/plain"],
    output_modes: options.outputModes ?? ["text/plain"],
    follow_ups: followUps,
  };
  return { name, run, card, followUps, policy: { maxAttempts, backoff } };
}

/** Serve `agents` until SIGTERM or SIGINT, then hand back the runs that don't end in time. */
export async function serve(agents, settings = fromEnvironment()) {
  const worker = new Worker(agents, settings);
  await worker.start();
  console.log(`${worker.id} serves ${agents.map((each) => each.name).join(", ")}`);
  await new Promise((stop) => {
    for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, stop);
  });
  await worker.stop();
}

class Worker {
  #attempts = new Map();

  constructor(agents, settings) {
    this.id = `worker-${randomBytes(4).toString("hex")}`;
    Object.assign(this, { agents, settings, slots: new Slots(settings.concurrency) });
  }

  async start() {
    this.bus = await Bus.open(this.settings, this.id);
    const byName = new Map(this.agents.map((each) => [each.name, each]));
    this.queues = new QueueWatch(this.bus, [...byName.keys()], this.slots, (name, msg, done) =>
      this.#work(byName.get(name), msg).finally(done),
    );
    await this.queues.start();
    this.registration = new Registration(this.bus, this.id, this.agents.map((each) => each.card));
    await this.registration.announce();
  }

  async stop() {
    await Promise.race([this.registration.withdraw(), sleep(500)]);
    await this.queues.stop();
    await this.#idle(this.settings.drainSeconds * 1000);
    for (const { attempt } of this.#attempts.values()) attempt.stop("leaving");
    await this.#idle(LAST_MOMENTS);
    await Promise.race([this.bus.connection.drain(), sleep(500)]);
    process.exit(0);
  }

  #idle(timeout) {
    const working = [...this.#attempts.values()].map(({ over }) => over);
    return Promise.race([Promise.allSettled(working), sleep(timeout)]);
  }

  async #work(each, msg) {
    const request = new RunRequest(msg);
    try {
      if (request.isNewer()) {
        console.error("a run request is left to workers of a later release");
        request.giveBack(this.bus, 2000);
        return;
      }
      const unreadable = request.read(this.bus.prefix);
      if (unreadable) {
        console.error(`a run request goes to the dead letters: ${unreadable}`);
        await request.giveUp(this.bus, unreadable);
        return;
      }
      await this.#attempt(each, request);
    } catch (error) {
      // The request is redelivered; other runs continue.
      console.error(`a run request on ${request.subject} broke`, error);
    }
  }

  async #attempt(each, request) {
    const name = `${request.key.task}/${request.run}`;
    if (this.#attempts.has(name)) return;
    const attempt = new Attempt(this.bus, this.id, each, request, this.settings);
    const over = attempt.work();
    this.#attempts.set(name, { attempt, over });
    await over.finally(() => this.#attempts.delete(name));
  }
}
