import { Store } from "../store";
import type { Issuer } from "./issuer";

/** How people sign in to this fleet, as its gateway says. */
class SignInOptions extends Store {
  /** Whether the fleet has credentials at all; without them there is nothing to sign in with. */
  hasCredentials = false;
  issuer: Issuer | null = null;

  /** Asks the gateway. Without an answer, what was known stays. */
  async load(): Promise<void> {
    const response = await fetch(new URL("sign-in.json", location.origin + location.pathname)).catch(() => null);
    if (!response?.ok) return;
    const found = await response.json();
    this.hasCredentials = found.credentials === true;
    this.issuer = found.issuer ?? null;
    this.changed();
  }
}

export const options = new SignInOptions();
