import { linkTo } from "../route";
import type { ChildTask } from "./delegation";
import { StateDot } from "./state_dot";
import { stateName } from "./timeline";

/** The tasks that a task has delegated, as a tree with their states. */
export function DelegationTree({ tasks }: { tasks: ChildTask[] }) {
  if (tasks.length === 0) return null;
  return (
    <section class="tree" aria-label="Delegated tasks">
      <h2>Delegated tasks</h2>
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
          {agent ? <a class="name" href={linkTo(["tasks", agent, task])}>{agent}</a> : <span class="name">child task</span>}{" "}
          <span class="mono soft id">{task}</span>{" "}
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
