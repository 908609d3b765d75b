// Registers this worker as an instance of its agents (docs/bus.md, bucket AGENTS).

import { BusUnavailable } from "./bus.mjs";

const TTL_SECONDS = 10;
const RENEW_EVERY = 3000;
const TIMEOUT = 2000;

export class Registration {
  #renewing;

  constructor(bus, instance, cards) {
    Object.assign(this, { bus, instance, cards });
  }

  /** Put every agent's card and this instance's keys, and renew them until `withdraw`. */
  async announce() {
    for (const card of this.cards) {
      await this.#put(`card.${card.name}`, card);
      await this.#renew(card.name);
    }
    this.#renewing = setInterval(() => this.#renewAll(), RENEW_EVERY);
  }

  /** Record that this instance no longer serves its agents. The record expires too. */
  async withdraw() {
    clearInterval(this.#renewing);
    const headers = { "KV-Operation": "DEL", "Nats-TTL": TTL_SECONDS };
    const gone = this.cards.map((card) => this.#put(this.#place(card.name), "", headers));
    await Promise.allSettled(gone);
  }

  async #renewAll() {
    try {
      for (const card of this.cards) await this.#renew(card.name);
    } catch (trouble) {
      if (!(trouble instanceof BusUnavailable)) throw trouble;
      console.error(`could not renew this worker's place: ${trouble.message}`);
    }
  }

  #renew(agent) {
    return this.#put(this.#place(agent), {}, { "Nats-TTL": TTL_SECONDS });
  }

  #place(agent) {
    return `live.${agent}.${this.instance}`;
  }

  #put(name, value, headers) {
    return this.bus.command(`$KV.${this.bus.agentsBucket}.${name}`, value, TIMEOUT, headers);
  }
}
