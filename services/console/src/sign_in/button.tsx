import { session } from "../session";
import { useStore } from "../store";
import { options } from "./options";

/** The button to sign in or out, where the fleet has credentials. */
export function SignInButton() {
  const { token, name } = useStore(session);
  const { hasCredentials } = useStore(options);
  if (!hasCredentials) return null;
  return token ? (
    <button type="button" class="quiet" title={name && `Signed in as ${name}`} onClick={() => session.signOut()}>
      Sign out
    </button>
  ) : (
    <button type="button" class="quiet" onClick={() => session.ask()}>
      Sign in
    </button>
  );
}
