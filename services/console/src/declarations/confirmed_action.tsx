import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { Confirm } from "../confirm";

interface Action {
  verb: string;
  /** What it is done to. */
  name: string;
  children: ComponentChildren;
  /** `key` is the same for each try of one question, for `Idempotency-Key`. */
  onConfirm: (key: string) => Promise<unknown>;
}

/** A button that asks before it acts. */
export function ConfirmedAction({ verb, name, children, onConfirm }: Action) {
  const [key, setKey] = useState("");
  return (
    <>
      <button type="button" class="plain" onClick={() => setKey(crypto.randomUUID())}>{verb}</button>
      {key && (
        <Confirm title={`${verb} ${name}?`} action={verb} onConfirm={() => onConfirm(key)} onClose={() => setKey("")}>
          <p>{children}</p>
        </Confirm>
      )}
    </>
  );
}
