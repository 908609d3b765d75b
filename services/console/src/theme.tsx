import { Moon, Sun, SunMoon } from "lucide";
import { useState } from "preact/hooks";

import { IconButton } from "./ui/icon_button";

const KEY = "headrace.theme";
const THEMES = ["auto", "light", "dark"];
const ICONS = { auto: SunMoon, light: Sun, dark: Moon };

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
  return <IconButton icon={ICONS[theme as keyof typeof ICONS]} label={`Colours: ${theme}. Change to ${next}`} onClick={change} />;
}
