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
  const isLeft = useRef(false);
  useEffect(() => dialog.current?.showModal(), []);

  // The browser reports a dialog's end some time after it. What is pressed in between would ask the next
  // question, and the report would then close that one.
  const leave = () => {
    if (isLeft.current) return;
    isLeft.current = true;
    dialog.current?.close();
    onClose();
  };

  const confirm = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      await onConfirm(new FormData(event.currentTarget as HTMLFormElement));
      leave();
    } catch (refused) {
      setError((refused as Error).message);
      setBusy(false);
    }
  };

  return (
    <dialog ref={dialog} onCancel={leave} onClose={leave} aria-labelledby="confirm">
      <form onSubmit={confirm}>
        <h2 id="confirm">{title}</h2>
        {children}
        {error && <p class="error" role="alert">{error}</p>}
        <div class="actions">
          <button type="button" class="quiet" autofocus onClick={leave}>
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
