import { useEffect, useRef } from "preact/hooks";

import { session } from "../session";
import { useStore } from "../store";
import { begin, type Issuer } from "./issuer";
import { options } from "./options";

/** Asks for a user: on request, when the gateway answers 401, and after a sign-in that failed. */
export function SignInDialog() {
  const { isAsked, isRefused, problem } = useStore(session);
  const { hasCredentials, issuer } = useStore(options);
  const dialog = useRef<HTMLDialogElement>(null);
  const isOpen = hasCredentials && (isAsked || isRefused || problem !== "");
  useEffect(() => {
    // Credentials may have been added to the fleet since.
    if (isRefused) void options.load();
  }, [isRefused]);
  useEffect(() => {
    if (isOpen) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isOpen]);

  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const entered = String(new FormData(form).get("token") ?? "").trim();
    form.reset();
    if (entered) session.signIn(entered);
  };
  const asks = `The gateway requires ${issuer ? "you to sign in" : "a valid token"}.`;
  // Nobody has done anything wrong before the first sign-in.
  const isFirst = session.current === "";

  return (
    <dialog ref={dialog} onClose={() => session.settled()} aria-labelledby="sign-in">
      <h2 id="sign-in">Sign in</h2>
      {problem ? (
        <p class="error" role="alert">
          {problem}
        </p>
      ) : (
        isRefused && <p class={isFirst ? "hint" : "error"}>{asks}</p>
      )}
      {issuer && <AtIssuer issuer={issuer} />}
      <form onSubmit={submit}>
        <label>
          {issuer ? "Or a token" : "Token"}
          <input name="token" type="password" autocomplete="off" required />
        </label>
        <p class="hint">Kept for this tab, and sent in a header only.</p>
        <div class="actions">
          <button type="button" class="quiet" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button type="submit" class={issuer ? "plain" : undefined}>
            {issuer ? "Use the token" : "Sign in"}
          </button>
        </div>
      </form>
    </dialog>
  );
}

/** The button that leads to the issuer's page. */
function AtIssuer({ issuer }: { issuer: Issuer }) {
  const go = () => begin(issuer).catch(({ message }: Error) => session.fail(message));
  return (
    <p>
      <button type="button" class="at-issuer" onClick={go}>
        Sign in with {new URL(issuer.url).hostname}
      </button>
    </p>
  );
}
