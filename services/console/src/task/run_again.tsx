import { useState } from "preact/hooks";

import { postJson } from "../gateway";
import { linkTo, route } from "../route";
import { Dialog } from "../ui/dialog";
import type { Said } from "./result";

interface Asked {
  agent: string;
  said: Said;
  onClose: () => void;
}

/** Sends what a task was asked once more, edited or not: another task, in a context of its own. */
export function RunAgain({ agent, said, onClose }: Asked) {
  const [text, setText] = useState(said.text);
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  // One id for each task that is wanted: sent twice, it is begun once.
  const [messageId, setMessageId] = useState(() => crypto.randomUUID());
  const others = said.parts.filter((part) => part["text"] === undefined);
  const begin = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    const parts = [...(text.trim() ? [{ text }] : []), ...others];
    const body = { message: { messageId, role: "ROLE_USER", parts }, configuration: { returnImmediately: true } };
    try {
      const { task } = await postJson(`v1/agents/${encodeURIComponent(agent)}/message:send`, body);
      onClose();
      route.go(linkTo(["tasks", agent, task.id]));
    } catch (refused) {
      setError((refused as Error).message);
      setMessageId(crypto.randomUUID());
      setBusy(false);
    }
  };
  return (
    <Dialog title="Run again" onClose={onClose}>
      <form class="run-again" onSubmit={begin}>
        <label>
          Message to {agent}
          <textarea name="again" rows={6} value={text} autofocus onInput={({ currentTarget }) => setText(currentTarget.value)} />
        </label>
        {others.length > 0 && <p class="hint">With {others.length === 1 ? "its file" : `its ${others.length} files`}.</p>}
        {error && <p class="error" role="alert">{error}</p>}
        <div class="actions">
          <button type="button" class="plain" onClick={onClose}>Go back</button>
          <button type="submit" disabled={isBusy || !(text.trim() || others.length)}>Run</button>
        </div>
      </form>
    </Dialog>
  );
}
