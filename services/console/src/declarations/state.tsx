const DOTS: Record<string, string> = { active: "good", "has a problem": "bad" };

/** Whether a trigger or schedule is active, and why it has ended or begins no tasks at the moment. */
export function DeclaredState({ state, why }: { state: string; why?: string | null }) {
  return (
    <>
      <span class={`dot ${DOTS[state] ?? ""}`} aria-hidden="true" />
      {state}
      {why && <span class="soft">: {why}</span>}
    </>
  );
}
