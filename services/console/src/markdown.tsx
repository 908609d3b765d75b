import DOMPurify from "dompurify";
import { Marked } from "marked";
import { useLayoutEffect, useRef } from "preact/hooks";

/** HTML in a text is shown as it is written, and pictures as links: they would be fetched. */
const renderer = {
  html: ({ text }: { text: string }) => escaped(text),
  image: ({ href, text }: { href: string; text: string }) =>
    `<a href="${escaped(href)}">${escaped(text || href)}</a>`,
};
const marked = new Marked({ gfm: true, renderer });

function escaped(text: string): string {
  const signs: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return text.replace(/[&<>"']/g, (sign) => signs[sign]!);
}

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

/** Text of an agent or a user, as Markdown: nothing in it is executed or fetched. */
export function Markdown({ text }: { text: string }) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const html = marked.parse(text, { async: false });
    place.current!.replaceChildren(DOMPurify.sanitize(html, OPTIONS));
  }, [text]);
  return <div class="markdown" ref={place} />;
}
