import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

import { build } from "./build";
import { inbox } from "./inbox/inbox";
import { useAccess } from "./operator";
import { BreakPage } from "./pages/break";
import { ChatPage } from "./pages/chat";
import { FleetPage } from "./pages/fleet";
import { InboxPage } from "./pages/inbox";
import { InspectPage } from "./pages/inspect";
import { NotFoundPage } from "./pages/not_found";
import { NotPermittedPage } from "./pages/not_permitted";
import { OperatePage } from "./pages/operate";
import { SchedulesPage } from "./pages/schedules";
import { TaskPage } from "./pages/task";
import { TasksPage } from "./pages/tasks";
import { TriggersPage } from "./pages/triggers";
import { reach } from "./reach";
import { route, type Place } from "./route";
import { showTabState } from "./shell/favicon";
import { Keys } from "./shell/keys";
import { Navigation, refusedPage } from "./shell/navigation";
import { SignInDialog } from "./sign_in/dialog";
import { useStore } from "./store";
import { ToastList } from "./ui/toasts";

/** The console: navigation, and the page that the address names. */
export function App() {
  const { place } = useStore(route);
  const access = useAccess();
  const [areKeysShown, setKeysShown] = useState(false);
  const { total: waiting } = useStore(inbox);
  useTabState(waiting);
  const refused = refusedPage(place.parts, access);
  return (
    <>
      <Navigation name={place.parts[0] ?? ""} access={access} waiting={waiting} onKeys={() => setKeysShown(true)} />
      <div class="content-column">
        <Notices />
        <main>{refused ? <NotPermittedPage title={refused.title} isForOperators={refused.names.includes("operate")} /> : pageOf(place)}</main>
      </div>
      <Keys isOpen={areKeysShown} onToggle={setKeysShown} />
      <SignInDialog />
      <ToastList />
    </>
  );
}

/** What concerns every page: the gateway is away, or serves another build. */
function Notices() {
  const { isOther } = useStore(build);
  const { isLost } = useStore(reach);
  return (
    <>
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
    </>
  );
}

function useTabState(waiting: number): void {
  const { isLost } = useStore(reach);
  const state = isLost ? "lost" : waiting > 0 ? "waiting" : "calm";
  useEffect(() => showTabState(state), [state]);
}

function pageOf({ parts: [name = "", first = "", second = ""], query }: Place): ComponentChildren {
  if (name === "chat") return <ChatPage agent={first} thread={second} />;
  if (name === "tasks" && second) return <TaskPage key={`${first}/${second}`} agent={first} task={second} query={query} />;
  if (name === "" || (name === "tasks" && !first)) return <TasksPage query={query} />;
  if (name === "inbox") return <InboxPage />;
  if (name === "fleet") return <FleetPage />;
  if (name === "triggers") return <TriggersPage key={first} name={first} query={query} />;
  if (name === "schedules") return <SchedulesPage key={first} name={first} query={query} />;
  if (name === "inspect") return <InspectPage query={query} />;
  if (name === "operate") return <OperatePage query={query} />;
  if (name === "break") return <BreakPage />;
  return <NotFoundPage />;
}
