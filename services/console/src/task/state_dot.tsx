const KINDS: Record<string, string> = {
  COMPLETED: "good",
  WORKING: "busy",
  SUBMITTED: "busy",
  INPUT_REQUIRED: "warn",
  AUTH_REQUIRED: "warn",
  FAILED: "bad",
  REJECTED: "bad",
};

/** A task's state as a colour, beside its name. */
export function StateDot({ state }: { state: string }) {
  return <span class={`dot ${KINDS[state.replace("TASK_STATE_", "")] ?? ""}`} aria-hidden="true" />;
}
