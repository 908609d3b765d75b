import { Copy } from "lucide";

import { ROOT } from "../gateway";
import { copy } from "./copy";
import { IconButton } from "./icon_button";

/** The option of `headrace` that names the gateway of this page. */
export const AT = ` --url ${ROOT.replace(/\/$/, "")}`;

/** A command for a terminal, which can be copied. */
export function Command({ text }: { text: string }) {
  return (
    <div class="command">
      <pre tabIndex={0} aria-label="Command">{text}</pre>
      <IconButton icon={Copy} label="Copy the command" isSmall onClick={() => void copy(text)} />
    </div>
  );
}
