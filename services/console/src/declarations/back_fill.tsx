import type { Json } from "../gateway";
import type { Field } from "./fields";
import { AskedAction, type Named } from "./pages";

const BACK_FILL: readonly Field[] = [
  { name: "from", label: "From", kind: "time", isRequired: true, hint: "In your time zone" },
  { name: "to", label: "To", kind: "time", isRequired: true, hint: "At the latest now; in your time zone" },
  { name: "overlap", label: "While the previous task has not ended", kind: "choice", options: ["skip", "queue", "replace"], hint: "queue by default" },
];

/** The form that has a schedule fire for times that are over. */
export function BackFill(named: Named) {
  const hint = "It fires for each of its times in this range for which it has not fired yet.";
  const resultOf = ({ firings }: Json) => `It fires for ${firings} ${firings === 1 ? "time" : "times"}.`;
  return <AskedAction {...named} action="backfill" verb="Back-fill" fields={BACK_FILL} hint={hint} resultOf={resultOf} />;
}
