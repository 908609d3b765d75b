import { useState } from "preact/hooks";

/** A JSON value; objects and arrays open and close. */
export function JsonTree({ value, name, isOpen = false }: { value: unknown; name?: string; isOpen?: boolean }) {
  const label = name === undefined ? null : <span class="json-name">{name}: </span>;
  if (value === null || typeof value !== "object") {
    return (
      <div class="json-leaf">
        {label}
        <span class={`json-${value === null ? "null" : typeof value}`}>{JSON.stringify(value) ?? "–"}</span>
      </div>
    );
  }
  return <Branch value={value} label={label} isOpen={isOpen} />;
}

function Branch(props: { value: object; label: preact.ComponentChild; isOpen: boolean }) {
  const [isOpen, setOpen] = useState(props.isOpen);
  const entries = Object.entries(props.value);
  const isList = Array.isArray(props.value);
  const size = isList ? `[${entries.length}]` : `{${entries.length}}`;
  if (entries.length === 0) {
    return (
      <div class="json-leaf">
        {props.label}
        <span class="soft">{isList ? "[]" : "{}"}</span>
      </div>
    );
  }
  return (
    <details class="json" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {props.label}
        <span class="soft">{size}</span>
      </summary>
      {isOpen && entries.map(([key, value]) => <JsonTree key={key} name={key} value={value} />)}
    </details>
  );
}
