import { Bomb, Bot, CalendarClock, Inbox, Keyboard, ListChecks, Menu, MessageSquare, ScanSearch, SlidersHorizontal, Waves, Zap } from "lucide";
import type { IconNode } from "lucide";
import { useEffect, useRef, useState } from "preact/hooks";

import type { Access } from "../operator";
import { SignInButton } from "../sign_in/button";
import { useStore } from "../store";
import { ThemeButton } from "../theme";
import { useClosing } from "../ui/closing";
import { Icon } from "../ui/icon";
import { IconButton } from "../ui/icon_button";
import { title } from "./title";

interface PageLink {
  to: string;
  title: string;
  icon: IconNode;
  /** Names of the places that it stands for: the first part of their addresses. */
  names: readonly string[];
  /** Who sees it; absent: everybody. */
  needs?: (access: Access) => boolean;
  /** Where there is such a page; absent: everywhere. */
  isThere?: (access: Access) => boolean;
}

const GROUPS: readonly (readonly [string, readonly PageLink[]])[] = [
  ["", [
    { to: "#/", title: "Tasks", icon: ListChecks, names: ["", "tasks"], needs: (one) => one.may("ListTasks") },
    { to: "#/inbox", title: "Inbox", icon: Inbox, names: ["inbox"], needs: (one) => one.may("SendMessage") && one.may("ListTasks") },
    { to: "#/chat", title: "Chat", icon: MessageSquare, names: ["chat"], needs: (one) => one.may("SendMessage") },
  ]],
  ["Fleet", [
    { to: "#/fleet", title: "Agents", icon: Bot, names: ["fleet"] },
    { to: "#/triggers", title: "Triggers", icon: Zap, names: ["triggers"], needs: (one) => one.may("ListTasks") },
    { to: "#/schedules", title: "Schedules", icon: CalendarClock, names: ["schedules"], needs: (one) => one.may("ListTasks") },
    { to: "#/operate", title: "Operate", icon: SlidersHorizontal, names: ["operate"], needs: (one) => one.isOperator },
  ]],
  ["Develop", [
    { to: "#/inspect", title: "Inspect", icon: ScanSearch, names: ["inspect"] },
    { to: "#/break", title: "Break it", icon: Bomb, names: ["break"], isThere: (one) => one.isDevelopment },
  ]],
];

/** Returns the page that the user's roles do not permit, by the parts of its address; undefined: they do. */
export function refusedPage([name = "", , task]: readonly string[], access: Access): PageLink | undefined {
  // One task may be permitted where lists are not.
  if (!access.isKnown || (name === "tasks" && task)) return undefined;
  return GROUPS.flatMap(([, links]) => links).find(({ names, needs }) => names.includes(name) && needs?.(access) === false);
}

interface Shown {
  /** The first part of the page's address. */
  name: string;
  access: Access;
  /** Questions that wait for the user. */
  waiting: number;
  onKeys: () => void;
}

/** All pages: at the side, and on a phone in a menu under a bar with the page's title. */
export function Navigation({ name, access, waiting, onKeys }: Shown) {
  const [isOpen, setOpen] = useState(false);
  const sidebar = useRef<HTMLElement>(null);
  const { parts } = useStore(title);
  const close = () => setOpen(false);
  useClosing(isOpen, close);
  useEffect(() => {
    if (isOpen) sidebar.current?.querySelector<HTMLElement>("a[aria-current]")?.focus();
  }, [isOpen]);
  return (
    <>
      <header class="bar">
        <IconButton icon={Menu} label="Menu" onClick={() => setOpen(true)} />
        <span class="title grow" dir="auto">{parts[0] ?? "Headrace"}</span>
        <a class="button quiet" href="#/inbox" aria-label={inboxName(waiting)}>
          <Icon of={Inbox} size={20} />
          {waiting > 0 && <span class="count" aria-hidden="true">{shortened(waiting)}</span>}
        </a>
      </header>
      {isOpen && <div class="shade" onClick={close} />}
      <aside ref={sidebar} class={isOpen ? "sidebar is-open" : "sidebar"}>
        <a class="brand" href="#/">
          <Icon of={Waves} size={18} />
          headrace
        </a>
        <nav aria-label="Pages">
          {GROUPS.map(([heading, links]) => (
            <section key={heading}>
              {heading && <h2>{heading}</h2>}
              <ul>
                {links.filter(({ needs, isThere }) => (needs?.(access) ?? true) && (isThere?.(access) ?? true)).map((link) => (
                  <li key={link.to}>
                    <a href={link.to} aria-current={link.names.includes(name) ? "page" : undefined} onClick={close}>
                      <Icon of={link.icon} />
                      <span>{link.title}</span>
                      {link.to === "#/inbox" && waiting > 0 && <span class="count" title={inboxName(waiting)}>{shortened(waiting)}</span>}
                    </a>
                  </li>
                ))}
              </ul>
            </section>
          ))}
        </nav>
        <div class="sidebar-foot">
          <SignInButton />
          <span class="grow" />
          <IconButton icon={Keyboard} label="Keys" onClick={onKeys} />
          <ThemeButton />
        </div>
      </aside>
    </>
  );
}

function inboxName(waiting: number): string {
  if (waiting === 0) return "Inbox";
  return `Inbox, ${waiting === 1 ? "1 question waits" : `${waiting} questions wait`}`;
}

function shortened(count: number): string {
  return count > 99 ? "99+" : String(count);
}
