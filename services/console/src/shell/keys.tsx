import { useEffect, useState } from "preact/hooks";

import { Dialog } from "../ui/dialog";

const KEYS: readonly [string, string][] = [
  ["j / k", "Next or previous row of a list"],
  ["Enter", "Open the row"],
  ["/", "Search"],
  ["g t", "Tasks"],
  ["g i", "Inbox"],
  ["g c", "Chat"],
  ["Esc", "Close what is open"],
  ["?", "This list"],
];

/** Whether a key that was pressed belongs to a field, a dialog or the browser. */
function isElsewhere({ target, ctrlKey, metaKey, altKey }: KeyboardEvent): boolean {
  const element = target as HTMLElement;
  return ctrlKey || metaKey || altKey || element.isContentEditable || Boolean(element.closest("input, textarea, select, dialog, [role=menu]"));
}

/** Calls what belongs to each key that is pressed outside of fields; `event.key` names it. */
export function useKeys(keys: Readonly<Record<string, (event: KeyboardEvent) => void>>): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const act = isElsewhere(event) ? undefined : keys[event.key];
      if (!act) return;
      event.preventDefault();
      act(event);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
}

const PLACES: Record<string, string> = { t: "#/", i: "#/inbox", c: "#/chat" };
/** Milliseconds in which the second key of two follows. */
const FOLLOWS = 1_000;

/** The keys that work on every page, and the list of all. */
export function Keys({ isOpen, onToggle }: { isOpen: boolean; onToggle: (isOpen: boolean) => void }) {
  const [since, setSince] = useState(0);
  const go = (key: string) => () => {
    if (Date.now() - since < FOLLOWS) location.hash = PLACES[key]!;
  };
  useKeys({ "?": () => onToggle(true), g: () => setSince(Date.now()), t: go("t"), i: go("i"), c: go("c") });
  if (!isOpen) return null;
  return (
    <Dialog title="Keys" onClose={() => onToggle(false)}>
      <dl class="keys">
        {KEYS.map(([key, what]) => (
          <>
            <dt key={key}>{key.split(" ").map((one) => (one === "/" && key !== "/" ? " / " : <kbd key={one}>{one}</kbd>))}</dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
      <div class="actions">
        <button type="button" class="plain" autofocus onClick={() => onToggle(false)}>Close</button>
      </div>
    </Dialog>
  );
}
