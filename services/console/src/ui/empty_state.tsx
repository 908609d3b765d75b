import type { IconNode } from "lucide";
import type { ComponentChildren } from "preact";

import { Command } from "./command";
import { Icon } from "./icon";

interface Empty {
  icon: IconNode;
  title: string;
  /** What to do. */
  children?: ComponentChildren;
  actions?: ComponentChildren;
  /** What does the same on a terminal. */
  command?: string;
}

/** A place where there is nothing: why, and what to do. */
export function EmptyState({ icon, title, children, actions, command }: Empty) {
  return (
    <div class="empty-state">
      <Icon of={icon} size={32} />
      <h2>{title}</h2>
      {children && <p>{children}</p>}
      {actions && <div class="actions">{actions}</div>}
      {command && <Command text={command} />}
    </div>
  );
}
