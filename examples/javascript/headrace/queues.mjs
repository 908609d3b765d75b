// The queues of a worker's agents, as they are added (docs/bus.md, "Queues"). Unused queues are deleted
// by workers in Python; without one they stay, each at the cost of a consumer.

import { BusUnavailable } from "./bus.mjs";
import { Puller } from "./poll.mjs";

const LOOK_EVERY = 3000;
const TIMEOUT = 2000;

export class QueueWatch {
  #pullers = new Map();
  #hints = [];
  #looking = false;

  constructor(bus, agents, slots, deliver) {
    Object.assign(this, { bus, agents, slots, deliver });
  }

  /** Pull from the first queue of every agent, and from others as they are added. */
  async start() {
    for (const agent of this.agents) {
      await this.#begin(agent).ensured();
      const subscription = this.bus.connection.subscribe(this.bus.queuesOf(agent), { callback: () => this.#look() });
      this.#hints.push(subscription);
    }
    this.timer = setInterval(() => this.#look(), LOOK_EVERY);
    this.#look();
  }

  /** Stop pulling. */
  async stop() {
    clearInterval(this.timer);
    for (const hints of this.#hints) hints.unsubscribe();
    await Promise.all([...this.#pullers.values()].map((puller) => puller.stop()));
  }

  #begin(consumer) {
    const [agent] = consumer.split("@");
    const puller = new Puller(this.bus, consumer, this.slots, (msg, done) => this.deliver(agent, msg, done));
    this.#pullers.set(consumer, puller);
    puller.start();
    return puller;
  }

  async #look() {
    if (this.#looking) return;
    this.#looking = true;
    try {
      const names = await this.#names();
      for (const name of names) if (!this.#pullers.has(name)) this.#begin(name);
      for (const [name, puller] of this.#pullers) {
        if (names.has(name) || this.agents.includes(name)) continue;
        this.#pullers.delete(name);
        await puller.stop();
      }
    } catch (trouble) {
      if (!(trouble instanceof BusUnavailable)) throw trouble;
    } finally {
      this.#looking = false;
    }
  }

  async #names() {
    const subject = `$JS.API.CONSUMER.NAMES.${this.bus.runsStream}`;
    const names = [];
    for (let total = 1; names.length < total; ) {
      const page = await this.bus.command(subject, { offset: names.length }, TIMEOUT);
      if (!page.consumers?.length) break;
      names.push(...page.consumers);
      total = page.total;
    }
    return new Set(names.filter((name) => this.agents.includes(name.split("@")[0])));
  }
}
