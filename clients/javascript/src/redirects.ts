import { RequestRefused } from "./errors.js";

const KEEP_THE_METHOD = [307, 308];
const FOLLOWED = [301, 302, 303, ...KEEP_THE_METHOD];
const MOST = 5;

/** Sends one request, without following redirects unless `redirect` says so. */
type Send = (url: string, redirect: RequestRedirect) => Promise<Response>;

/**
 * Returns the response to a request, also if it is redirected. The request and its credentials stay
 * at the gateway's origin, and the method stays the same: a POST that became a GET would report
 * what was not done.
 *
 * @throws RequestRefused: the gateway redirects elsewhere, or too often.
 */
export async function followed(url: string, method: string, send: Send): Promise<Response> {
  const isGet = method === "GET" || method === "HEAD";
  let response = await send(url, "manual");
  for (let redirects = 0; redirects < MOST; redirects += 1) {
    if (response.type === "opaqueredirect") return followedByBrowser(url, isGet, response, send);
    if (!FOLLOWED.includes(response.status)) return response;
    url = target(url, isGet, response);
    response = await send(url, "manual");
  }
  if (!FOLLOWED.includes(response.status)) return response;
  throw new RequestRefused(response, `the gateway redirects more than ${MOST} times`);
}

function target(url: string, isGet: boolean, response: Response): string {
  const base = absolute(url);
  const next = new URL(response.headers.get("Location") ?? "", base);
  if (next.origin !== base.origin) throw elsewhere(response, next.origin);
  if (!isGet && !KEEP_THE_METHOD.includes(response.status)) {
    const rule = "only a GET follows it; others follow 307 and 308";
    throw new RequestRefused(response, `the gateway redirects with ${response.status}; ${rule}`);
  }
  next.username = base.username;
  next.password = base.password;
  return next.href;
}

/** A browser shows neither the status nor the target of a redirect; it can only follow it itself. */
async function followedByBrowser(
  url: string,
  isGet: boolean,
  hidden: Response,
  send: Send,
): Promise<Response> {
  if (!isGet) {
    const advice = "use the URL that it redirects to as the gateway's";
    throw new RequestRefused(hidden, `the gateway redirects a message; ${advice}`);
  }
  const response = await send(url, "follow");
  const { origin } = absolute(response.url);
  if (origin !== absolute(url).origin) throw elsewhere(response, origin);
  return response;
}

function elsewhere(response: Response, origin: string): RequestRefused {
  const advice = "another origin; if you trust it, use it as the gateway's URL";
  return new RequestRefused(response, `the gateway redirects to ${origin}, ${advice}`);
}

function absolute(url: string): URL {
  return new URL(url, globalThis.location?.href);
}
