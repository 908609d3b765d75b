"""Answers of users to interrupts."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace import clock
from headrace.model import parts
from headrace.model.delegation import CHILD
from headrace.model.errors import HeadraceError
from headrace.model.events import INTERRUPTS, QUEUED, Json, timestamp
from headrace.model.task import INPUT_REQUIRED, SUBMITTED


class AnswerInvalid(HeadraceError):
    """An answer does not match the requested schema; the message names the field and the rule."""

    code = "answer_invalid"


class MemoryLost(HeadraceError):
    """The framework can't be resumed with an answer; the message says why, and the remedy.

    Nothing has used the answer, and no framework gets it as a prompt: the question stays open.
    """

    code = "memory_lost"


def expiry(within: float) -> str:
    """Return an interrupt's ``expiresAt``, `within` seconds from now."""
    ends = clock.now() + timedelta(seconds=within)
    return timestamp(ends)


def is_expired(interrupt: Json) -> bool:
    """Return whether an interrupt has expired."""
    try:
        ends = datetime.fromisoformat(interrupt.get("expiresAt") or "")
    except (TypeError, ValueError):
        return False
    return (ends if ends.tzinfo else ends.replace(tzinfo=UTC)) < clock.now()


def value_of(part: Json) -> Any:  # noqa: ANN401  # any JSON
    """Return a part's value: its data or its text; None if the user cancelled."""
    if parts.resume_status(part) == "cancelled":
        return None
    return part["data"] if "data" in part else part.get("text", "")


def answers_of(message: Sequence[Json], interrupts: Sequence[str]) -> Json:
    """Return the answer to each of `interrupts`, by id.

    A part that names its interrupt, as those of AG-UI clients do, answers that one. Data whose keys
    are ids of interrupts, as LangGraph users send it, answers these. Any other message answers all
    interrupts.
    """
    if named := {name: value_of(part) for part in message if (name := parts.interrupt_id(part))}:
        return named
    data = [part["data"] for part in message if "data" in part]
    answer = data[0] if len(data) == 1 else parts.text_of(message)
    if isinstance(answer, dict) and answer and answer.keys() <= set(interrupts):
        return answer
    return dict.fromkeys(interrupts, answer)


def interrupts_in(log: Iterable[tuple[int, Json]], run: int) -> list[Json]:
    """Return the interrupts of the run before `run`, which the input of `run` answers."""
    question = question_in(log, run)
    return [] if question is None else question.get("metadata", {}).get(INTERRUPTS) or []


def question_in(log: Iterable[tuple[int, Json]], run: int) -> Json | None:
    """Return the status update with which the run before `run` asked; None if it did not."""
    question: Json | None = None
    for generation, event in log:
        if generation >= run:
            break
        update = event.get("statusUpdate", {})
        state, metadata = update.get("status", {}).get("state"), update.get("metadata") or {}
        if CHILD in metadata or QUEUED in metadata:
            continue
        if state == INPUT_REQUIRED:
            question = update
        elif state == SUBMITTED:
            question = None
    return question
