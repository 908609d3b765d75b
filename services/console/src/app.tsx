import type { ComponentChildren } from "preact";

import { ChatPage } from "./pages/chat";
import { FleetPage } from "./pages/fleet";
import { route, type Place } from "./route";
import { SignIn } from "./sign_in";
import { useStore } from "./store";
import { ThemeButton } from "./theme";

const PAGES: [string, string, RegExp][] = [
  ["#/", "Fleet", /^$/],
  ["#/chat", "Chat", /^chat$/],
];

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
      <main>{pageOf(place)}</main>
    </>
  );
}

function pageOf({ parts: [name = "", first = "", second = ""] }: Place): ComponentChildren {
  if (name === "chat") return <ChatPage agent={first} thread={second} />;
  return <FleetPage />;
}
