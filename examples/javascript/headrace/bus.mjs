// The connection, and the subjects and streams of one fleet (docs/bus.md, "Subjects").

import { connect, headers as emptyHeaders } from "@nats-io/transport-node";

/** NATS did not answer, or refused; the outcome of the request is unknown. */
export class BusUnavailable extends Error {}

const SHARDS_PER_STREAM = 16;

/** A worker's settings from the environment, with the same names as for the Python worker. */
export function settings(environment = process.env) {
  return {
    natsUrl: environment.HEADRACE_NATS_URL ?? "nats://127.0.0.1:4222",
    prefix: environment.HEADRACE_PREFIX ?? "headrace",
    streamPrefix: environment.HEADRACE_STREAM_PREFIX ?? "",
    concurrency: Number(environment.HEADRACE_CONCURRENCY ?? 32),
    drainSeconds: Number(environment.HEADRACE_DRAIN_SECONDS ?? 10),
    cleanupSeconds: Number(environment.HEADRACE_CLEANUP_SECONDS ?? 5),
  };
}

export class Bus {
  static async open(given, name) {
    const connection = await connect({
      servers: given.natsUrl.split(",").map((url) => url.trim()),
      name,
      maxReconnectAttempts: -1,
      waitOnFirstConnect: true,
      reconnectTimeWait: 200,
    });
    return new Bus(connection, given);
  }

  constructor(connection, given) {
    this.connection = connection;
    this.prefix = given.prefix;
    this.runsStream = `${given.streamPrefix}RUNS`;
    this.agentsBucket = `${given.streamPrefix}AGENTS`;
    this.streamPrefix = given.streamPrefix;
  }

  /** Maximum size of a message in bytes. */
  get maxPayload() {
    return this.connection.info?.max_payload ?? 1024 * 1024;
  }

  /** The queue that every agent has: tenant `default`, default priority. */
  firstQueue = (agent) => `${this.prefix}.run.default.${agent}.*.*`;
  queuesOf = (agent) => `${this.prefix}.queue.${agent}`;
  event = (key) => `${this.prefix}.event.${this.#place(key)}`;
  live = (key) => `${this.prefix}.live.${this.#place(key)}`;
  control = (key) => `${this.prefix}.control.${key.tenant}.${key.agent}.${key.task}`;
  dead = (tenant, agent) => `${this.prefix}.dead.${tenant}.${agent}`;
  recheck = (task) => `${this.prefix}.recheck.${task}`;

  run(key, run, priority) {
    const usual = `${this.prefix}.run.${key.tenant}.${key.agent}.${key.task}.${run}`;
    return priority ? `${usual}.${priority}` : usual;
  }

  #place(key) {
    const [shard, digits] = key.task.split("-");
    return `${shard}.${key.tenant}.${key.agent}.${digits.slice(0, 12)}.${key.task}`;
  }

  /** The stream that holds the task's log: stream k owns the shards 16k … 16k+15. */
  streamOf(key) {
    const number = Math.floor(Number(key.task.split("-")[0]) / SHARDS_PER_STREAM);
    return `${this.streamPrefix}EVENTS${number === 0 ? "" : `_${number}`}`;
  }

  publish(subject, body = "", { reply, headers } = {}) {
    this.connection.publish(subject, encoded(body), { reply, headers: asHeaders(headers) });
  }

  /** Send a request and return the JSON answer; throws BusUnavailable if there is none in time. */
  async ask(subject, body, timeout, headers) {
    try {
      const options = { timeout, headers: asHeaders(headers) };
      return (await this.connection.request(subject, encoded(body), options)).json();
    } catch (error) {
      throw new BusUnavailable(`${subject}: ${error.message}`, { cause: error });
    }
  }

  /** Like `ask`, but also throws BusUnavailable if the answer is an error. */
  async command(subject, body, timeout, headers) {
    const answer = await this.ask(subject, body, timeout, headers);
    if (answer.error) throw new BusUnavailable(`${subject}: ${answer.error.description}`);
    return answer;
  }
}

function encoded(body) {
  return typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body);
}

function asHeaders(given) {
  if (given === undefined) return undefined;
  const made = emptyHeaders();
  for (const [name, value] of Object.entries(given)) made.set(name, String(value));
  return made;
}

export const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
