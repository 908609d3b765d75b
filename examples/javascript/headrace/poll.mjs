// Asking for the runs of one queue: one request at a time, for no more than there is room.

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

  /** Begin to pull. */
  start() {
    this.slots.queues += 1;
    const callback = (error, msg) => error === null && this.#take(msg);
    this.subscription = this.bus.connection.subscribe(`${this.inbox}.*`, { callback });
    this.#pull();
  }

  /** Returns once there is a consumer: the work queue may have to be made by the fleet first. */
  async ensured() {
    while (!(await this.#mend()));
  }

  /** Pull no more; a run that still arrives goes back to the queue. */
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
      // Where others want the room, a queue without runs steps back for a while.
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
    // A word from the server comes on the request's own subject, a run on the run's.
    const status = msg.headers?.code;
    if (status) {
      if (msg.subject === this.#request?.inbox) this.#request.over(String(status));
      return;
    }
    // Too late: the request is over, and its place went to another run. Somebody else may have one.
    if (this.#stopped || !this.#request || this.#request.done) {
      this.bus.publish(msg.reply, "-NAK");
      return;
    }
    this.#request.over("filled");
    this.deliver(msg, () => this.slots.giveBack());
  }

  /** See that there is a consumer, which only a first queue's worker makes; if not, wait a moment. */
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
