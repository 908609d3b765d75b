// Holds a run while the agent works: sends heartbeats to the work queue, answers requests to the
// holder, and checks the log while the agent is silent (docs/bus.md, "A worker's duties").

import { readStamp } from "./entry.mjs";
import { lastEntry } from "./log.mjs";

const HEARTBEAT = 1000;
const STALL = 1000; // ms; a heartbeat later than this: the process was stopped, or an agent blocked it
const SILENCE = 2000;

export class Hold {
  #heartbeat;
  #beaten = Date.now();
  #checked = Date.now();
  #claim;
  #subscriptions = [];
  #released = false;

  constructor(bus, request) {
    Object.assign(this, { bus, request });
    this.#heartbeat = setInterval(() => this.#beat(), HEARTBEAT);
  }

  /** Start to answer on the task's control subject and to watch its log. */
  answer(claim) {
    if (this.#released) return;
    this.#claim = claim;
    this.#subscribe(this.bus.control(this.request.key), (msg) => this.#respond(msg));
    this.#subscribe(this.bus.live(this.request.key), (msg) => this.#hear(msg));
  }

  /** Stop heartbeats and answers. */
  release() {
    this.#released = true;
    clearInterval(this.#heartbeat);
    for (const subscription of this.#subscriptions.splice(0)) subscription.unsubscribe();
  }

  #subscribe(subject, take) {
    const callback = (error, msg) => error === null && !this.#released && take(msg);
    this.#subscriptions.push(this.bus.connection.subscribe(subject, { callback }));
  }

  #beat() {
    const late = Date.now() - this.#beaten - HEARTBEAT;
    this.#beaten = Date.now();
    if (late > STALL && this.#claim) {
      // Another worker may hold the run by now; don't send heartbeats for it.
      this.#look();
      return;
    }
    this.request.beat(this.bus);
    const { appender } = this.#claim ?? {};
    const silent = appender && Date.now() - Math.max(appender.lastAppend, this.#checked) > SILENCE;
    if (silent && !appender.appending) this.#look();
  }

  #hear(msg) {
    const stamp = msg.headers && readStamp((name) => msg.headers.get(name));
    if (stamp && stamp.writer !== this.#claim.who.writer) this.#look();
  }

  /** Read the log's last entry at the leader: only an entry of another writer ends the hold. */
  async #look() {
    this.#checked = Date.now();
    try {
      const last = await lastEntry(this.bus, this.request.key);
      if (!this.#released && last?.stamp.writer !== this.#claim.who.writer) this.#claim.lost();
    } catch (trouble) {
      console.error(`looking at the log of ${this.request.key.task}: ${trouble.message}`);
    }
  }

  async #respond(msg) {
    let asked;
    try {
      asked = msg.json();
    } catch {
      return;
    }
    const answer = { ...this.#claim.who, accepted: true };
    if (asked?.ask === "cancel") this.#claim.cancel();
    else if (asked?.ask === "input") Object.assign(answer, await this.#claim.queueInput(asked));
    else if (asked?.ask !== "who") return;
    msg.respond(JSON.stringify(answer));
  }
}
