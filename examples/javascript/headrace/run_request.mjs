// A pulled run request: its content and its acknowledgement (docs/bus.md, "A worker's duties").

import { BusUnavailable } from "./bus.mjs";

const TIMEOUT = 2000;
// JetStream's errors for: the server has no resources, or no storage; the stream refuses the message.
const NO_ROOM = new Set([10023, 10047, 10077]);
const READ = ["2", "3"];
const READ_UP_TO = 3;
const NUMBER = /^[0-9]{1,15}$/;
export const TASK_ID = /^(0|[1-9][0-9]{0,3})-[0-9a-f]{32}$/;

export class RunRequest {
  constructor(msg) {
    Object.assign(this, { subject: msg.subject, reply: msg.reply, raw: msg.data });
    // A message may lack the header; one with an empty header is of no version.
    this.version = msg.headers?.has("Headrace-Version") ? msg.headers.get("Headrace-Version") : READ[0];
    // $JS.ACK.<stream>.<consumer>.<deliveries>.… , optionally with domain and account before them.
    const tokens = msg.reply.split(".");
    const [deliveries, sequence] = tokens.length === 9 ? tokens.slice(4) : tokens.slice(6);
    this.deliveries = Number(deliveries);
    this.sequence = Number(sequence);
  }

  /** Whether it has a later version of the bus contract than this worker reads. */
  isNewer() {
    return NUMBER.test(this.version) && Number(this.version) > READ_UP_TO;
  }

  /** Parse version, subject and body; returns the reason if that fails, otherwise undefined. */
  read(prefix) {
    if (!READ.includes(this.version)) return `Headrace-Version is ${this.version}; this worker reads ${READ.join(", ")}`;
    const [tenant, agent, task, run, priority] = this.subject.slice(`${prefix}.run.`.length).split(".");
    if (!TASK_ID.test(task) || !/^[0-9]+$/.test(run)) return "not a run request's subject";
    Object.assign(this, { key: { tenant, agent, task }, run: Number(run), priority });
    try {
      this.body = JSON.parse(Buffer.from(this.raw).toString());
    } catch (error) {
      return `the body is not JSON: ${error.message}`;
    }
    const absent = ["log", "context", "owner"].find((field) => typeof this.body?.[field] !== "string");
    return absent && `${absent}: must be a string`;
  }

  /** Extend the lease: without a heartbeat the run goes to another worker after 4 s. */
  beat = (bus) => bus.publish(this.reply, "+WPI");
  /** Remove it from the queue. */
  ack = (bus) => bus.publish(this.reply, "+ACK");
  /** Return it to the queue for another worker. */
  giveBack = (bus, milliseconds = 0) =>
    bus.publish(this.reply, milliseconds ? `-NAK {"delay": ${Math.round(milliseconds * 1e6)}}` : "-NAK");

  /** Publish a request for the task's next run. If it is lost, task state publishes it again. */
  publish(bus, run) {
    const { input, sequence, ...body } = this.body;
    bus.publish(bus.run(this.key, run, this.priority), body);
  }

  /** Store it as a dead letter if there is room; it stays in the queue. */
  async keepAsDeadLetter(bus, reason) {
    const [tenant, agent] = this.subject.slice(`${bus.prefix}.run.`.length).split(".");
    const letter = {
      reason,
      subject: this.subject,
      sequence: this.sequence,
      body: Buffer.from(this.raw).toString("base64"),
      at: new Date().toISOString(),
      ...(this.key && { task: this.key.task }),
    };
    const once = this.key && { "Nats-Msg-Id": `${this.key.task}.${this.run}` };
    const subject = bus.dead(tenant, agent);
    const { error } = await bus.ask(subject, letter, TIMEOUT, once);
    // A task that can't end would be worse than a letter that is missing.
    if (NO_ROOM.has(error?.err_code)) console.error(`there is no room for a dead letter of ${this.subject}: ${reason}`);
    else if (error) throw new BusUnavailable(`${subject}: ${error.description}`);
  }

  /** Remove it from the queue and store it as a dead letter. */
  async giveUp(bus, reason) {
    await this.keepAsDeadLetter(bus, reason);
    bus.publish(this.reply, "+TERM");
  }
}
