import { useState } from "preact/hooks";

import { Confirm } from "../confirm";
import { postJson } from "../gateway";
import { useAccess } from "../operator";

const ENDED = ["COMPLETED", "FAILED", "CANCELED", "REJECTED"].map((name) => `TASK_STATE_${name}`);

interface Acted {
  agent: string;
  task: string;
  state: string;
}

/** Buttons that end a task: canceled by whoever may see it, failed by operators. */
export function TaskActions({ agent, task, state }: Acted) {
  const { isOperator } = useAccess();
  const [asks, setAsks] = useState<"" | "cancel" | "fail">("");
  if (ENDED.includes(state)) return null;
  const path = `v1/agents/${encodeURIComponent(agent)}/tasks/${encodeURIComponent(task)}`;
  const fail = (fields: FormData) => {
    const reason = String(fields.get("reason") ?? "").trim();
    return postJson(`${path}:fail`, reason ? { reason } : {});
  };
  return (
    <>
      <button type="button" class="plain" name="cancel" onClick={() => setAsks("cancel")}>
        Cancel task
      </button>
      {isOperator && (
        <button type="button" class="plain" name="fail" onClick={() => setAsks("fail")}>
          Fail task
        </button>
      )}
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
}
