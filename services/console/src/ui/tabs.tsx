import { useRef } from "preact/hooks";

interface Chosen {
  /** What they divide. */
  label: string;
  /** Each tab's name and title. */
  tabs: readonly (readonly [string, string])[];
  chosen: string;
  onChoose: (name: string) => void;
}

/** Parts of a page of which one is shown; arrows move between them. The caller shows the part as `TabPanel`. */
export function Tabs({ label, tabs, chosen, onChoose }: Chosen) {
  const list = useRef<HTMLDivElement>(null);
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex(([name]) => name === chosen);
    const [next] = tabs[(at + step + tabs.length) % tabs.length]!;
    onChoose(next);
    list.current?.querySelector<HTMLElement>(`#tab-${next}`)?.focus();
  };
  return (
    <div ref={list} class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
      {tabs.map(([name, title]) => (
        <button
          key={name}
          type="button"
          role="tab"
          id={`tab-${name}`}
          aria-selected={name === chosen}
          aria-controls="tab-panel"
          tabIndex={name === chosen ? 0 : -1}
          onClick={() => onChoose(name)}
        >
          {title}
        </button>
      ))}
    </div>
  );
}

/** The part that the tab `name` shows. */
export function TabPanel({ name, children, class: style = "" }: { name: string; children: preact.ComponentChildren; class?: string }) {
  return (
    <div id="tab-panel" role="tabpanel" aria-labelledby={`tab-${name}`} class={style}>
      {children}
    </div>
  );
}
