// One attempt at one leg: take it, run the agent, end it, acknowledge the run.

import { randomBytes } from "node:crypto";
import { BusUnavailable, sleep } from "./bus.mjs";
import { COMPLETED, INPUT_REQUIRED, SUBMITTED, WORKING } from "./entry.mjs";
import { Fenced, LogLost } from "./log.mjs";
import { Holding } from "./holding.mjs";
import { Outbox } from "./outbox.mjs";
import { encodeCheckpoint, waitingIn } from "./past.mjs";
import { Ids, MalformedOutput, Speech } from "./speech.mjs";
import { take } from "./taking.mjs";

/** Another attempt may do better; thrown by agents. */
export class Retryable extends Error {}

const HAND_BACK = 400;
const LONGEST_BACKOFF = 60_000;
const GOES_ON = new Set([COMPLETED, INPUT_REQUIRED]);

export class Leg {
  #why; // why the agent is stopped before its end: "canceled", "leaving" or "lost"
  #stopping = new AbortController();

  constructor(bus, worker, agent, run, settings) {
    Object.assign(this, { bus, worker, agent, run, settings });
    this.holding = new Holding(bus, run);
  }

  /** Do it. Whatever goes wrong, the run stays in the queue or its log says how it ended. */
  async work() {
    try {
      const { taken, held, behind, over, lost } = await take(this.bus, this.worker, this.run, this.agent.policy);
      if (taken) await this.#perform(taken);
      else if (behind) this.run.giveBack(this.bus, Math.min(100 * this.run.deliveries, 2000));
      else if (lost) await this.run.giveUp(this.bus, over);
      else if (!held) this.run.ack(this.bus);
    } catch (trouble) {
      if (!(trouble instanceof Fenced || trouble instanceof LogLost || trouble instanceof BusUnavailable)) throw trouble;
      console.error(`task ${this.run.key.task} is left: ${trouble.message}`);
    } finally {
      this.holding.release();
    }
  }

  /** Stop the agent: it is cancelled, this worker leaves, or the log is somebody else's. */
  stop(why) {
    if (this.#why === "lost" || this.#why === why) return;
    this.#why = why;
    if (why === "lost") {
      this.outbox?.mute();
      this.holding.release();
    }
    this.#stopping.abort(why);
  }

  async #perform({ past, writer, authorship }) {
    this.past = past;
    this.waiting = waitingIn(past);
    this.outbox = new Outbox(writer, authorship, () => this.stop("lost"));
    const { ids, index } = past.saved;
    this.ids = new Ids(this.run.key, this.run.leg, ids);
    this.speech = new Speech(this.run.key, this.run.body.context, this.ids, index ?? 0);
    this.holding.answer({
      who: { writer: authorship.writer, worker: this.worker, leg: authorship.leg, attempt: authorship.attempt },
      cancel: () => this.stop("canceled"),
      takeIn: (asked) => this.#takeIn(asked),
      lost: () => this.stop("lost"),
      outbox: this.outbox,
    });
    const end = await this.#act();
    if (this.#why === "lost") console.error(`task ${this.run.key.task} is not ours any more`);
    else if (this.#why === "leaving" && !end?.event) await this.#handBack("leaving", 0);
    else if (end instanceof Retryable && this.#failures() < this.agent.policy.maxAttempts) await this.#tryAgain(end);
    else await this.#conclude(end);
  }

  /** Run the agent; returns its end, what it threw, or undefined if it was stopped. */
  async #act() {
    const stopped = new Promise((done) => {
      const { signal } = this.#stopping;
      if (signal.aborted) done();
      signal.addEventListener("abort", () => setTimeout(done, this.#patience()));
    });
    const acting = this.#drive().catch((error) => error);
    return Promise.race([acting, stopped]);
  }

  #patience() {
    if (this.#why === "lost") return 0;
    return this.#why === "leaving" ? HAND_BACK : this.settings.cleanupSeconds * 1000;
  }

  async #drive() {
    for await (const said of this.agent.act(this.#context())) {
      if (this.#stopping.signal.aborted) return undefined;
      if (said?.ends) return this.speech.end(said);
      await this.outbox.say(this.speech.events(said));
    }
    return this.#stopping.signal.aborted ? undefined : this.speech.end({ ends: COMPLETED });
  }

  #context() {
    const { message, metadata, saved } = this.past;
    return {
      task: this.run.key.task,
      tenant: this.run.key.tenant,
      owner: this.run.body.owner,
      context: this.run.body.context,
      leg: this.run.leg,
      attempt: this.outbox.authorship.attempt,
      message,
      metadata,
      prompt: (message.parts ?? []).map((part) => part.text ?? "").join(""),
      checkpointData: saved.data ?? null,
      signal: this.#stopping.signal,
      checkpoint: (data) => this.#checkpoint(data),
    };
  }

  async #checkpoint(data) {
    const events = this.speech.checkpoint();
    const checkpoint = encodeCheckpoint(data, this.ids.minted, this.speech.nextIndex);
    for (const event of events.slice(0, -1)) this.outbox.post(event);
    await this.outbox.deliver(events.at(-1), { checkpoint });
  }

  /** Queue a message that came meanwhile; it is the next leg's input. */
  async #takeIn({ input, message, metadata }) {
    if (this.agent.followUps === "reject") return { accepted: false, refused: "policy" };
    const known = this.waiting.find((queued) => queued.name !== undefined && queued.name === input);
    if (known) return { generation: known.generation };
    const held = { message, metadata: metadata ?? {} };
    const event = this.speech.status(WORKING, undefined, { "headrace.queued": held, "headrace.inputId": input ?? "" });
    try {
      const queued = { ...held, name: input, generation: this.outbox.post(event) };
      this.waiting.push(queued);
      while (this.outbox.writer.generation < queued.generation) {
        if (!this.outbox.appending) return { accepted: false, refused: "over" };
        await sleep(1);
      }
      return { generation: queued.generation };
    } catch (error) {
      return { accepted: false, refused: error instanceof MalformedOutput ? "too_large" : "over" };
    }
  }

  #failures() {
    return this.outbox.authorship.attempt - this.past.handedBack;
  }

  async #tryAgain(error) {
    const pause = this.agent.policy.backoff * 1000 * 2 ** (this.#failures() - 1);
    console.error(`task ${this.run.key.task}: tried again: ${error.message}`);
    await this.#handBack("retry", Math.min(pause, LONGEST_BACKOFF));
  }

  async #handBack(why, pause) {
    await this.outbox.bidFarewell(this.speech.status(WORKING, undefined, { "headrace.handedBack": why }));
    this.holding.release();
    // Whoever gets the run next must not hear from us any more.
    await this.bus.connection.flush();
    this.run.giveBack(this.bus, pause);
  }

  async #conclude(ended) {
    const end = this.#endOf(ended);
    if (ended instanceof Retryable) await this.run.keepAsDeadLetter(this.bus, "Given up: the last attempt failed");
    const orphans = [...this.past.orphans].filter((artifact) => !this.speech.artifacts.has(artifact));
    const retractions = orphans.map((artifact) => this.speech.retraction(artifact));
    if (this.waiting.length === 0 || !GOES_ON.has(end.state)) {
      await this.outbox.close([...retractions, end.event], end.state);
    } else {
      // Not the end after all: what was said last is said, and the next message has its turn.
      const last = end.message ? [this.speech.status(WORKING, end.message)] : [];
      await this.outbox.close([...retractions, ...last], WORKING);
      this.run.askFor(this.bus, await this.outbox.goOn(this.#nextInput()));
    }
    this.run.ack(this.bus);
  }

  #nextInput() {
    const [next, ...others] = this.waiting;
    const metadata = { ...next.metadata, "headrace.waiting": others.map((queued) => queued.generation) };
    return this.speech.status(SUBMITTED, next.message, metadata);
  }

  #endOf(ended) {
    if (this.#why === "canceled") return this.speech.canceled();
    if (!(ended instanceof Error)) return ended;
    if (ended instanceof Retryable) {
      return this.speech.failed(`Given up after ${this.#failures()} attempts: ${ended.message}`.slice(0, 500));
    }
    // Nothing of the error but an id is shown; the worker's log has the rest under it.
    const id = randomBytes(4).toString("hex");
    console.error(`task ${this.run.key.task}: error ${id}`, ended);
    const reason = ended instanceof MalformedOutput ? `The agent's output is malformed: ${ended.message}` : "The agent failed";
    return this.speech.failed(`${reason} (error ${id})`);
  }
}
