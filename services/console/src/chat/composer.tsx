import { useRef, useState } from "preact/hooks";

import type { Json } from "../gateway";
import { partOf } from "./files";

interface Writing {
  isRunning: boolean;
  onSend: (content: string | Json[]) => void;
}

/** Where a user writes: Enter sends, Shift+Enter begins a line; files are chosen, dropped or pasted. */
export function Composer({ isRunning, onSend }: Writing) {
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
      <div class="writing">
        <textarea
          ref={input}
          name="message"
          rows={2}
          aria-label="Message"
          placeholder={isRunning ? "Write to the running agent" : "Write a message"}
          onKeyDown={onKeyDown}
          onPaste={(event) => add(event.clipboardData?.files)}
        />
        <input ref={chooser} type="file" multiple hidden onChange={() => { add(chooser.current!.files); chooser.current!.value = ""; }} />
        <button type="button" class="plain" onClick={() => chooser.current!.click()}>
          Attach
        </button>
        <button type="submit">Send</button>
      </div>
    </form>
  );
}
