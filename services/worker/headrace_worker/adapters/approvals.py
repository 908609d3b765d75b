"""Tool calls that a person must approve: how they are asked for, and what was decided.

The question is an AG-UI Interrupt of the kind that AG-UI clients know as tool approval. A client
that knows nothing of interrupts answers in words: those in `_YES` approve, all else refuses.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field, StrictBool, ValidationError

from headrace.model.events import Json
from headrace.sdk.context import RunContext
from headrace.sdk.emit import InputRequired
from headrace_worker.adapters.answers import (
    AnswerInvalid,
    answers_of,
    expiry,
    is_expired,
)
from headrace_worker.conversation import CallItem

_YES = frozenset({"yes", "y", "ok", "approve", "approved"})

SCHEMA: Json = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object"},
        "reason": {"type": "string"},
    },
    "required": ["approved"],
}


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided on a call."""

    approved: bool
    arguments: Json | None = None
    """Those to call the tool with; None: the model's."""
    reason: str = ""
    """Why it was refused, for the model."""


class _Payload(BaseModel):
    """What answers an approval."""

    approved: StrictBool
    edited_args: Json | None = Field(None, alias="editedArgs")
    reason: str | None = None


def question(call: CallItem, metadata: Json | None = None, within: float | None = None) -> Json:
    """Return the interrupt that asks whether `call` may be carried out, `within` seconds."""
    asked: Json = {
        "id": call.id,
        "reason": "tool_call",
        "toolCallId": call.id,
        "message": f"Approve {call.name}({call.said})?",
        "responseSchema": SCHEMA,
    }
    if metadata:
        asked["metadata"] = metadata
    if within is not None:
        asked["expiresAt"] = expiry(within)
    return asked


async def ask(
    ctx: RunContext, asked: Sequence[Json], pending: Iterable[str] = (), wrong: str = ""
) -> None:
    """End the run with questions, and calls that the client is to carry out.

    `wrong` says what is the matter with the answer that came.
    """
    prompt = "\n".join(filter(None, [wrong, *(each.get("message") for each in asked)]))
    schema = asked[0].get("responseSchema") if len(asked) == 1 else None
    await ctx.emit(InputRequired(prompt, schema, asked, list(pending)))


def decisions_of(said: Sequence[Json], asked: Sequence[Json]) -> dict[str, Decision]:
    """Return what a message decides on each call that the interrupts `asked` ask for, by its id.

    A call that it does not speak of, or speaks of too late, is refused.

    Raises:
        AnswerInvalid: an answer is of none of the shapes that were asked for.
    """
    answers = answers_of(said, [interrupt["id"] for interrupt in asked])
    return {call_of(interrupt): _decided(interrupt, answers) for interrupt in asked}


def call_of(interrupt: Json) -> str:
    """Return the id of the call that an interrupt is about."""
    return str(interrupt.get("toolCallId") or interrupt["id"])


def _decided(interrupt: Json, answers: Json) -> Decision:
    name = interrupt["id"]
    if is_expired(interrupt):
        return Decision(approved=False, reason="The approval came too late.")
    if name not in answers:
        return Decision(approved=False, reason="The user did not answer.")
    return decision_of(answers[name], name)


def decision_of(answer: Any, name: str) -> Decision:  # noqa: ANN401  # any JSON
    """Return what `answer` decides on the interrupt `name`.

    Raises:
        AnswerInvalid: it is of none of the shapes that were asked for.
    """
    match answer:
        case None:
            return Decision(approved=False, reason="The user cancelled it.")
        case bool():
            return Decision(approved=answer)
        case str():
            said = answer.strip()
            approved = said.lower().rstrip(".!") in _YES
            return Decision(approved=approved, reason="" if approved else said)
    try:
        given = _Payload.model_validate(answer)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False, include_context=False)
        told = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'answer'}: {e['msg']}" for e in wrong)
        raise AnswerInvalid(f"the answer to {name}: {told}") from None
    return Decision(
        given.approved, given.edited_args if given.approved else None, given.reason or ""
    )
