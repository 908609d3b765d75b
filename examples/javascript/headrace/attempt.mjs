// One attempt at a run: claim it, run the agent, end it, acknowledge the request.

import { randomBytes } from "node:crypto";
import { BusUnavailable, sleep } from "./bus.mjs";
import { COMPLETED, INPUT_REQUIRED, SUBMITTED, WORKING } from "./entry.mjs";
import { Fenced, LogLost } from "./log.mjs";
import { Hold } from "./hold.mjs";
import { Appender } from "./appender.mjs";
import { encodeCheckpoint, waitingIn } from "./recovery.mjs";
import { Ids, MalformedOutput, Encoder } from "./encoder.mjs";
import { take } from "./claim.mjs";

/** Thrown by agents to request another attempt. */
export class Retryable extends Error {}

const HAND_BACK = 400;
const LONGEST_BACKOFF = 60_000;
const GOES_ON = new Set([COMPLETED, INPUT_REQUIRED]);

export class Attempt {
  #why; // why the agent is stopped before its end: "canceled", "leaving" or "lost"
  #stopping = new AbortController();

  constructor(bus, worker, agent, request, settings) {
    Object.assign(this, { bus, worker, agent, request, settings });
    this.hold = new Hold(bus, request);
  }

  /** Execute the attempt. On any error, the request stays in the queue or the log records the end. */
  async work() {
    try {
      const { taken, held, behind, over, lost } = await take(this.bus, this.worker, this.request, this.agent.policy);
      if (taken) await this.#execute(taken);
      else if (behind) this.request.giveBack(this.bus, Math.min(100 * this.request.deliveries, 2000));
      else if (lost) await this.request.giveUp(this.bus, over);
      else if (!held) this.request.ack(this.bus);
    } catch (error) {
      if (!(error instanceof Fenced || error instanceof LogLost || error instanceof BusUnavailable)) throw error;
      console.error(`task ${this.request.key.task} is left: ${error.message}`);
    } finally {
      this.hold.release();
    }
  }

  /** Stop the agent: its task is canceled, this worker leaves, or another worker has taken over. */
  stop(why) {
    if (this.#why === "lost" || this.#why === why) return;
    this.#why = why;
    if (why === "lost") {
      this.appender?.mute();
      this.hold.release();
    }
    this.#stopping.abort(why);
  }

  async #execute({ recovered, writer, authorship }) {
    this.recovered = recovered;
    this.queued = recovered.queued;
    this.waiting = waitingIn(recovered);
    this.appender = new Appender(writer, authorship, () => this.stop("lost"));
    const { ids, index } = recovered.saved;
    this.ids = new Ids(this.request.key, this.request.run, ids);
    this.encoder = new Encoder(this.request.key, this.request.body.context, this.ids, index ?? 0);
    this.hold.answer({
      who: { writer: authorship.writer, worker: this.worker, run: authorship.run, attempt: authorship.attempt },
      cancel: () => this.stop("canceled"),
      queueInput: (question) => this.#queueInput(question),
      lost: () => this.stop("lost"),
      appender: this.appender,
    });
    const end = await this.#runAgent();
    if (this.#why === "lost") console.error(`task ${this.request.key.task}: another worker has taken over`);
    else if (this.#why === "leaving" && !end?.event) await this.#handBack("leaving", 0);
    else if (end instanceof Retryable && this.#failures() < this.agent.policy.maxAttempts) await this.#retry(end);
    else await this.#complete(end);
  }

  /** Run the agent; returns its result, the error it threw, or undefined if it was stopped. */
  async #runAgent() {
    const stopped = new Promise((done) => {
      const { signal } = this.#stopping;
      if (signal.aborted) done();
      signal.addEventListener("abort", () => setTimeout(done, this.#cleanupTime()));
    });
    const running = this.#drive().catch((error) => error);
    return Promise.race([running, stopped]);
  }

  #cleanupTime() {
    if (this.#why === "lost") return 0;
    return this.#why === "leaving" ? HAND_BACK : this.settings.cleanupSeconds * 1000;
  }

  async #drive() {
    for await (const emission of this.agent.run(this.#context())) {
      if (this.#stopping.signal.aborted) return undefined;
      if (emission?.ends) return this.encoder.end(emission);
      await this.appender.emit(this.encoder.events(emission));
    }
    return this.#stopping.signal.aborted ? undefined : this.encoder.end({ ends: COMPLETED });
  }

  #context() {
    const { message, metadata, saved } = this.recovered;
    return {
      task: this.request.key.task,
      tenant: this.request.key.tenant,
      owner: this.request.body.owner,
      context: this.request.body.context,
      run: this.request.run,
      attempt: this.appender.authorship.attempt,
      message,
      metadata,
      prompt: (message.parts ?? []).map((part) => part.text ?? "").join(""),
      checkpointData: saved.data ?? null,
      signal: this.#stopping.signal,
      checkpoint: (data) => this.#checkpoint(data),
    };
  }

  async #checkpoint(data) {
    const events = this.encoder.checkpoint();
    const checkpoint = encodeCheckpoint(data, this.ids.minted, this.encoder.nextIndex);
    for (const event of events.slice(0, -1)) this.appender.post(event);
    await this.appender.deliver(events.at(-1), { checkpoint });
  }

  /** Queue a message that arrived during the run; it becomes the next run's input. */
  async #queueInput({ input, message, metadata, read_up_to: readUpTo }) {
    if (this.agent.followUps === "reject") return { accepted: false, refused: "policy" };
    const known = this.queued.find((queued) => queued.name !== undefined && queued.name === input);
    if (known) return { generation: known.generation };
    if (readUpTo != null && readUpTo < this.request.run) return { accepted: false, refused: "new_run" };
    const held = { message, metadata: metadata ?? {} };
    const event = this.encoder.status(WORKING, undefined, { "headrace.queued": held, "headrace.inputId": input ?? "" });
    try {
      const queued = { ...held, name: input, generation: this.appender.post(event) };
      this.waiting.push(queued);
      this.queued.push(queued);
      while (this.appender.writer.generation < queued.generation) {
        if (!this.appender.appending) return { accepted: false, refused: "over" };
        await sleep(1);
      }
      return { generation: queued.generation };
    } catch (error) {
      return { accepted: false, refused: error instanceof MalformedOutput ? "too_large" : "over" };
    }
  }

  #failures() {
    return this.appender.authorship.attempt - this.recovered.handedBack;
  }

  async #retry(error) {
    const pause = this.agent.policy.backoff * 1000 * 2 ** (this.#failures() - 1);
    console.error(`task ${this.request.key.task}: tried again: ${error.message}`);
    await this.#handBack("retry", Math.min(pause, LONGEST_BACKOFF));
  }

  async #handBack(why, pause) {
    await this.appender.appendLast(this.encoder.status(WORKING, undefined, { "headrace.handedBack": why }));
    this.hold.release();
    // The next holder of the run must get no more heartbeats or answers from this one.
    await this.bus.connection.flush();
    this.request.giveBack(this.bus, pause);
  }

  async #complete(ended) {
    const end = this.#endOf(ended);
    if (ended instanceof Retryable) await this.request.keepAsDeadLetter(this.bus, "Given up: the last attempt failed");
    const discarded = [...this.recovered.discardedArtifacts].filter((artifact) => !this.encoder.artifacts.has(artifact));
    const retractions = discarded.map((artifact) => this.encoder.retraction(artifact));
    if (this.waiting.length === 0 || !GOES_ON.has(end.state)) {
      await this.appender.close([...retractions, end.event], end.state);
    } else {
      // The run does not end the task: keep its last event, and begin a run for the queued message.
      const last = end.message ? [this.encoder.status(WORKING, end.message)] : [];
      await this.appender.close([...retractions, ...last], WORKING);
      this.request.publish(this.bus, await this.appender.beginNextRun(this.#nextInput()));
    }
    this.request.ack(this.bus);
  }

  #nextInput() {
    const [next, ...others] = this.waiting;
    const metadata = { ...next.metadata, "headrace.waiting": others.map((queued) => queued.generation) };
    return this.encoder.status(SUBMITTED, next.message, metadata);
  }

  #endOf(ended) {
    if (this.#why === "canceled") return this.encoder.canceled();
    if (!(ended instanceof Error)) return ended;
    if (ended instanceof Retryable) {
      return this.encoder.failed(`Given up after ${this.#failures()} attempts: ${ended.message}`.slice(0, 500));
    }
    // Clients get only an id; the worker's log has the error under the same id.
    const id = randomBytes(4).toString("hex");
    console.error(`task ${this.request.key.task}: error ${id}`, ended);
    const reason = ended instanceof MalformedOutput ? `The agent's output is malformed: ${ended.message}` : "The agent failed";
    return this.encoder.failed(`${reason} (error ${id})`);
  }
}
