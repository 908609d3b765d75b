import type { ComponentChildren } from "preact";

import { useTitle } from "./title";

interface Headed {
  title: string;
  /** More of it for the tab's title, such as a state. */
  also?: readonly string[];
  hint?: ComponentChildren;
  /** Buttons at its end. */
  children?: ComponentChildren;
}

/** The head of a page, which also titles the browser's tab. */
export function PageHead({ title, also = [], hint, children }: Headed) {
  useTitle(title, ...also);
  return (
    <header class="page-head">
      <h1>{title}</h1>
      {hint && <p class="hint">{hint}</p>}
      {children && (
        <>
          <span class="grow" />
          {children}
        </>
      )}
    </header>
  );
}
