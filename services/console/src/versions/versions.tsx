import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

import { Choice } from "../choice";
import { fetchJson } from "../gateway";
import { useLoaded } from "../loaded";
import { Table } from "../table";
import { nameOf, shareOf, type Version } from "./share";

const REFRESH = 3000;

interface Shown {
  agents: readonly string[];
  /** The actions on a version, for those who may take them; `reload` shows what they changed. */
  actionsOf?: (agent: string, version: Version, all: Version[], reload: () => void) => ComponentChildren;
}

/**
 * The versions of an agent: which new tasks each gets, and how many are open with it.
 *
 * One agent at a time, because each request of a caller who may not see them is audited.
 */
export function Versions({ agents, actionsOf }: Shown) {
  const [agent, setAgent] = useState("");
  return (
    <section class="part versions" aria-label="Agent versions">
      <h2>Agent versions</h2>
      <div class="filters">
        <Choice label="Versions of agent" none="Choose an agent" options={agents} chosen={agent} onChoose={setAgent} />
      </div>
      {agent && <VersionTable key={agent} agent={agent} {...(actionsOf ? { actionsOf } : {})} />}
    </section>
  );
}

function VersionTable({ agent, actionsOf }: Omit<Shown, "agents"> & { agent: string }) {
  const [round, setRound] = useState(0);
  const reload = () => setRound((count) => count + 1);
  const path = `v1/fleet/agents/${encodeURIComponent(agent)}/versions`;
  const { value, error } = useLoaded(path, (signal) => fetchJson(path, { signal }), round);
  // What was shown once is shown, and asked about, over an outage.
  const isRefused = error !== "" && value === null;
  useEffect(() => {
    if (isRefused) return;
    const timer = setInterval(reload, REFRESH);
    return () => clearInterval(timer);
  }, [isRefused]);
  if (!value) return error ? <p class="error" role="alert">{error}</p> : null;
  const all: Version[] = value["versions"];
  const heads = ["Version", "New tasks", "Open tasks", ...(actionsOf ? ["Action"] : []), "Workers"];
  return (
    <>
      {error && <p class="error" role="alert">{error}</p>}
      <Table title={`Versions of ${agent}`} heads={heads} empty="No version.">
        {all.map((version) => (
          <tr key={version.version}>
            <th scope="row">{nameOf(version)}</th>
            <td>{shareOf(version, all)}</td>
            <td>
              {version.openTasks ?? "unknown"}
              {version.continuedBy !== null && `, continued by ${nameOf({ version: version.continuedBy })}`}
            </td>
            {actionsOf && <td>{actionsOf(agent, version, all, reload)}</td>}
            <td class="soft">{version.workers.join(", ") || "none"}</td>
          </tr>
        ))}
      </Table>
    </>
  );
}
