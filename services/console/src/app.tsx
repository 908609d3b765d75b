import type { ComponentChildren } from "preact";

import { FleetPage } from "./pages/fleet";
import { route } from "./route";
import { SignIn } from "./sign_in";
import { useStore } from "./store";
import { ThemeButton } from "./theme";

const PAGES: [string, string, RegExp][] = [["#/", "Fleet", /^$/]];

/** The console: navigation, and the page that the address names. */
export function App() {
  const { place } = useStore(route);
  const name = place.parts[0] ?? "";
  return (
    <>
      <header class="bar">
        <a class="brand" href="#/">
          headrace
        </a>
        <nav aria-label="Pages">
          {PAGES.map(([to, title, names]) => (
            <a key={to} href={to} aria-current={names.test(name) ? "page" : undefined}>
              {title}
            </a>
          ))}
        </nav>
        <span class="grow" />
        <ThemeButton />
        <SignIn />
      </header>
      <main>{pageOf()}</main>
    </>
  );
}

function pageOf(): ComponentChildren {
  return <FleetPage />;
}
