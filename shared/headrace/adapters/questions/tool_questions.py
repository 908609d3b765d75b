"""Questions of tools: interrupts that name a call, whose answer the call goes on with."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headrace.adapters.conversation.turns import CallItem
from headrace.adapters.questions.answers import answers_of
from headrace.adapters.questions.approvals import call_of
from headrace.model.events import Json
from headrace.sdk.tool_call import ToolQuestion

STATE = "headrace.tool"
"""Key in an interrupt's metadata: the state with which the tool goes on."""


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
        "metadata": {STATE: question.state},
    }


def tool_answers(message: Sequence[Json], interrupts: Sequence[Json]) -> Mapping[str, ToolAnswer]:
    """Return the message's answers to those of `interrupts` that are tools' questions, by call."""
    asked = [one for one in interrupts if STATE in (one.get("metadata") or {})]
    answers = answers_of(message, [str(one["id"]) for one in asked])
    return {
        call_of(one): ToolAnswer(one["metadata"][STATE], _fitting(one, answers.get(one["id"])))
        for one in asked
    }


def _fitting(interrupt: Json, answer: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return the answer; a text is the only field of a form that has one."""
    fields = (interrupt.get("responseSchema") or {}).get("properties") or {}
    if isinstance(answer, str) and len(fields) == 1:
        return {next(iter(fields)): answer}
    return answer
