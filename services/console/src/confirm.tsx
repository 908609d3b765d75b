import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

interface Asked {
  title: string;
  /** The button that does it. */
  action: string;
  children: ComponentChildren;
  /** Called with the form's fields; a rejection is shown, and the question stays. */
  onConfirm: (fields: FormData) => Promise<unknown>;
  onClose: () => void;
}

/** A question before an action that can't be taken back; the keyboard begins at "Go back". */
export function Confirm({ title, action, children, onConfirm, onClose }: Asked) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);

  const confirm = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      await onConfirm(new FormData(event.currentTarget as HTMLFormElement));
      dialog.current?.close();
    } catch (refused) {
      setError((refused as Error).message);
      setBusy(false);
    }
  };

  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="confirm">
      <form onSubmit={confirm}>
        <h2 id="confirm">{title}</h2>
        {children}
        {error && <p class="error" role="alert">{error}</p>}
        <div class="actions">
          <button type="button" class="quiet" autofocus onClick={() => dialog.current?.close()}>
            Go back
          </button>
          <button type="submit" disabled={isBusy}>
            {action}
          </button>
        </div>
      </form>
    </dialog>
  );
}
