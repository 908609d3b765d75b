import { useState } from "preact/hooks";
import type { ComponentChildren } from "preact";

import { Confirm } from "../confirm";
import { postJson } from "../gateway";
import { useAccess } from "../operator";

const ENDED = ["COMPLETED", "FAILED", "CANCELED", "REJECTED"].map((name) => `TASK_STATE_${name}`);

interface Acted {
  agent: string;
  task: string;
  state: string;
}

/** A way to end a task. */
interface Ending {
  name: "cancel" | "fail";
  label: string;
  ask: () => void;
}

/**
 * Returns the ways to end a task, and the dialog of the one that is chosen: it is canceled by whoever
 * may see it, failed by operators.
 */
export function useEndings({ agent, task, state }: Acted): [Ending[], ComponentChildren] {
  const { isOperator } = useAccess();
  const [asks, setAsks] = useState<"" | "cancel" | "fail">("");
  if (!state || ENDED.includes(state)) return [[], null];
  const endings: Ending[] = [{ name: "cancel", label: "Cancel task", ask: () => setAsks("cancel") }];
  if (isOperator) endings.push({ name: "fail", label: "Fail task", ask: () => setAsks("fail") });
  const path = `v1/agents/${encodeURIComponent(agent)}/tasks/${encodeURIComponent(task)}`;
  const fail = (fields: FormData) => {
    const reason = String(fields.get("reason") ?? "").trim();
    return postJson(`${path}:fail`, reason ? { reason } : {});
  };
  const dialog = (
    <>
      {asks === "cancel" && (
        <Confirm title="Cancel this task?" action="Cancel task" onConfirm={() => postJson(`${path}:cancel`, {})} onClose={() => setAsks("")}>
          <p>The agent is stopped and may clean up.</p>
        </Confirm>
      )}
      {asks === "fail" && (
        <Confirm title="Fail this task?" action="Fail task" onConfirm={fail} onClose={() => setAsks("")}>
          <p>It ends at once, without its worker. Cancel it first, so that the agent can clean up.</p>
          <label>
            Reason, which clients see
            <input name="reason" maxLength={1000} placeholder="optional" autocomplete="off" />
          </label>
        </Confirm>
      )}
    </>
  );
  return [endings, dialog];
}
