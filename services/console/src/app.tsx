import type { ComponentChildren } from "preact";

import { build } from "./build";
import { BreakPage } from "./pages/break";
import { ChatPage } from "./pages/chat";
import { FleetPage } from "./pages/fleet";
import { InspectPage } from "./pages/inspect";
import { OperatePage } from "./pages/operate";
import { SchedulesPage } from "./pages/schedules";
import { TaskPage } from "./pages/task";
import { TasksPage } from "./pages/tasks";
import { TriggersPage } from "./pages/triggers";
import { useAccess } from "./operator";
import { reach } from "./reach";
import { route, type Place } from "./route";
import { SignIn } from "./sign_in";
import { useStore } from "./store";
import { ThemeButton } from "./theme";

const PAGES: [string, string, RegExp][] = [
  ["#/", "Fleet", /^$/],
  ["#/chat", "Chat", /^chat$/],
  ["#/tasks", "Tasks", /^tasks$/],
  ["#/triggers", "Triggers", /^triggers$/],
  ["#/schedules", "Schedules", /^schedules$/],
  ["#/inspect", "Inspect", /^inspect$/],
];
const OPERATE: (typeof PAGES)[number] = ["#/operate", "Operate", /^operate$/];
const BREAK: (typeof PAGES)[number] = ["#/break", "Break it", /^break$/];

/** The console: navigation, and the page that the address names. */
export function App() {
  const { place } = useStore(route);
  const { isOther } = useStore(build);
  const { isLost } = useStore(reach);
  const { isOperator, isDevelopment } = useAccess();
  const pages = [...PAGES, ...(isOperator ? [OPERATE] : []), ...(isDevelopment ? [BREAK] : [])];
  const name = place.parts[0] ?? "";
  return (
    <>
      <header class="bar">
        <a class="brand" href="#/">
          headrace
        </a>
        <nav aria-label="Pages">
          {pages.map(([to, title, names]) => (
            <a key={to} href={to} aria-current={names.test(name) ? "page" : undefined}>
              {title}
            </a>
          ))}
        </nav>
        <span class="grow" />
        <ThemeButton />
        <SignIn />
      </header>
      {isLost && (
        <p class="update" role="status">
          The gateway does not answer. The page keeps trying.
        </p>
      )}
      {isOther && (
        <p class="update" role="status">
          The gateway serves another version of the console.{" "}
          <button type="button" class="plain small" onClick={() => location.reload()}>
            Reload
          </button>
        </p>
      )}
      <main>{pageOf(place)}</main>
    </>
  );
}

function pageOf({ parts: [name = "", first = "", second = ""], query }: Place): ComponentChildren {
  if (name === "chat") return <ChatPage agent={first} thread={second} />;
  if (name === "tasks" && second) return <TaskPage key={`${first}/${second}`} agent={first} task={second} query={query} />;
  if (name === "tasks") return <TasksPage query={query} />;
  if (name === "triggers") return <TriggersPage key={first} name={first} query={query} />;
  if (name === "schedules") return <SchedulesPage key={first} name={first} query={query} />;
  if (name === "inspect") return <InspectPage query={query} />;
  if (name === "operate") return <OperatePage query={query} />;
  if (name === "break") return <BreakPage />;
  return <FleetPage />;
}
