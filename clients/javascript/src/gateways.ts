import { ConnectionLost, RequestRefused } from "./errors.js";
import { followed } from "./redirects.js";

/** How often a lost connection is retried. The pauses double, and half of each is random. */
export interface Retry {
  /** Failures in a row after which the client gives up. Default: 12, after 30 s. */
  attempts?: number;
  /** Milliseconds. Default: 100. */
  backoff?: number;
  /** Milliseconds. Default: 5000. */
  longestBackoff?: number;
  /** Milliseconds without a byte after which a connection counts as lost. Default: 60000. */
  silence?: number;
}

/** How gateways are reached. */
export interface Connecting {
  retry?: Retry;
  /** Also waits, at the very start, for gateways that can't be reached. Default: false. */
  waits?: boolean;
  /** Replaces the global `fetch`. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /** Ends the stream, never the agent's work. */
  signal?: AbortSignal | null;
}

const UNAVAILABLE = [502, 503, 504];
/** A gateway that asks for a longer pause leaves it to the caller. */
const LONGEST_ASKED = 60_000;

/** The URLs of one resource at several gateways: the next one if one does not answer. */
export class Gateways {
  private current = 0;
  private failures = 0;
  private wasConnected = false;
  private readonly retry: Required<Retry>;

  constructor(
    private readonly urls: readonly string[],
    private readonly connecting: Connecting,
  ) {
    if (urls.length === 0) throw new TypeError("the URL of a gateway is required");
    const defaults = { attempts: 12, backoff: 100, longestBackoff: 5_000, silence: 60_000 };
    this.retry = { ...defaults, ...connecting.retry };
  }

  /** Forgets earlier failures. */
  succeeded(): void {
    this.failures = 0;
    this.wasConnected = true;
  }

  /**
   * Makes a request until a gateway answers.
   *
   * @throws RequestRefused, ConnectionLost
   */
  async response(path: string, init: RequestInit): Promise<Response> {
    for (;;) {
      let refused: RequestRefused | null = null;
      let reason: unknown;
      try {
        const response = await this.sent(path, init);
        if (response.ok) return response;
        refused = new RequestRefused(response);
        this.wasConnected = true;
        reason = refused;
      } catch (error) {
        if (error instanceof RequestRefused) throw error;
        reason = error;
      }
      if (refused !== null && !mayRetry(refused.response)) throw refused;
      await this.failed(reason);
    }
  }

  /** Reads the bytes of a response; a connection that is silent for too long breaks. */
  async *pieces(response: Response): AsyncGenerator<Uint8Array> {
    if (response.body === null) return;
    const reader = response.body.getReader();
    try {
      for (;;) {
        const { done, value } = await this.unlessSilent(reader.read());
        if (done) return;
        yield value;
      }
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  /**
   * Turns to the next gateway, and pauses where necessary.
   *
   * @throws RequestRefused, ConnectionLost: too many failures in a row, or no gateway can be
   *   reached at the very start, where a URL may be wrong, unless it `waits`.
   */
  async failed(reason: unknown): Promise<void> {
    this.connecting.signal?.throwIfAborted();
    const url = this.urls[this.current];
    this.current = (this.current + 1) % this.urls.length;
    this.failures += 1;
    const isKnown = this.wasConnected || this.connecting.waits;
    if (this.failures >= (isKnown ? this.retry.attempts : this.urls.length)) {
      if (reason instanceof RequestRefused) throw reason;
      throw new ConnectionLost(`no answer from ${url}: ${reason}`, { cause: reason });
    }
    const requested = reason instanceof RequestRefused ? requestedPause(reason.response) : 0;
    if (requested || this.failures >= this.urls.length) {
      await this.pause(Math.max(requested, this.nextPause()));
    }
  }

  private nextPause(): number {
    const { backoff, longestBackoff } = this.retry;
    return Math.min(backoff * 2 ** (this.failures - 1), longestBackoff) * (0.5 + Math.random() / 2);
  }

  private sent(path: string, init: RequestInit): Promise<Response> {
    const { signal, fetch: chosen } = this.connecting;
    const send = (url: string, redirect: RequestRedirect) => {
      const request = { ...init, signal: signal ?? null, redirect };
      return this.unlessSilent(chosen ? chosen(url, request) : fetch(url, request));
    };
    return followed(this.urls[this.current] + path, init.method ?? "GET", send);
  }

  private async unlessSilent<Value>(value: Promise<Value>): Promise<Value> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const silence = new Promise<never>((_, reject) => {
      const broken = () => reject(new Error("the gateway sends no data"));
      timer = setTimeout(broken, this.retry.silence);
    });
    try {
      return await Promise.race([value, silence]);
    } finally {
      clearTimeout(timer);
    }
  }

  private async pause(milliseconds: number): Promise<void> {
    const { signal } = this.connecting;
    await new Promise<void>((resolve) => {
      const over = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", over);
        resolve();
      };
      const timer = setTimeout(over, milliseconds);
      signal?.addEventListener("abort", over);
    });
    signal?.throwIfAborted();
  }
}

function mayRetry(response: Response): boolean {
  const isUnavailable =
    UNAVAILABLE.includes(response.status) ||
    (response.status === 429 && response.headers.has("Retry-After"));
  return isUnavailable && requestedPause(response) <= LONGEST_ASKED;
}

function requestedPause(response: Response): number {
  const asked = response.headers.get("Retry-After") ?? "";
  const milliseconds = /^\d+$/.test(asked) ? Number(asked) * 1_000 : Date.parse(asked) - Date.now();
  return milliseconds > 0 ? milliseconds : 0;
}
