const PREFIX = "headrace.draft.";

/** What the user has written in a thread and not sent: it outlives other pages, a reload and a sign-in of this tab. */
export const drafts = {
  of: (thread: string): string => sessionStorage.getItem(PREFIX + thread) ?? "",

  keep(thread: string, text: string): void {
    if (text) sessionStorage.setItem(PREFIX + thread, text);
    else sessionStorage.removeItem(PREFIX + thread);
  },

  /** Forgets all of them, such as those of a user who signs out. */
  clear(): void {
    const kept = Object.keys(sessionStorage).filter((key) => key.startsWith(PREFIX));
    for (const key of kept) sessionStorage.removeItem(key);
  },
};
