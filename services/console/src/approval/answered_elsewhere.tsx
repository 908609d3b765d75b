import { CircleCheck } from "lucide";

import { answersElsewhere } from "../inbox/answers_elsewhere";
import { useStore } from "../store";
import { copy } from "../ui/copy";
import { Icon } from "../ui/icon";
import { unsent } from "./unsent";

/** Characters of an answer that are said with it. */
const BRIEF = 120;

/** Who has answered the question that was open here, and when. */
export function AnsweredElsewhere({ task }: { task: string }) {
  const found = useStore(answersElsewhere).of(task);
  if (!found) return null;
  const { owner, time, outcome, isAnswer } = found;
  const at = <time dateTime={time}>{new Date(time).toLocaleTimeString()}</time>;
  const wrote = unsent.of(task);
  return (
    <div class="elsewhere" role="status">
      <Icon of={CircleCheck} />
      <span>
        {isAnswer ? <>Already answered by {owner || "somebody"} at {at}{outcome && `: ${outcome.slice(0, BRIEF)}`}</> : <>Nobody needs to answer: the task was {outcome} at {at}</>}
        {wrote && (
          <>
            <br />What you wrote was not sent: <q dir="auto">{wrote}</q>{" "}
            <button type="button" class="link" onClick={() => void copy(wrote)}>Copy it</button>
          </>
        )}
      </span>
    </div>
  );
}
