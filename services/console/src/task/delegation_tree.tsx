import { linkTo } from "../route";
import type { ChildTask } from "./delegation";
import { StateDot } from "./state_dot";
import { stateName } from "./timeline";

/** The tasks that a task has delegated, as a tree with their states. */
export function DelegationTree({ tasks }: { tasks: ChildTask[] }) {
  if (tasks.length === 0) return null;
  return (
    <section class="tree" aria-label="Delegated tasks">
      <Branch tasks={tasks} />
    </section>
  );
}

function Branch({ tasks }: { tasks: ChildTask[] }) {
  return (
    <ul>
      {tasks.map(({ task, agent, state, attempt, isGivenUp, children }) => (
        <li key={task}>
          <StateDot state={state} />
          <span class="name">{agent}</span> {agent ? <a class="mono" href={linkTo(["tasks", agent, task])}>{task}</a> : <span class="mono">{task}</span>}{" "}
          <span class="soft">
            {stateName(state)}
            {attempt > 1 && `, attempt ${attempt}`}
            {isGivenUp && ", given up"}
          </span>
          {children.length > 0 && <Branch tasks={children} />}
        </li>
      ))}
    </ul>
  );
}
