import type { ComponentChildren } from "preact";

/** Figures side by side, each under its name. */
export function Figures({ of }: { of: Readonly<Record<string, ComponentChildren>> }) {
  return (
    <dl class="figures">
      {Object.entries(of).map(([name, figure]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{figure}</dd>
        </div>
      ))}
    </dl>
  );
}
