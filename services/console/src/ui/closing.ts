import { useEffect } from "preact/hooks";

/** Closes what is open on Escape, on another page and, if it has a place in the window, when that changes. */
export function useClosing(isOpen: boolean, close: () => void, hasPlace = false): void {
  useEffect(() => {
    if (!isOpen) return;
    const ending = new AbortController();
    const { signal } = ending;
    addEventListener("keydown", ({ key }) => key === "Escape" && close(), { signal });
    for (const event of hasPlace ? ["hashchange", "resize"] : ["hashchange"]) addEventListener(event, close, { signal });
    return () => ending.abort();
  }, [isOpen]);
}
