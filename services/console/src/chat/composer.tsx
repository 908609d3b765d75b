import { CircleHelp, Paperclip, SendHorizontal, Square } from "lucide";
import { useRef, useState } from "preact/hooks";

import type { Json } from "../gateway";
import { Icon } from "../ui/icon";
import { IconButton } from "../ui/icon_button";
import { drafts } from "./drafts";
import { partOf } from "./files";

interface Writing {
  agent: string;
  thread: string;
  isRunning: boolean;
  /** Whether the agent has asked something. */
  isAsked: boolean;
  onSend: (content: string | Json[]) => void;
  onStop: () => void;
}

/** Where a user writes: Enter sends, Shift+Enter begins a line; files are chosen, dropped or pasted. */
export function Composer({ agent, thread, isRunning, isAsked, onSend, onStop }: Writing) {
  const [files, setFiles] = useState<File[]>([]);
  const input = useRef<HTMLTextAreaElement>(null);
  const chooser = useRef<HTMLInputElement>(null);

  const add = (list: FileList | null | undefined) => {
    if (list?.length) setFiles((known) => [...known, ...list]);
  };
  const submit = async (event?: Event) => {
    event?.preventDefault();
    const text = input.current!.value.trim();
    if (!text && files.length === 0) return;
    input.current!.value = "";
    drafts.keep(thread, "");
    setFiles([]);
    if (files.length === 0) return onSend(text);
    const parts = await Promise.all(files.map(partOf));
    onSend([...(text ? [{ type: "text", text }] : []), ...parts]);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    void submit();
  };

  return (
    <form
      class="composer"
      onSubmit={submit}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        add(event.dataTransfer?.files);
      }}
    >
      {files.length > 0 && (
        <ul class="chosen" aria-label="Files to send">
          {files.map((file, at) => (
            <li key={at}>
              {file.name}
              <button type="button" class="quiet small" onClick={() => setFiles(files.filter((one) => one !== file))}>
                <span aria-hidden="true">×</span>
                <span class="unseen">Remove {file.name}</span>
              </button>
            </li>
          ))}
        </ul>
      )}
      {isAsked && (
        <p class="waiting-line" role="status">
          <Icon of={CircleHelp} size={14} /> {agent} waits for your answer.
        </p>
      )}
      <div class="writing">
        <textarea
          ref={input}
          name="message"
          dir="auto"
          rows={2}
          aria-label="Message"
          placeholder={isAsked ? "Answer above, or write something else" : isRunning ? "Write while it works" : "Write a message"}
          defaultValue={drafts.of(thread)}
          onInput={({ currentTarget }) => drafts.keep(thread, currentTarget.value)}
          onKeyDown={onKeyDown}
          onPaste={(event) => add(event.clipboardData?.files)}
        />
        <input ref={chooser} type="file" multiple hidden onChange={() => { add(chooser.current!.files); chooser.current!.value = ""; }} />
        <IconButton icon={Paperclip} label="Attach files" onClick={() => chooser.current!.click()} />
        {isRunning && (
          <button type="button" class="plain" name="stop" onClick={onStop}>
            <Icon of={Square} size={12} /> Stop
          </button>
        )}
        <button type="submit">
          <Icon of={SendHorizontal} size={14} /> Send
        </button>
      </div>
    </form>
  );
}
