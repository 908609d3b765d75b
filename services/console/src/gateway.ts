import { Gateways } from "@headrace/client/gateways.js";
import { ResumingStream } from "@headrace/client/resuming.js";
import type { SseFrame } from "@headrace/client/sse.js";

import { reach } from "./reach";
import { session } from "./session";

export type Json = Record<string, any>;

/** The gateway that serves this page, at `console/` below it, whatever a proxy's prefix is. */
export const ROOT = new URL("..", location.href.replace(/[?#].*$/, "")).href;

/** A request that the gateway refused. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Returns the URL of a path of the gateway, such as `v1/agents`. */
export function urlOf(path: string): string {
  return ROOT + path;
}

/** Fetches with the user's token; after a 401 with a renewed one, or the user is asked for another one. */
export async function authorized(url: string, init: RequestInit = {}): Promise<Response> {
  // Never to another origin: a link in a message may name any address.
  if (!url.startsWith(ROOT)) return fetch(url, init);
  const token = await session.fresh();
  const response = await reach.watched(url, withToken(init, token));
  if (response.status !== 401) return response;
  if (await session.replaced(token)) return reach.watched(url, withToken(init, session.current));
  // Another token may have been given since.
  if (token === session.current) session.refuse();
  return response;
}

function withToken(init: RequestInit, token: string): RequestInit {
  const headers = new Headers(init.headers);
  if (token) headers.set("Authorization", `Bearer ${token}`);
  return { ...init, headers };
}

/** How streams reach the gateway. A tab stays open over an outage: it tries for some 20 minutes. */
export const CONNECTION = { fetch: authorized, retry: { attempts: 300 } };

/**
 * Returns the JSON of a path of the gateway.
 *
 * @throws Refused
 */
export async function fetchJson(path: string, init: RequestInit = {}): Promise<Json> {
  const headers = { "A2A-Version": "1.0", ...Object.fromEntries(new Headers(init.headers)) };
  const response = await authorized(urlOf(path), { ...init, headers });
  if (!response.ok) throw new Refused(response.status, await reasonOf(response));
  return response.json();
}

/** Posts JSON to a path of the gateway and returns its answer. */
export function postJson(path: string, body: Json, headers: Record<string, string> = {}): Promise<Json> {
  return sendJson("POST", path, body, headers);
}

/** Puts JSON at a path of the gateway and returns its answer. */
export function putJson(path: string, body: Json): Promise<Json> {
  return sendJson("PUT", path, body);
}

function sendJson(method: string, path: string, body: Json, headers: Record<string, string> = {}): Promise<Json> {
  const all = { "Content-Type": "application/json", ...headers };
  return fetchJson(path, { method, headers: all, body: JSON.stringify(body) });
}

/** Returns why a gateway refused a request, in words. */
export async function reasonOf(response: Response): Promise<string> {
  const body: Json = await response.json().catch(() => ({}));
  return body.error?.message ?? `the gateway answered ${response.status}`;
}

/**
 * Yields the events of a path of the gateway, over as many connections as necessary.
 *
 * `fetched` replaces `authorized`.
 */
export async function* follow(
  path: string,
  signal: AbortSignal,
  fetched: typeof authorized = authorized,
): AsyncGenerator<SseFrame> {
  const stream = new LiveStream(path, signal, fetched);
  yield* stream.frames(await stream.open());
}

class LiveStream extends ResumingStream {
  constructor(path: string, signal: AbortSignal, fetched: typeof authorized) {
    super(new Gateways([urlOf(path)], { ...CONNECTION, fetch: fetched, signal }), "");
    // It has served this page.
    this.gateways.succeeded();
  }

  protected connect(headers: Record<string, string>): Promise<Response> {
    const all = { "A2A-Version": "1.0", Accept: "text/event-stream", ...headers };
    return this.gateways.response("", { headers: all });
  }

  protected kept(frames: SseFrame[]): SseFrame[] {
    return frames;
  }

  protected note(): void {}

  protected isOver(): boolean {
    return false;
  }
}
