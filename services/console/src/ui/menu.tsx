import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { useClosing } from "./closing";

interface Opened {
  /** What the button shows. */
  label: ComponentChildren;
  /** What it is called, if what it shows does not say it. */
  name?: string;
  class?: string;
  /** The entries, made when it opens; `close` ends it and gives the focus back. */
  children: (close: () => void) => ComponentChildren;
}

const GAP = 4;

/** A button that opens a menu of `MenuItem`s: arrows move in it, Escape and a click elsewhere close it. */
export function Menu({ label, name, class: style = "plain", children }: Opened) {
  const [isOpen, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const menu = useRef<HTMLDivElement>(null);
  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  useLayoutEffect(() => {
    if (!isOpen) return;
    menu.current!.showPopover();
    place(menu.current!, button.current!.getBoundingClientRect());
    (menu.current!.querySelector<HTMLElement>("[role^=menuitem], input, select") ?? menu.current!).focus();
  }, [isOpen]);
  useClosing(isOpen, () => setOpen(false), true);
  return (
    <>
      <button
        ref={button}
        type="button"
        class={style}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        {...(name ? { "aria-label": name, title: name } : {})}
        onClick={() => setOpen(!isOpen)}
      >
        {label}
      </button>
      {isOpen && (
        <div
          ref={menu}
          class="menu"
          role="menu"
          aria-label={name ?? button.current?.innerText ?? ""}
          popover="auto"
          tabIndex={-1}
          onKeyDown={(event) => moveFocus(event, menu.current!)}
          onToggle={({ newState }) => newState === "closed" && setOpen(false)}
        >
          {children(close)}
        </div>
      )}
    </>
  );
}

/** Puts a menu below its button, or above where there is more room, and inside the window. */
function place(menu: HTMLElement, button: DOMRect): void {
  const { offsetWidth: width, offsetHeight: height } = menu;
  const isAbove = button.bottom + GAP + height > innerHeight && button.top > innerHeight - button.bottom;
  menu.style.top = `${Math.max(GAP, isAbove ? button.top - GAP - height : button.bottom + GAP)}px`;
  menu.style.left = `${Math.max(8, Math.min(button.left, innerWidth - width - 8))}px`;
}

function moveFocus(event: KeyboardEvent, menu: HTMLElement): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const items = [...menu.querySelectorAll<HTMLElement>("[role^=menuitem]")];
  if (items.length === 0) return;
  event.preventDefault();
  const at = items.indexOf(document.activeElement as HTMLElement);
  items[(at + step + items.length) % items.length]!.focus();
}

interface Chosen {
  children: ComponentChildren;
  onChoose: () => void;
  isDangerous?: boolean;
  /** Whether it is the one that is set; absent: it is an action. */
  isSet?: boolean;
}

/** An entry of a menu. */
export function MenuItem({ children, onChoose, isDangerous = false, isSet }: Chosen) {
  const role = isSet === undefined ? { role: "menuitem" as const } : { role: "menuitemradio" as const, "aria-checked": isSet };
  return (
    <button type="button" class={isDangerous ? "danger" : ""} {...role} onClick={onChoose}>
      {isSet !== undefined && <span class="check-mark" aria-hidden="true">{isSet ? "✓" : ""}</span>}
      {children}
    </button>
  );
}
