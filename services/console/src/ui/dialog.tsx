import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

interface Shown {
  title: string;
  children: ComponentChildren;
  onClose: () => void;
}

/** A window above the page, which keeps the focus until it is closed: by Escape, or by what is in it. */
export function Dialog({ title, children, onClose }: Shown) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={heading}
      onClose={onClose}
      // Its content has the whole of it: what is clicked itself is the backdrop.
      onClick={(event) => event.target === dialog.current && isOutside(event, dialog.current!) && onClose()}
    >
      <h2 id={heading}>{title}</h2>
      {children}
    </dialog>
  );
}

function isOutside({ clientX, clientY }: MouseEvent, dialog: HTMLElement): boolean {
  const { left, right, top, bottom } = dialog.getBoundingClientRect();
  return clientX < left || clientX > right || clientY < top || clientY > bottom;
}
