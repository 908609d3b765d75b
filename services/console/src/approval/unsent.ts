/** What was written into the forms of a task's questions. */
const written = new Map<string, string>();

/** Keeps what people write into questions: who else answers takes the form away. */
export const unsent = {
  of: (task: string): string => written.get(task) ?? "",

  /** Keeps the texts in the fields of `questions` that somebody has changed. */
  keep(task: string, questions: HTMLElement): void {
    const fields = questions.querySelectorAll<HTMLInputElement | HTMLTextAreaElement>("input:not([type]), input[type=text], textarea");
    const texts = [...fields].filter(({ value, defaultValue }) => value !== defaultValue).map(({ value }) => value.trim());
    written.set(task, texts.filter(Boolean).join("\n"));
  },

  forget: (task: string): boolean => written.delete(task),

  clear: (): void => written.clear(),
};
