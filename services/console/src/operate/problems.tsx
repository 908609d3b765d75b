import { CircleCheck, TriangleAlert } from "lucide";

import type { Json } from "../gateway";
import { Icon } from "../ui/icon";
import { problemsOf } from "./unwell";

/** What is unwell, or that all is well. */
export function Problems({ state }: { state: Json }) {
  const problems = problemsOf(state);
  if (problems.length === 0) {
    return (
      <p class="banner good" role="status">
        <Icon of={CircleCheck} />
        Agents, workers, queues and streams are well.
      </p>
    );
  }
  return (
    <section class="part" aria-label="Needs attention">
      <h2>Needs attention</h2>
      <ul class="problem-list">
        {problems.map(({ subject, text, isBad }) => (
          <li key={`${subject} ${text}`} class={isBad ? "bad" : "warn"}>
            <Icon of={TriangleAlert} />
            <strong>{subject}</strong>
            <span>{text}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
