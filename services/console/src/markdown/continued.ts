/**
 * Returns texts of an answer as one each, with those in it that went on in the middle of a line.
 *
 * A text ends at each checkpoint of its agent, although its sentence may not.
 */
export function continued(texts: readonly string[]): string[] {
  const whole: string[] = [];
  for (const text of texts) {
    const before = whole.at(-1);
    if (before !== undefined && goesOn(before, text)) whole[whole.length - 1] = before + text;
    else whole.push(text);
  }
  return whole;
}

/** Returns whether a text goes on with another one: there is a space between them. */
export function goesOn(before: string, text: string): boolean {
  return before.endsWith(" ") || (text.startsWith(" ") && before !== "" && !before.endsWith("\n"));
}
