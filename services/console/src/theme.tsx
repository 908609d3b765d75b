import { useState } from "preact/hooks";

const KEY = "headrace.theme";
const THEMES = ["auto", "light", "dark"];

function chosen(): string {
  const theme = localStorage.getItem(KEY) ?? "auto";
  return THEMES.includes(theme) ? theme : "auto";
}

function show(theme: string): void {
  document.documentElement.dataset["theme"] = theme;
}

show(chosen());

/** Switches between the system's colours, light and dark. */
export function ThemeButton() {
  const [theme, setTheme] = useState(chosen);
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]!;
  const change = () => {
    localStorage.setItem(KEY, next);
    show(next);
    setTheme(next);
  };
  return (
    <button type="button" class="quiet" onClick={change} title={`Colours: ${theme}`}>
      <span aria-hidden="true">{theme === "dark" ? "●" : theme === "light" ? "○" : "◐"}</span>
      <span class="unseen">{`Colours: ${theme}. Change to ${next}`}</span>
    </button>
  );
}
