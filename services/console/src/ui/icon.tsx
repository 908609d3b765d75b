import type { IconNode } from "lucide";
import { h } from "preact";

interface Drawn {
  of: IconNode;
  /** Width and height in pixels. */
  size?: number;
}

/** A picture of the icon set, in the colour of the text. What it means stands beside it as text. */
export function Icon({ of, size = 16 }: Drawn) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      stroke-width="2"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      {of.map(([tag, attributes], at) => h(tag, { ...attributes, key: at }))}
    </svg>
  );
}
