import { ThumbsDown, ThumbsUp } from "lucide";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { useStore } from "../store";
import { Icon } from "../ui/icon";
import { toasts } from "../ui/toasts";
import { Feedback, type Opinion } from "./feedback";

/** Thumbs about an answer, with a comment on request. */
export function FeedbackView({ agent, task }: { agent: string; task: string }) {
  const feedback = useMemo(() => new Feedback(agent, task), [agent, task]);
  const { opinion, error } = useStore(feedback);
  const place = useRef<HTMLSpanElement>(null);
  const [asks, setAsks] = useState(false);
  // A long conversation has many answers; what was thought of one is asked for when it is seen.
  useEffect(() => {
    const seen = new IntersectionObserver(([entry]) => {
      if (!entry?.isIntersecting) return;
      seen.disconnect();
      void feedback.load();
    });
    // Its place in the line has no box of its own.
    seen.observe(place.current!.firstElementChild!);
    return () => seen.disconnect();
  }, [feedback]);
  const choose = (rating: "up" | "down") => {
    const isTaken = opinion.rating === rating;
    setAsks(!isTaken);
    void feedback.give(isTaken ? { rating: null, comment: "" } : { rating, comment: opinion.comment });
  };
  return (
    <span class="feedback" ref={place}>
      <Thumb rating="up" chosen={opinion.rating} onChoose={choose} />
      <Thumb rating="down" chosen={opinion.rating} onChoose={choose} />
      {opinion.rating && !asks && (
        <button type="button" class="quiet small" onClick={() => setAsks(true)}>
          {opinion.comment ? "Edit the comment" : "Comment"}
        </button>
      )}
      {error && <span class="error" role="alert">{error}</span>}
      {opinion.rating && asks && <Comment opinion={opinion} onClose={() => setAsks(false)} onGive={(one) => feedback.give(one)} />}
    </span>
  );
}

function Thumb({ rating, chosen, onChoose }: { rating: "up" | "down"; chosen: Opinion["rating"]; onChoose: (rating: "up" | "down") => void }) {
  const label = rating === "up" ? "Good answer" : "Bad answer";
  return (
    <button type="button" class="quiet icon small" name={rating} title={label} aria-label={label} aria-pressed={chosen === rating} onClick={() => onChoose(rating)}>
      <Icon of={rating === "up" ? ThumbsUp : ThumbsDown} size={14} />
    </button>
  );
}

interface Commented {
  opinion: Opinion;
  onGive: (opinion: Opinion) => Promise<void>;
  onClose: () => void;
}

const LONGEST = 1000;

function Comment({ opinion, onGive, onClose }: Commented) {
  const [comment, setComment] = useState(opinion.comment);
  const submit = async (event: Event) => {
    event.preventDefault();
    await onGive({ ...opinion, comment: comment.trim() });
    toasts.say("Saved with the task");
    onClose();
  };
  return (
    <form class="comment" onSubmit={submit}>
      <label>
        <span class="unseen">Comment</span>
        <input name="comment" maxLength={LONGEST} placeholder="What was good or bad? (optional)" value={comment} onInput={({ currentTarget }) => setComment(currentTarget.value)} autocomplete="off" />
      </label>
      <button type="submit">Save</button>
      <button type="button" class="quiet" onClick={onClose}>Close</button>
    </form>
  );
}
