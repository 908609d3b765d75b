import { Ban, CircleAlert, CircleCheck, CircleDashed, CircleHelp, CircleX, KeyRound, LoaderCircle } from "lucide";
import type { IconNode } from "lucide";

import { stateName } from "../task/timeline";
import { Icon } from "./icon";

const LOOKS: Record<string, [string, IconNode]> = {
  SUBMITTED: ["", CircleDashed],
  WORKING: ["busy", LoaderCircle],
  INPUT_REQUIRED: ["warn", CircleHelp],
  AUTH_REQUIRED: ["warn", KeyRound],
  COMPLETED: ["good", CircleCheck],
  FAILED: ["bad", CircleX],
  REJECTED: ["bad", CircleAlert],
  CANCELED: ["", Ban],
};

/** A task's state by its name, an icon and a colour. */
export function StateBadge({ state }: { state: string }) {
  const [look, icon] = LOOKS[state.replace("TASK_STATE_", "")] ?? ["", CircleDashed];
  return (
    <span class={`badge ${look}`}>
      <Icon of={icon} size={13} />
      {stateName(state)}
    </span>
  );
}
