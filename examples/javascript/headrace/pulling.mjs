// Asking the work queue for one agent's runs: one request at a time, for no more than there is room.

import { BusUnavailable, sleep } from "./bus.mjs";

const ACK_WAIT = 4e9; // nanoseconds
const EXPIRES = 2000;
const OVERDUE = 1000;
const AFTER_TROUBLE = 250;

export class Puller {
  #stopped = false;
  #request;
  #serial = 0;

  constructor(bus, agent, slots, deliver) {
    Object.assign(this, { bus, agent, slots, deliver });
    this.inbox = `_INBOX.${crypto.randomUUID().replaceAll("-", "")}`;
  }

  /** Begin to pull, as soon as the fleet's gateways or task state have made the work queue. */
  async start() {
    while (!(await this.#mend()));
    const callback = (error, msg) => error === null && this.#take(msg);
    this.subscription = this.bus.connection.subscribe(`${this.inbox}.*`, { callback });
    this.pulling = this.#pull();
  }

  /** Pull no more; a run that still arrives goes back to the queue. */
  async stop() {
    this.#stopped = true;
    this.#request?.over("stopped");
    await this.bus.connection.flush();
    this.subscription.unsubscribe();
  }

  async #ensureConsumer() {
    const config = {
      durable_name: this.agent,
      filter_subject: this.bus.runsOf(this.agent),
      ack_policy: "explicit",
      deliver_policy: "all",
      ack_wait: ACK_WAIT,
      max_deliver: -1,
      max_ack_pending: 100_000,
    };
    const subject = `$JS.API.CONSUMER.DURABLE.CREATE.${this.bus.runsStream}.${this.agent}`;
    await this.bus.command(subject, { stream_name: this.bus.runsStream, config }, 5000);
  }

  async #pull() {
    while (!this.#stopped) {
      await this.slots.free();
      const how = await this.#ask();
      if (!["filled", "stopped", "no answer", "404", "408"].includes(how)) await this.#mend();
    }
  }

  async #ask() {
    const subject = `$JS.API.CONSUMER.MSG.NEXT.${this.bus.runsStream}.${this.agent}`;
    this.#serial += 1;
    const request = (this.#request = { inbox: `${this.inbox}.${this.#serial}` });
    const over = new Promise((done) => {
      request.over = (how) => {
        request.done = true;
        done(how);
      };
    });
    const overdue = setTimeout(() => request.over("no answer"), EXPIRES + OVERDUE);
    this.slots.take();
    this.bus.publish(subject, { batch: 1, expires: EXPIRES * 1e6 }, { reply: request.inbox });
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

  /** See that there is a consumer; if not, wait out what may be a change of leaders. */
  async #mend() {
    try {
      await this.#ensureConsumer();
      return true;
    } catch (trouble) {
      if (!(trouble instanceof BusUnavailable)) throw trouble;
      console.error(`the work queue of ${this.agent}: ${trouble.message}`);
      await sleep(AFTER_TROUBLE);
      return false;
    }
  }
}

/** Places for runs, shared by all agents of a worker. */
export class Slots {
  #waiting = [];

  constructor(count) {
    this.left = count;
  }

  /** Returns when a place is free. */
  async free() {
    while (this.left <= 0) await new Promise((done) => this.#waiting.push(done));
  }

  take() {
    this.left -= 1;
  }

  giveBack() {
    this.left += 1;
    for (const wake of this.#waiting.splice(0)) wake();
  }
}
