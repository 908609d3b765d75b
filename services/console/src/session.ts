import { Store } from "./store";

const KEY = "headrace.token";

/** The user's token: kept for this tab only, and sent only in the header Authorization. */
class Session extends Store {
  token = sessionStorage.getItem(KEY) ?? "";
  /** Whether the gateway has refused the token, or asks for one. */
  isRefused = false;

  signIn(token: string): void {
    this.token = token;
    this.isRefused = false;
    sessionStorage.setItem(KEY, token);
    this.changed();
  }

  signOut(): void {
    this.token = "";
    sessionStorage.removeItem(KEY);
    this.changed();
  }

  refuse(): void {
    this.isRefused = true;
    this.changed();
  }
}

export const session = new Session();
