import { Archive, ArchiveRestore, Ellipsis, MessagesSquare, Pencil, Search, SquarePen, Trash2 } from "lucide";
import { useEffect, useRef, useState } from "preact/hooks";

import { Confirm } from "../confirm";
import { linkTo } from "../route";
import { useStore } from "../store";
import { EmptyState } from "../ui/empty_state";
import { Icon } from "../ui/icon";
import { Menu, MenuItem } from "../ui/menu";
import { Skeleton } from "../ui/skeleton";
import { toasts } from "../ui/toasts";
import { briefly, wordsOf, type Thread, type Threads } from "./threads";

interface Listed {
  threads: Threads;
  /** The thread that is open. */
  current: string;
  newThread: string;
  /** Called when the open thread is deleted. */
  onGone: () => void;
}

/** The user's threads: search, open, rename, archive and delete them. */
export function ThreadList({ threads, current, newThread, onGone }: Listed) {
  const { all, total, error, isLoading, search, isArchived } = useStore(threads);
  return (
    <>
      <div class="threads-head">
        <h2>Threads</h2>
        <a class="button quiet icon" href={newThread} aria-label="New chat" title="New chat">
          <Icon of={SquarePen} />
        </a>
      </div>
      <SearchField onFind={(words) => threads.find(words)} />
      {error && <p class="error" role="alert">{error}</p>}
      {isLoading && <Skeleton lines={6} label="Threads are loading" />}
      {!isLoading && !error && all.length === 0 && (
        <EmptyState icon={MessagesSquare} title={search ? "No thread has these words" : isArchived ? "Nothing is archived" : "No thread yet"}>
          {!search && !isArchived && "Write to an agent; the conversation is listed here."}
        </EmptyState>
      )}
      <ul class="threads" aria-label="Threads">
        {all.map((thread) => <ThreadRow key={thread.id} thread={thread} threads={threads} isCurrent={thread.id === current} onGone={onGone} />)}
      </ul>
      {total > all.length && (
        <button type="button" class="quiet small" onClick={() => threads.more()}>
          Show more of {total.toLocaleString()}
        </button>
      )}
      <span class="grow" />
      <button type="button" class="quiet small" aria-pressed={isArchived} onClick={() => threads.showArchived(!isArchived)}>
        <Icon of={Archive} size={14} /> {isArchived ? "Back to all threads" : "Archived threads"}
      </button>
    </>
  );
}

/** Milliseconds that a user may rest while typing. */
const REST = 250;

function SearchField({ onFind }: { onFind: (words: string) => void }) {
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const onInput = (words: string) => {
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => onFind(words.trim()), REST);
  };
  return (
    <label class="search">
      <span class="unseen">Search in threads</span>
      <Icon of={Search} />
      <input type="search" name="thread-search" placeholder="Search" maxLength={200} onInput={({ currentTarget }) => onInput(currentTarget.value)} />
    </label>
  );
}

interface Row {
  thread: Thread;
  threads: Threads;
  isCurrent: boolean;
  onGone: () => void;
}

function ThreadRow({ thread, threads, isCurrent, onGone }: Row) {
  const [asks, setAsks] = useState<"" | "rename" | "delete">("");
  const { id, agents, title, text, waiting, unread, archived, changed, state } = thread;
  const failed = (reason: Error) => {
    toasts.fail(reason.message);
    void threads.load();
  };
  const archive = (wanted: boolean): Promise<void> => threads.change(thread, { archived: wanted }).catch(failed);
  const isWorking = /_(WORKING|SUBMITTED)$/.test(state);
  return (
    <li class={unread && !isCurrent ? "is-unread" : ""}>
      <a href={linkTo(["chat", agents[0] ?? "", id])} aria-current={isCurrent ? "page" : undefined}>
        <span class="thread-title" dir="auto">{wordsOf(title) || "Untitled"}</span>
        <span class="thread-time">{briefly(changed)}</span>
        <span class="thread-text" dir="auto">
          {waiting && <span class="dot warn" aria-hidden="true" />}
          {isWorking && <span class="dot busy" aria-hidden="true" />}
          {waiting ? "Waits for you" : isWorking ? "Working" : wordsOf(text) || agents.join(", ")}
        </span>
        {unread && !isCurrent && <span class="unseen">, unread</span>}
      </a>
      <Menu class="quiet icon small" name={`More about ${title || "this thread"}`} label={<Icon of={Ellipsis} size={14} />}>
        {(close) => (
          <>
            <MenuItem onChoose={() => { close(); setAsks("rename"); }}><Icon of={Pencil} /> Rename</MenuItem>
            <MenuItem onChoose={() => { close(); void archive(!archived).then(() => toasts.say(archived ? "Back in the list" : "Archived", () => archive(archived))); }}>
              <Icon of={archived ? ArchiveRestore : Archive} /> {archived ? "Take out of the archive" : "Archive"}
            </MenuItem>
            <MenuItem isDangerous onChoose={() => { close(); setAsks("delete"); }}><Icon of={Trash2} /> Delete</MenuItem>
          </>
        )}
      </Menu>
      {asks === "rename" && (
        <Confirm title="Rename the thread" action="Rename" onConfirm={(fields) => threads.change(thread, { title: String(fields.get("title")).trim() })} onClose={() => setAsks("")}>
          <label>
            Title
            <input name="title" required maxLength={200} defaultValue={title} autocomplete="off" />
          </label>
        </Confirm>
      )}
      {asks === "delete" && (
        <Confirm title="Delete this thread?" action="Delete" onConfirm={async () => { await threads.remove(thread); if (isCurrent) onGone(); }} onClose={() => setAsks("")}>
          <p>Its tasks, their logs and files are erased. This can't be taken back.</p>
        </Confirm>
      )}
    </li>
  );
}
