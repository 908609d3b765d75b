import { useState } from "preact/hooks";

import { Confirm } from "../confirm";
import { postJson, type Json } from "../gateway";
import { toasts } from "../ui/toasts";
import { nameOf, retired, type Version } from "../versions/share";

interface Acted {
  agent: string;
  version: Version;
  all: Version[];
  onDone: () => void;
}

/** Buttons that route new tasks to a version, take them away from it, and retire it. */
export function VersionActions({ agent, version, all, onDone }: Acted) {
  const [asks, setAsks] = useState<"" | "route" | "rollback" | "retire">("");
  const name = nameOf(version);
  const post = async (action: string, body: object): Promise<Json> => {
    const answer = await postJson(`v1/fleet/agents/${encodeURIComponent(agent)}:${action}`, body);
    onDone();
    return answer;
  };
  const route = (fields: FormData) => {
    const percent = Number(fields.get("percent"));
    return post("route", { version: version.version, ...(percent < 100 ? { percent } : {}) });
  };
  const rollBack = (fields: FormData) => post("rollback", { move: fields.has("move") });
  // Its row goes with it, so that only this says what has become of its tasks.
  const retire = async (fields: FormData) => {
    const chosen = fields.get("moveTo");
    const to = chosen === null || chosen === "keep" ? {} : { moveTo: String(chosen).slice(1) };
    const { movedTasks } = await post("retire", { version: version.version, ...to });
    toasts.say(retired(version, movedTasks, to.moveTo));
  };
  const close = () => setAsks("");
  const getsNone = !version.current && !version.candidate;
  const isLatest = version.candidate !== null || (version.current && !all.some((one) => one.candidate));
  return (
    <>
      {!version.current && <Action verb="Route" name={name} onAsk={() => setAsks("route")} />}
      {isLatest && all.length > 1 && <Action verb="Roll back" name={name} onAsk={() => setAsks("rollback")} />}
      {getsNone && <Action verb="Retire" name={name} onAsk={() => setAsks("retire")} />}
      {asks === "route" && (
        <Confirm title={`Route new tasks of ${agent} to ${name}?`} action="Route" onConfirm={route} onClose={close}>
          <p>This concerns all tenants. Tasks that have begun stay with their version.</p>
          <label>
            Percent of the contexts; 100 makes it the current version
            <input name="percent" type="number" min={1} max={100} defaultValue={100} required />
          </label>
        </Confirm>
      )}
      {asks === "rollback" && (
        <Confirm title={`Take new tasks of ${agent} away from ${name}?`} action="Roll back" onConfirm={rollBack} onClose={close}>
          <p>This concerns all tenants. The previous version gets them.</p>
          <label class="check">
            <input name="move" type="checkbox" /> It also continues the tasks that {name} has begun
          </label>
        </Confirm>
      )}
      {asks === "retire" && (
        <Confirm title={`Retire version ${name} of ${agent}?`} action="Retire" onConfirm={retire} onClose={close}>
          <p>This concerns all tenants. It is refused while tasks are open with it, unless another version continues them.</p>
          <label>
            Open tasks
            <select name="moveTo">
              <option value="keep">stay: refuse if there are any</option>
              {all.filter((one) => one !== version).map((one) => (
                <option key={one.version} value={`=${one.version}`}>are continued by {nameOf(one)}</option>
              ))}
            </select>
          </label>
        </Confirm>
      )}
    </>
  );
}

function Action({ verb, name, onAsk }: { verb: string; name: string; onAsk: () => void }) {
  return (
    <>
      <button type="button" class="plain" aria-label={`${verb} ${name}`} onClick={onAsk}>
        {verb}
      </button>{" "}
    </>
  );
}
