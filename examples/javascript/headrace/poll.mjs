// Pulls the runs of one queue: one request at a time, within the concurrency limit.

import { BusUnavailable, sleep } from "./bus.mjs";

const ACK_WAIT = 4e9; // nanoseconds
const EXPIRES = 2000;
const OVERDUE = 1000;
const AFTER_TROUBLE = 250;
const FIRST_REST = 20;
const LONGEST_REST = 200;
const EMPTY = ["404", "408"];
const IN_ORDER = ["filled", "stopped", "no answer", ...EMPTY];

export class Puller {
  #stopped = false;
  #request;
  #serial = 0;

  constructor(bus, consumer, slots, deliver) {
    Object.assign(this, { bus, consumer, slots, deliver });
    this.inbox = `_INBOX.${crypto.randomUUID().replaceAll("-", "")}`;
  }

  /** Start to pull. */
  start() {
    this.slots.queues += 1;
    const callback = (error, msg) => error === null && this.#take(msg);
    this.subscription = this.bus.connection.subscribe(`${this.inbox}.*`, { callback });
    this.#pull();
  }

  /** Returns once there is a consumer; another service may have to create the work queue first. */
  async ensured() {
    while (!(await this.#mend()));
  }

  /** Stop pulling; a run that still arrives is returned to the queue. */
  async stop() {
    this.#stopped = true;
    this.slots.queues -= 1;
    this.#request?.over("stopped");
    await this.bus.connection.flush();
    this.subscription.unsubscribe();
  }

  async #pull() {
    let rest = 0;
    while (!this.#stopped) {
      await this.slots.take(this);
      const scarce = this.slots.scarce;
      const how = await this.#ask(scarce ? { no_wait: true } : { expires: EXPIRES * 1e6 });
      if (!IN_ORDER.includes(how)) await this.#mend();
      // A queue without runs pauses for a while if other queues wait for a slot.
      rest = scarce && EMPTY.includes(how) ? Math.min(Math.max(2 * rest, FIRST_REST), LONGEST_REST) : 0;
      if (rest) await sleep(rest);
    }
  }

  async #ask(wait) {
    const subject = `$JS.API.CONSUMER.MSG.NEXT.${this.bus.runsStream}.${this.consumer}`;
    this.#serial += 1;
    const request = (this.#request = { inbox: `${this.inbox}.${this.#serial}` });
    const over = new Promise((done) => {
      request.over = (how) => {
        request.done = true;
        done(how);
      };
    });
    const overdue = setTimeout(() => request.over("no answer"), EXPIRES + OVERDUE);
    if (this.#stopped) request.over("stopped");
    else this.bus.publish(subject, { batch: 1, ...wait }, { reply: request.inbox });
    const how = await over;
    clearTimeout(overdue);
    if (how !== "filled") this.slots.giveBack();
    return how;
  }

  #take(msg) {
    // Status messages have the request's reply subject, runs have the subject of the run.
    const status = msg.headers?.code;
    if (status) {
      if (msg.subject === this.#request?.inbox) this.#request.over(String(status));
      return;
    }
    // Too late: the pull request has ended and its slot is in use. Return the run to the queue.
    if (this.#stopped || !this.#request || this.#request.done) {
      this.bus.publish(msg.reply, "-NAK");
      return;
    }
    this.#request.over("filled");
    this.deliver(msg, () => this.slots.giveBack());
  }

  /** Ensure that there is a consumer; only workers of a first queue create it, others wait. */
  async #mend() {
    if (this.consumer.includes("@")) return sleep(AFTER_TROUBLE);
    const config = {
      durable_name: this.consumer,
      filter_subject: this.bus.firstQueue(this.consumer),
      ack_policy: "explicit",
      deliver_policy: "all",
      ack_wait: ACK_WAIT,
      max_deliver: -1,
      max_ack_pending: 100_000,
    };
    const subject = `$JS.API.CONSUMER.DURABLE.CREATE.${this.bus.runsStream}.${this.consumer}`;
    try {
      await this.bus.command(subject, { stream_name: this.bus.runsStream, config }, 5000);
      return true;
    } catch (trouble) {
      if (!(trouble instanceof BusUnavailable)) throw trouble;
      console.error(`the work queue of ${this.consumer}: ${trouble.message}`);
      await sleep(AFTER_TROUBLE);
      return false;
    }
  }
}
