/** Moves the focus between the buttons of a list's rows, as the arrows up and down ask for. */
export function moveByArrows(event: KeyboardEvent): void {
  const next = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key] as "nextElementSibling" | undefined;
  const row = event.target instanceof Element ? event.target.closest("li") : null;
  const button = next && row?.[next]?.querySelector("button");
  if (!button) return;
  event.preventDefault();
  button.focus();
}
