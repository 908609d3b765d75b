/**
 * Signing in at the token issuer: OpenID Connect's authorization code flow (Core 1.0, section 3.1)
 * with PKCE (RFC 7636), as a public client.
 */

/** The issuer as `sign-in.json` names it. */
export interface Issuer {
  url: string;
  clientId: string;
  authorizationUrl: string;
  tokenUrl: string;
  /** Empty: the issuer has no page to sign out. */
  endSessionUrl: string;
  scopes: string[];
}

/** What the issuer has issued. */
export interface Issued {
  token: string;
  /** The refresh token; empty: the user signs in again once the token has expired. */
  renewal: string;
  /** When the token expires, in milliseconds since 1970; null: unknown. */
  expiresAt: number | null;
  idToken: string;
}

/** The issuer refused, or what came back is not the answer to what this tab asked. */
export class SignInFailed extends Error {}

interface Pending {
  state: string;
  nonce: string;
  verifier: string;
  /** Where the user was in the console. */
  fragment: string;
}

type Claims = Record<string, unknown>;

const KEY = "headrace.sign_in";
const SECRET_BYTES = 32;

/** Goes to the issuer's page. The browser comes back to the console, where `finish` takes over. */
export async function begin(issuer: Issuer): Promise<void> {
  if (!crypto.subtle) throw new SignInFailed("Browsers sign in over https only.");
  const pending = { state: secret(), nonce: secret(), verifier: secret(), fragment: location.hash };
  const url = new URL(issuer.authorizationUrl);
  const asked = {
    response_type: "code",
    client_id: issuer.clientId,
    redirect_uri: ownUrl(),
    scope: issuer.scopes.join(" "),
    state: pending.state,
    nonce: pending.nonce,
    code_challenge: await challengeOf(pending.verifier),
    code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(asked)) url.searchParams.set(name, value);
  sessionStorage.setItem(KEY, JSON.stringify(pending));
  location.assign(url.href);
}

/** Returns the issuer's answer in the address, if the browser comes from the issuer. */
export function answerIn(search: string): URLSearchParams | null {
  const answer = new URLSearchParams(search);
  return answer.has("state") && (answer.has("code") || answer.has("error")) ? answer : null;
}

/**
 * Exchanges the code in the issuer's answer for tokens, and shows the page where the user was.
 *
 * @throws SignInFailed
 */
export async function finish(issuer: Issuer | null, answer: URLSearchParams): Promise<Issued> {
  const pending = taken();
  // The code must not stay in the browser's history.
  history.replaceState(null, "", location.pathname + location.hash);
  if (pending?.fragment) location.replace(pending.fragment);
  if (!issuer || !pending || answer.get("state") !== pending.state)
    throw new SignInFailed("This sign-in was not begun in this tab, or is over. Sign in again.");
  // RFC 9207: an answer of another issuer.
  if ((answer.get("iss") ?? issuer.url) !== issuer.url) throw new SignInFailed("Another issuer has answered.");
  const code = answer.get("code");
  if (!code) throw new SignInFailed(answer.get("error_description") || `The issuer says: ${answer.get("error")}`);
  const given = { code, redirect_uri: ownUrl(), code_verifier: pending.verifier };
  const issued = await requested(issuer, { grant_type: "authorization_code", ...given });
  if (issuer.scopes.includes("openid")) checkIdentity(issuer, issued.idToken, pending.nonce);
  return issued;
}

/**
 * Returns new tokens for the refresh token of `issued`.
 *
 * @throws SignInFailed
 */
export async function renewed(issuer: Issuer, issued: Issued): Promise<Issued> {
  const asked = { grant_type: "refresh_token", refresh_token: issued.renewal };
  const found = await requested(issuer, asked);
  // An issuer that does not replace them leaves them out (RFC 6749, section 6).
  return { ...found, renewal: found.renewal || issued.renewal, idToken: found.idToken || issued.idToken };
}

/** Returns the issuer's page that ends the user's session there; empty if there is none. */
export function endSessionUrl(issuer: Issuer, { idToken }: Issued): string {
  if (!issuer.endSessionUrl) return "";
  const url = new URL(issuer.endSessionUrl);
  url.searchParams.set("client_id", issuer.clientId);
  url.searchParams.set("post_logout_redirect_uri", ownUrl());
  if (idToken) url.searchParams.set("id_token_hint", idToken);
  return url.href;
}

/** Returns the name of the user in an ID token, to show it. */
export function nameIn(idToken: string): string {
  const { name, preferred_username, email, sub } = claimsOf(idToken);
  return String(name ?? preferred_username ?? email ?? sub ?? "");
}

async function requested(issuer: Issuer, asked: Record<string, string>): Promise<Issued> {
  const body = new URLSearchParams({ ...asked, client_id: issuer.clientId });
  const response = await fetch(issuer.tokenUrl, { method: "POST", body, credentials: "omit" });
  const found: Claims = await response.json().catch(() => ({}));
  const token = found["access_token"];
  if (!response.ok || typeof token !== "string") {
    // Its outage is no refusal: the caller tries again.
    if (response.status >= 500) throw new TypeError(`the issuer answered ${response.status}`);
    const reason = found["error_description"] ?? found["error"] ?? response.status;
    throw new SignInFailed(`The issuer gives no token: ${reason}`);
  }
  const seconds = Number(found["expires_in"]);
  return {
    token,
    renewal: String(found["refresh_token"] ?? ""),
    expiresAt: seconds > 0 ? Date.now() + seconds * 1000 : null,
    idToken: String(found["id_token"] ?? ""),
  };
}

/** The token comes from the issuer itself, so its signature need not be checked (Core 1.0, 3.1.3.7). */
function checkIdentity(issuer: Issuer, idToken: string, nonce: string): void {
  const claims = claimsOf(idToken);
  const isFor = [claims["aud"]].flat().includes(issuer.clientId);
  if (claims["iss"] !== issuer.url || !isFor || claims["nonce"] !== nonce)
    throw new SignInFailed("The issuer's answer is not for this sign-in. Sign in again.");
}

function claimsOf(idToken: string): Claims {
  try {
    const payload = (idToken.split(".")[1] ?? "").replace(/-/g, "+").replace(/_/g, "/");
    const bytes = Uint8Array.from(atob(payload), (one) => one.charCodeAt(0));
    const claims: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return typeof claims === "object" && claims !== null ? (claims as Claims) : {};
  } catch {
    return {};
  }
}

function taken(): Pending | null {
  const kept = sessionStorage.getItem(KEY);
  sessionStorage.removeItem(KEY);
  return kept === null ? null : JSON.parse(kept);
}

/** The console's own address: where the issuer sends the browser back to. */
function ownUrl(): string {
  return location.origin + location.pathname;
}

function secret(): string {
  return urlSafe(crypto.getRandomValues(new Uint8Array(SECRET_BYTES)));
}

async function challengeOf(verifier: string): Promise<string> {
  return urlSafe(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier))));
}

function urlSafe(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}
