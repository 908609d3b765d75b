/** What the tab's icon tells: nothing special, somebody is waited for, or the gateway does not answer. */
export type TabState = "calm" | "waiting" | "lost";

const DOTS: Record<TabState, string> = {
  calm: "",
  waiting: "<circle cx='12.5' cy='3.5' r='3.5' fill='%23e08a00'/>",
  lost: "<circle cx='12.5' cy='3.5' r='3.5' fill='%23d93025'/>",
};

/** Returns the icon as a URL. */
export function iconOf(state: TabState): string {
  const waves = "<rect width='16' height='16' rx='3' fill='%231d6f8a'/><path d='M2 6q3-3 6 0t6 0M2 11q3-3 6 0t6 0' fill='none' stroke='%23fff' stroke-width='1.6'/>";
  return `data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'>${waves}${DOTS[state]}</svg>`;
}

/** Shows the state in the tab's icon. */
export function showTabState(state: TabState): void {
  const link = document.querySelector<HTMLLinkElement>("link[rel=icon]");
  if (!link || link.dataset["state"] === state) return;
  link.dataset["state"] = state;
  link.href = iconOf(state);
}
