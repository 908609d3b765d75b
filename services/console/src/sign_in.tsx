import { useEffect, useRef, useState } from "preact/hooks";

import { session } from "./session";
import { useStore } from "./store";

/** The button for a token, and the dialog that asks for one when the gateway answers 401. */
export function SignIn() {
  const { token, isRefused } = useStore(session);
  const [isOpen, setOpen] = useState(false);
  const dialog = useRef<HTMLDialogElement>(null);
  const isAsked = isOpen || isRefused;
  useEffect(() => {
    if (isAsked) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isAsked]);

  const close = () => {
    setOpen(false);
    session.isRefused = false;
  };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const entered = String(new FormData(form).get("token") ?? "").trim();
    form.reset();
    setOpen(false);
    if (entered) session.signIn(entered);
  };

  return (
    <>
      {token ? (
        <button type="button" class="quiet" onClick={() => session.signOut()}>
          Sign out
        </button>
      ) : (
        <button type="button" class="quiet" onClick={() => setOpen(true)}>
          Sign in
        </button>
      )}
      <dialog ref={dialog} onClose={close} aria-labelledby="sign-in">
        <form onSubmit={submit}>
          <h2 id="sign-in">Sign in</h2>
          {isRefused && <p class="error">The gateway requires a valid token.</p>}
          <label>
            Token
            <input name="token" type="password" autocomplete="off" required />
          </label>
          <p class="hint">Kept for this tab, and sent in a header only.</p>
          <div class="actions">
            <button type="button" class="quiet" onClick={() => dialog.current?.close()}>
              Cancel
            </button>
            <button type="submit">Sign in</button>
          </div>
        </form>
      </dialog>
    </>
  );
}
