/** What AG-UI's client says of an answer other than 200: its status, and its body as JSON. */
const REFUSED = /^HTTP \d{3}: (\{.*\})$/s;

/** Returns what the gateway says in words, out of the message of AG-UI's client. */
export function inWords(message: string): string {
  const body = REFUSED.exec(message)?.[1];
  try {
    const { error } = JSON.parse(body ?? "{}");
    if (error?.code === "task_ended") return "The task is over: somebody has answered it, or ended it.";
    return typeof error?.message === "string" ? error.message : message;
  } catch {
    return message;
  }
}
