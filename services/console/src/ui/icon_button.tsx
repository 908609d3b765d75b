import type { IconNode } from "lucide";

import { Icon } from "./icon";

interface Labelled {
  icon: IconNode;
  /** What it does: read aloud, and shown when the pointer rests on it. */
  label: string;
  onClick: () => void;
  isSmall?: boolean;
  isDisabled?: boolean;
}

/** A button that shows an icon only. */
export function IconButton({ icon, label, onClick, isSmall = false, isDisabled = false }: Labelled) {
  return (
    <button
      type="button"
      class={isSmall ? "quiet icon small" : "quiet icon"}
      title={label}
      aria-label={label}
      disabled={isDisabled}
      onClick={onClick}
    >
      <Icon of={icon} />
    </button>
  );
}
