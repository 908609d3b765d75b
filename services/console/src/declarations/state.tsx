/** Whether a trigger or schedule is active, and why it has ended. */
export function DeclaredState({ state, ended }: { state: string; ended?: string | null }) {
  return (
    <>
      <span class={state === "active" ? "dot good" : "dot"} aria-hidden="true" />
      {state}
      {ended && <span class="soft">: {ended}</span>}
    </>
  );
}
