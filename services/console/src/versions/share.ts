/** A version of an agent, as the gateway says it. */
export interface Version {
  /** Empty: workers that pin no version. */
  version: string;
  current: boolean;
  candidate: { percent: number; tenants: string[]; headers: Record<string, string> } | null;
  workers: string[];
  /** null: task state does not answer. */
  openTasks: number | null;
  continuedBy: string | null;
}

/** Returns the name of a version. */
export function nameOf({ version }: { version: string }): string {
  return version || "not pinned";
}

/** Returns which of the agent's new tasks a version gets. */
export function shareOf({ current, candidate }: Version, all: readonly Version[]): string {
  if (candidate) return [shareOfContexts(candidate.percent), ...others(candidate)].filter(Boolean).join(", ") || "none";
  if (!current) return "none";
  const other = all.find((one) => one.candidate)?.candidate;
  if (!other) return "all";
  return [shareOfContexts(100 - other.percent), others(other).length > 0 ? "without the other's rules" : ""].filter(Boolean).join(", ");
}

/** Returns what the retirement of a version has done; its workers announce it again while they run. */
export function retired(version: Version, moved: number, to: string | undefined): string {
  const tasks = `${moved} open ${moved === 1 ? "task" : "tasks"}`;
  const continued = to === undefined || moved === 0 ? "" : `: version ${nameOf({ version: to })} continues ${tasks}`;
  const running = version.workers.length > 0 ? " Stop its workers, which still run." : "";
  return `Version ${nameOf(version)} is retired${continued}.${running}`;
}

function shareOfContexts(percent: number): string {
  return percent > 0 ? `${percent} % of contexts` : "";
}

function others({ tenants, headers }: NonNullable<Version["candidate"]>): string[] {
  const named = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return [...tenants.map((tenant) => `tenant ${tenant}`), ...named];
}
