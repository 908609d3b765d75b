import DOMPurify from "dompurify";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { toasts } from "../ui/toasts";
import { Blocks, type Block } from "./blocks";
import { morph } from "./morph";

/** What Markdown can say. */
const TAGS = [
  "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li",
  "ol", "p", "pre", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
];
const OPTIONS = {
  ALLOWED_TAGS: TAGS,
  ALLOWED_ATTR: ["href", "start", "title"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true as const,
};

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer");
});

/** A text that is long to lay out is shown less often: this many times as long is for other things. */
const REST = 4;

/** Text of an agent or a user, as Markdown: nothing in it is executed or fetched. */
export function Markdown({ text }: { text: string }) {
  const place = useRef<HTMLDivElement>(null);
  const [growing] = useState(() => new GrowingText());
  useLayoutEffect(() => growing.show(place.current!, text), [text]);
  return <div class="markdown" ref={place} onClick={copyCode} />;
}

/** Copies the code whose button was pressed. */
function copyCode({ target }: MouseEvent): void {
  const button = target instanceof Element ? target.closest("button.copy") : null;
  const code = button?.parentElement?.querySelector("pre")?.innerText;
  if (code === undefined) return;
  navigator.clipboard.writeText(code.replace(/\n$/, "")).then(
    () => toasts.say("Copied"),
    () => toasts.fail("The browser does not allow to copy"),
  );
}

/** Gives each block of code a button that copies it. */
function withButtons(fragment: DocumentFragment): DocumentFragment {
  for (const pre of fragment.querySelectorAll("pre")) {
    const [around, button] = [document.createElement("div"), document.createElement("button")];
    around.className = "code";
    Object.assign(button, { type: "button", className: "copy quiet small", textContent: "Copy" });
    button.setAttribute("aria-label", "Copy the code");
    pre.replaceWith(around);
    around.append(pre, button);
  }
  return fragment;
}

class GrowingText {
  private readonly blocks = new Blocks();
  private shown: Block[] = [];
  private restsUntil = 0;

  /** Shows `text`, now or after a rest; returns a function that calls it off. */
  show(place: HTMLElement, text: string): () => void {
    const rest = this.restsUntil - performance.now();
    if (rest <= 0) {
      this.draw(place, text);
      return () => {};
    }
    let frame = 0;
    const timer = setTimeout(() => (frame = requestAnimationFrame(() => this.draw(place, text))), rest);
    return () => {
      clearTimeout(timer);
      cancelAnimationFrame(frame);
    };
  }

  private draw(place: HTMLElement, text: string): void {
    const begun = performance.now();
    const wanted = this.blocks.of(text);
    show(place, wanted, this.shown);
    this.shown = wanted;
    // The frame lays it out in any case; here it is part of what showing takes.
    void place.offsetHeight;
    const ended = performance.now();
    this.restsUntil = ended + REST * (ended - begun);
  }
}

/** Gives each block an element of its own; those of blocks that are the same are not touched. */
function show(place: HTMLElement, wanted: Block[], shown: Block[]): void {
  for (const [at, block] of wanted.entries()) {
    if (block === shown[at]) continue;
    const element = place.children[at] ?? place.appendChild(document.createElement("div"));
    if (block.html !== shown[at]?.html) morph(element, withButtons(DOMPurify.sanitize(block.html, OPTIONS)));
  }
  while (place.children.length > wanted.length) place.lastElementChild!.remove();
}
