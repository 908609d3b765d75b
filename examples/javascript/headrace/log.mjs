// Appending to a task's log and reading it (docs/bus.md, "Appending" and "Reading").

import { BusUnavailable, sleep } from "./bus.mjs";
import { headersOf, readEntry } from "./entry.mjs";

/** Another writer has appended: this writer must not append, acknowledge or send heartbeats again. */
export class Fenced extends Error {}
/** The log has been deleted. */
export class LogLost extends Error {}
/** An event does not fit into a message. */
export class EventTooLarge extends Error {}

const ACK_TIMEOUT = 2000;
const LEADER_TIMEOUT = 1000;
const SILENCE = 500;
const HEADER_ROOM = 16 * 1024;
const NOT_FOUND = 10037;
const BATCH = 512;
const PAUSES = [0, 50, 200, 500, 1000];

/** The leader's last message on the log's subject; undefined: there is none. */
export function lastStored(bus, key) {
  return askLeader(bus, key, { last_by_subj: bus.event(key) });
}

/** The last entry of the log; messages that are not entries are skipped. */
export async function lastEntry(bus, key) {
  const last = await lastStored(bus, key);
  if (last === undefined || last.entry !== undefined) return last?.entry;
  return (await readLog(bus, key, last.sequence)).at(-1);
}

/** All entries of the log up to stream sequence `head`, which the leader has reported. */
export async function readLog(bus, key, head) {
  const entries = [];
  for (let after = 0; after < head; ) {
    const batch = await directGet(bus, key, after + 1);
    if (batch.length === 0) {
      // This replica is behind or gone; the leader knows whether the log still exists.
      const last = await lastStored(bus, key);
      if (last === undefined || last.sequence < head) throw new LogLost(`${key.task}: cut off`);
      await sleep(100);
    }
    for (const stored of batch) {
      after = stored.sequence;
      if (after <= head && stored.entry !== undefined) entries.push(stored.entry);
    }
  }
  return entries;
}

async function askLeader(bus, key, query) {
  for (let tries = 0; ; tries += 1) {
    try {
      const subject = `$JS.API.STREAM.MSG.GET.${bus.streamOf(key)}`;
      const answer = await bus.ask(subject, query, LEADER_TIMEOUT);
      if (answer.message) return fromLeader(answer.message);
      if (answer.error?.err_code === NOT_FOUND) return undefined;
      throw new BusUnavailable(`${subject}: ${answer.error?.description}`);
    } catch (trouble) {
      if (tries >= 5) throw trouble;
      await sleep(100);
    }
  }
}

function fromLeader(message) {
  const lines = Buffer.from(message.hdrs ?? "", "base64").toString().split("\r\n");
  const headers = new Map(
    lines.filter((l) => l.includes(":")).map((l) => [l.split(":", 1)[0], l.slice(l.indexOf(":") + 1).trim()]),
  );
  const body = Buffer.from(message.data ?? "", "base64").toString();
  const entry = readEntry((name) => headers.get(name) ?? "", body, message.seq, message.time);
  return { sequence: message.seq, entry };
}

/** The messages that one replica has from `start` on, without gaps; it may be behind or silent. */
async function directGet(bus, key, start) {
  const inbox = `_INBOX.${crypto.randomUUID().replaceAll("-", "")}`;
  const found = [];
  let previous = "0";
  await new Promise((done) => {
    const subscription = bus.connection.subscribe(inbox, {
      callback: (error, msg) => {
        clearTimeout(silence);
        const sequence = msg?.headers?.get("Nats-Sequence");
        if (error || !sequence || msg.headers.get("Nats-Last-Sequence") !== previous) return over();
        previous = sequence;
        const header = (name) => msg.headers.get(name);
        const entry = readEntry(header, msg.string(), Number(sequence), header("Nats-Time-Stamp"));
        found.push({ sequence: Number(sequence), entry });
        silence = setTimeout(over, SILENCE);
      },
    });
    const over = () => {
      subscription.unsubscribe();
      done();
    };
    let silence = setTimeout(over, SILENCE);
    const query = { batch: BATCH, seq: start, next_by_subj: bus.event(key) };
    bus.publish(`$JS.API.DIRECT.GET.${bus.streamOf(key)}`, query, { reply: inbox });
  });
  return found;
}

/** Appends to a task's log, with one append in flight. A process has one writer per log. */
export class LogWriter {
  constructor(bus, key, last) {
    this.bus = bus;
    this.key = key;
    this.sequence = last.sequence;
    this.generation = last.last;
  }

  /** Maximum bytes of events in one message. */
  get capacity() {
    return this.bus.maxPayload - HEADER_ROOM;
  }

  /**
   * Append `events` as one message; returns when it is stored, also after a long outage of NATS.
   *
   * Throws Fenced or LogLost if nothing more may be appended.
   */
  async append(events, stamp) {
    const first = this.generation + 1;
    const body = events.map((event, offset) => line(event, first + offset)).join("\n");
    if (Buffer.byteLength(body) > this.capacity) throw new EventTooLarge("an event is too large");
    const headers = headersOf({ ...stamp, generation: first });
    for (let tries = 0; ; tries += 1) {
      headers["Nats-Expected-Last-Subject-Sequence"] = this.sequence;
      const sequence = (await this.#publish(body, headers)) ?? (await this.#resolve(body, headers));
      if (sequence !== undefined) {
        this.sequence = sequence;
        this.generation += events.length;
        return this.generation;
      }
      await sleep(PAUSES[Math.min(tries, PAUSES.length - 1)]);
    }
  }

  /** The sequence in a positive acknowledgement; undefined: the outcome is unknown. */
  async #publish(body, headers) {
    try {
      const ack = await this.bus.ask(this.bus.event(this.key), body, ACK_TIMEOUT, headers);
      return ack.error ? undefined : ack.seq;
    } catch (trouble) {
      if (!(trouble instanceof BusUnavailable)) throw trouble;
      return undefined;
    }
  }

  /** The sequence if the message is stored; undefined: it is not, so send the same bytes again. */
  async #resolve(body, headers) {
    for (;;) {
      const found = await this.#next();
      if (found === undefined) return this.#checkReached();
      if (found.entry === undefined) {
        this.sequence = found.sequence;
        continue;
      }
      const { stamp, body: stored } = found.entry;
      const mine =
        stamp.writer === headers["Headrace-Writer"] &&
        stamp.log === headers["Headrace-Log"] &&
        stamp.generation === headers["Headrace-Generation"] &&
        stored === body;
      if (!mine) throw new Fenced(`${this.key.task}: ${stamp.writer} appended first`);
      this.bus.publish(this.bus.recheck(this.key.task));
      return found.sequence;
    }
  }

  async #next() {
    for (;;) {
      try {
        const query = { seq: this.sequence + 1, next_by_subj: this.bus.event(this.key) };
        return await askLeader(this.bus, this.key, query);
      } catch (trouble) {
        if (!(trouble instanceof BusUnavailable)) throw trouble;
      }
    }
  }

  async #checkReached() {
    // Ask twice: a leader that has just thawed briefly answers with what it knew before.
    for (const pause of [500, 0]) {
      const last = await lastStored(this.bus, this.key);
      if (last !== undefined && last.sequence >= this.sequence) return undefined;
      await sleep(pause);
    }
    throw new LogLost(`the log of ${this.key.task} ends before sequence ${this.sequence}`);
  }
}

function line(event, generation) {
  const [[kind, body]] = Object.entries(event);
  const metadata = { ...body.metadata, "headrace.generation": generation };
  return JSON.stringify({ [kind]: { ...body, metadata } });
}
