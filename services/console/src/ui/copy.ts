import { toasts } from "./toasts";

/** Puts a text on the clipboard, and says so. */
export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toasts.say("Copied");
  } catch {
    toasts.fail("The browser does not allow to copy");
  }
}
