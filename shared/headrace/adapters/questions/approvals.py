"""Questions before and during tool calls: approvals and their decisions, and what a tool asks.

The question is an AG-UI Interrupt of the kind that AG-UI clients know as tool approval. A client
without interrupts answers with text: the words in `_YES` approve, all others refuse.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import BaseModel, Field, StrictBool, ValidationError

from headrace.adapters.conversation.turns import CallItem
from headrace.adapters.questions.answers import (
    AnswerInvalid,
    MemoryLost,
    answers_of,
    expiry,
    interrupts_in,
    is_expired,
)
from headrace.model import parts
from headrace.model.events import INPUT_SCHEMA, INTERRUPTS, PENDING_TOOL_CALLS, REFUSED, Json
from headrace.sdk.context import RunContext
from headrace.sdk.emit import InputRequired
from headrace.sdk.tool_call import ToolQuestion

_YES = frozenset({"yes", "y", "ok", "approve", "approved"})

_ANY_ARGUMENTS: Json = {"type": "object"}

SCHEMA: Json = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": _ANY_ARGUMENTS,
        "reason": {"type": "string"},
    },
    "required": ["approved"],
}

_TOLD = ("title", "description", "type", "enum")
"""What an approval tells people of each argument. References would lead out of its schema."""

TOOL_STATE = "headrace.tool"
"""Key in an interrupt's metadata: the state with which the tool goes on."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The user's decision on a call."""

    approved: bool
    arguments: Json | None = None
    """The arguments to call the tool with; None for the model's."""
    reason: str = ""
    """Why it was refused, for the model."""


class _Payload(BaseModel):
    """The answer to an approval."""

    approved: StrictBool
    edited_args: Json | None = Field(None, alias="editedArgs")
    reason: str | None = None


def question(
    call: CallItem,
    metadata: Json | None = None,
    within: float | None = None,
    arguments: Json | None = None,
) -> Json:
    """Return the interrupt that requests approval of `call`.

    Args:
        call: The call.
        metadata: The interrupt's metadata.
        within: Seconds after which it expires; None: never.
        arguments: JSON Schema of the tool's arguments, if it is known.
    """
    interrupt: Json = {
        "id": call.id,
        "reason": "tool_call",
        "toolCallId": call.id,
        "message": f"Approve {call.name}({call.arguments_json})?",
        "responseSchema": answer_schema(arguments),
    }
    if metadata:
        interrupt["metadata"] = metadata
    if within is not None:
        interrupt["expiresAt"] = expiry(within)
    return interrupt


def answer_schema(arguments: Json | None = None) -> Json:
    """Return the schema of answers; `editedArgs` has the titles and types of the `arguments`."""
    if arguments is None or (told := arguments_schema(arguments)) == _ANY_ARGUMENTS:
        return SCHEMA
    return {**SCHEMA, "properties": {**SCHEMA["properties"], "editedArgs": told}}


def arguments_schema(arguments: Json) -> Json:
    """Return the schema of a call's arguments with what people are told of each."""
    fields = arguments.get("properties")
    if not fields or not isinstance(fields, dict):
        return _ANY_ARGUMENTS
    told = {
        name: {key: field[key] for key in _TOLD if key in field}
        for name, field in fields.items()
        if isinstance(field, dict)
    }
    return {**_ANY_ARGUMENTS, "properties": told}


async def ask(
    ctx: RunContext, interrupts: Sequence[Json], pending: Iterable[str] = (), wrong: str = ""
) -> None:
    """End the run with interrupts and with calls that the client executes.

    Args:
        ctx: The run's context.
        interrupts: The interrupts.
        pending: Ids of the calls that the client executes.
        wrong: What is wrong with the last answer, if anything.
    """
    prompt = "\n".join(filter(None, [each.get("message") for each in interrupts]))
    schema = interrupts[0].get("responseSchema") if len(interrupts) == 1 else None
    await ctx.emit(InputRequired(prompt, schema, interrupts, list(pending), refused=wrong))


async def interrupts_before(ctx: RunContext) -> list[Json]:
    """Return the interrupts of the run before, which this run's message answers."""
    return interrupts_in(await ctx.load_events(), ctx.run)


async def ask_again(ctx: RunContext, wrong: AnswerInvalid | MemoryLost | None = None) -> None:
    """End the run with the interrupts of the run before, because its message does not answer them.

    That is so if an answer is `wrong`, if the framework can't be resumed with it, and if only
    results of the client's tools have arrived.
    """
    if isinstance(wrong, MemoryLost):
        ctx.log.warning("the answer was not used: %s", wrong)
    await ask(ctx, await interrupts_before(ctx), wrong=refusal(wrong) if wrong else "")


def repeated(question: Json, loss: MemoryLost) -> InputRequired:
    """Return the question of a status update once more, after an answer that was not used."""
    message, metadata = question["status"].get("message") or {}, question.get("metadata") or {}
    prompt = parts.text_of(message.get("parts", ())).removeprefix(f"{metadata.get(REFUSED)}\n")
    return InputRequired(
        prompt,
        (message.get("metadata") or {}).get(INPUT_SCHEMA),
        metadata.get(INTERRUPTS) or (),
        metadata.get(PENDING_TOOL_CALLS) or (),
        refused=refusal(loss),
    )


def refusal(wrong: AnswerInvalid | MemoryLost) -> str:
    """Return what the user is told of an answer that can't be used."""
    why = f"The answer was not used: {wrong}" if isinstance(wrong, MemoryLost) else str(wrong)
    return f"{why}."


def decisions_of(message: Sequence[Json], interrupts: Sequence[Json]) -> dict[str, Decision]:
    """Return the message's decision on each call of the interrupts, by call id.

    A call without an answer, or with an answer that comes too late, is refused.

    Raises:
        AnswerInvalid: An answer matches none of the requested schemas.
    """
    answers = answers_of(message, [interrupt["id"] for interrupt in interrupts])
    return {call_of(interrupt): _decided(interrupt, answers) for interrupt in interrupts}


def call_of(interrupt: Json) -> str:
    """Return the id of the call that an interrupt concerns."""
    return str(interrupt.get("toolCallId") or interrupt["id"])


def _decided(interrupt: Json, answers: Json) -> Decision:
    name = interrupt["id"]
    if is_expired(interrupt):
        return Decision(approved=False, reason="The approval came too late.")
    if name not in answers:
        return Decision(approved=False, reason="The user did not answer.")
    return decision_of(answers[name], name)


def decision_of(answer: Any, name: str) -> Decision:  # noqa: ANN401  # any JSON
    """Return the decision that `answer` makes on the interrupt `name`.

    Raises:
        AnswerInvalid: The answer matches none of the requested schemas.
    """
    match answer:
        case None:
            return Decision(approved=False, reason="The user cancelled it.")
        case bool():
            return Decision(approved=answer)
        case str():
            text = answer.strip()
            approved = text.lower().rstrip(".!") in _YES
            return Decision(approved=approved, reason="" if approved else text)
    try:
        given = _Payload.model_validate(answer)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False, include_context=False)
        found = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'answer'}: {e['msg']}" for e in wrong)
        raise AnswerInvalid(f"the answer to {name}: {found}") from None
    return Decision(
        given.approved, given.edited_args if given.approved else None, given.reason or ""
    )


class ToolAnswer(NamedTuple):
    """The user's answer to a tool's question."""

    state: Json
    answer: Any
    """None: the user cancelled, or did not answer."""


def interrupt_for(call: CallItem, question: ToolQuestion) -> Json:
    """Return the interrupt that asks the question of a call."""
    return {
        "id": call.id,
        "reason": "input_required",
        "toolCallId": call.id,
        "message": question.message,
        "responseSchema": question.schema,
        "metadata": {TOOL_STATE: question.state},
    }


def tool_answers(message: Sequence[Json], interrupts: Sequence[Json]) -> Mapping[str, ToolAnswer]:
    """Return the message's answers to those of `interrupts` that are tools' questions, by call."""
    asked = [one for one in interrupts if TOOL_STATE in (one.get("metadata") or {})]
    answers = answers_of(message, [str(one["id"]) for one in asked])
    return {
        call_of(one): ToolAnswer(one["metadata"][TOOL_STATE], _fitting(one, answers.get(one["id"])))
        for one in asked
    }


def _fitting(interrupt: Json, answer: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return the answer; a text is the only field of a form that has one."""
    fields = (interrupt.get("responseSchema") or {}).get("properties") or {}
    if isinstance(answer, str) and len(fields) == 1:
        return {next(iter(fields)): answer}
    return answer
