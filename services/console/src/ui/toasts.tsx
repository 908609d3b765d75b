import { X } from "lucide";

import { Store, useStore } from "../store";
import { IconButton } from "./icon_button";

interface Toast {
  id: number;
  text: string;
  isError: boolean;
  /** Takes back what was done. */
  undo: (() => unknown) | undefined;
}

/** Milliseconds that one stays: long enough to read it, and to take back what it says. */
const STAYS = 6_000;

/** Short messages about what was just done. */
class Toasts extends Store {
  shown: Toast[] = [];
  private count = 0;

  /** Says what was done; `undo` offers to take it back while the message is there. */
  say(text: string, undo?: () => unknown): void {
    this.add(text, false, undo);
  }

  /** Says what did not work. */
  fail(text: string): void {
    this.add(text, true);
  }

  drop(id: number): void {
    this.shown = this.shown.filter((one) => one.id !== id);
    this.changed();
  }

  private add(text: string, isError: boolean, undo?: () => unknown): void {
    const id = ++this.count;
    this.shown = [...this.shown.slice(-2), { id, text, isError, undo }];
    setTimeout(() => this.drop(id), STAYS);
    this.changed();
  }
}

export const toasts = new Toasts();

/** Where the messages are shown; once in the page. */
export function ToastList() {
  const { shown } = useStore(toasts);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {shown.map(({ id, text, isError, undo }) => (
        <div key={id} class={isError ? "toast bad" : "toast"}>
          <span class="grow">{text}</span>
          {undo && (
            <button type="button" class="plain small" onClick={() => { toasts.drop(id); void undo(); }}>
              Undo
            </button>
          )}
          <IconButton icon={X} label="Close" isSmall onClick={() => toasts.drop(id)} />
        </div>
      ))}
    </div>
  );
}
