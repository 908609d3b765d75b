// Appends an agent's events to its log; events emitted during an append go into the next one.

import { Fenced, LogLost } from "./log.mjs";
import { SUBMITTED, WORKING } from "./entry.mjs";
import { MalformedOutput } from "./encoder.mjs";

const MOST_WAITING = 1024;
const MOST_IN_A_MESSAGE = 512;
const GENERATION_ROOM = 64;

export class Appender {
  #batches = []; // {events, size, state, checkpoint}, each a future message
  #waiting = 0;
  #sending;
  #closed = false;
  #offered;

  constructor(writer, authorship, lost) {
    Object.assign(this, { writer, authorship, lost, lastAppend: Date.now() });
    this.#offered = writer.generation;
  }

  get appending() {
    return this.#sending !== undefined;
  }

  /** Add events; the returned promise is settled when the agent can continue. */
  async emit(events) {
    for (const event of events) this.post(event);
    while (this.#waiting > MOST_WAITING && !this.#closed) await this.#sending;
  }

  /** Add one event and return its generation; a new state or a checkpoint ends its message. */
  post(event, { state = WORKING, checkpoint } = {}) {
    if (this.#closed) throw new Fenced("the run is over");
    const size = Buffer.byteLength(JSON.stringify(event)) + GENERATION_ROOM;
    if (size > this.writer.capacity) throw new MalformedOutput(`an event of ${size} bytes is too large`);
    const batch = this.#batchFor(size);
    batch.events.push(event);
    batch.size += size;
    Object.assign(batch, { state, checkpoint, closed: state !== WORKING || checkpoint !== undefined });
    this.#waiting += 1;
    this.#offered += 1;
    this.#sending ??= Promise.resolve().then(() => this.#send());
    return this.#offered;
  }

  /** Like `post`, but returns the generation once the event is stored. */
  async deliver(event, how) {
    const generation = this.post(event, how);
    while (this.writer.generation < generation && this.#sending) await this.#sending;
    if (this.writer.generation < generation) throw new Fenced("the run is over");
    return generation;
  }

  /** Append pending events and `events`, which put the task into `state`; accept no more. */
  async close(events, state) {
    for (const event of events) this.post(event);
    const last = this.#batches.at(-1);
    if (last) last.state = state;
    while (this.#sending) await this.#sending;
    if (this.#closed) throw new Fenced("the run is over");
    this.#closed = true;
  }

  /** Append the next run's input after the closed run; returns the new run. */
  async beginNextRun(input) {
    const run = this.writer.generation + 1;
    await this.writer.append([input], { ...this.authorship, run, attempt: 0, state: SUBMITTED });
    return run;
  }

  /** Drop pending events and append a last one. */
  async appendLast(event) {
    this.mute();
    await this.#sending;
    await this.writer.append([event], { ...this.authorship, state: WORKING });
  }

  /** Accept and append nothing more. */
  mute() {
    this.#closed = true;
    this.#batches = [];
    this.#waiting = 0;
  }

  #batchFor(size) {
    const last = this.#batches.at(-1);
    const full =
      !last || last.closed || last.events.length === MOST_IN_A_MESSAGE || last.size + size > this.writer.capacity;
    if (full) this.#batches.push({ events: [], size: 0, closed: false });
    return this.#batches.at(-1);
  }

  async #send() {
    try {
      while (this.#batches.length > 0) {
        const { events, state, checkpoint } = this.#batches.shift();
        this.#waiting -= events.length;
        await this.writer.append(events, { ...this.authorship, state, checkpoint });
        this.lastAppend = Date.now();
      }
    } catch (loss) {
      if (!(loss instanceof Fenced || loss instanceof LogLost)) console.error("an append failed", loss);
      this.mute();
      this.lost(loss);
    } finally {
      this.#sending = undefined;
    }
  }
}
