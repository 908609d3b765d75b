import { unsent } from "./approval/unsent";
import { drafts } from "./chat/drafts";
import { endSessionUrl, nameIn, renewed, SignInFailed, type Issued } from "./sign_in/issuer";
import { options } from "./sign_in/options";
import { Store } from "./store";

const KEY = "headrace.token";
const ISSUED = "headrace.issued";
/** How long before its expiry a token is renewed, in milliseconds; a short-lived one at half its time. */
const EARLY = 30_000;

/** The user's token: kept for this tab only, and sent only in the header Authorization. */
class Session extends Store {
  /** The token with which the user signed in: changes with the user, and not when it is renewed. */
  token = sessionStorage.getItem(KEY) ?? "";
  /** Whether the gateway has refused the token, or asks for one. */
  isRefused = false;
  /** Whether the user wants to sign in. */
  isAsked = false;
  /** Why the last sign-in failed. */
  problem = "";
  private issued: Issued | null = JSON.parse(sessionStorage.getItem(ISSUED) ?? "null");
  private renewal: { at: number | null; running: Promise<void> | null } = { at: null, running: null };

  constructor() {
    super();
    if (this.issued) this.plan(this.issued);
  }

  /** The token to send. */
  get current(): string {
    return this.issued?.token ?? this.token;
  }

  /** The user's name, if the issuer has told it. */
  get name(): string {
    return this.issued ? nameIn(this.issued.idToken) : "";
  }

  /** Returns the token to send, renewed first if it is about to expire. */
  async fresh(): Promise<string> {
    const { at } = this.renewal;
    if (at !== null && Date.now() >= at) await this.renew();
    return this.current;
  }

  /** Returns whether there is another token of the same user than the refused one, renewing it. */
  async replaced(refused: string): Promise<boolean> {
    const user = this.token;
    if (this.current === refused) await this.renew();
    return this.token === user && this.current !== refused;
  }

  signIn(token: string): void {
    this.token = token;
    this.keep(null);
    sessionStorage.setItem(KEY, token);
    this.settled();
  }

  /** Takes what the issuer has issued to a user who signed in there. */
  signInWith(issued: Issued): void {
    this.signIn(issued.token);
    this.keep(issued);
  }

  /** Forgets the token; a session at the issuer ends on its page. */
  signOut(): void {
    const url = this.issued && options.issuer ? endSessionUrl(options.issuer, this.issued) : "";
    this.token = "";
    this.keep(null);
    sessionStorage.removeItem(KEY);
    drafts.clear();
    unsent.clear();
    this.changed();
    if (url) location.assign(url);
  }

  ask(): void {
    this.isAsked = true;
    this.changed();
  }

  refuse(): void {
    this.isRefused = true;
    this.changed();
  }

  fail(problem: string): void {
    this.problem = problem;
    this.changed();
  }

  /** The dialog is closed: nothing is asked for any more. */
  settled(): void {
    this.isRefused = this.isAsked = false;
    this.problem = "";
    this.changed();
  }

  private renew(): Promise<void> {
    this.renewal.running ??= this.renewOnce().finally(() => (this.renewal.running = null));
    return this.renewal.running;
  }

  private async renewOnce(): Promise<void> {
    const { issued } = this;
    if (!issued?.renewal) return;
    if (!options.issuer) await options.load();
    if (!options.issuer) return;
    try {
      const found = await renewed(options.issuer, issued);
      // The user may have signed out meanwhile.
      if (this.issued === issued) this.keep(found);
    } catch (error) {
      // An issuer that does not answer is asked again with the next request.
      if (error instanceof SignInFailed && this.issued === issued) this.keep({ ...issued, renewal: "" });
    }
  }

  private keep(issued: Issued | null): void {
    this.issued = issued;
    if (issued) sessionStorage.setItem(ISSUED, JSON.stringify(issued));
    else sessionStorage.removeItem(ISSUED);
    this.plan(issued);
  }

  private plan(issued: Issued | null): void {
    const isRenewable = issued !== null && issued.renewal !== "" && issued.expiresAt !== null;
    const left = isRenewable ? issued.expiresAt! - Date.now() : 0;
    this.renewal.at = isRenewable ? issued.expiresAt! - Math.min(EARLY, Math.max(left, 0) / 2) : null;
  }
}

export const session = new Session();
