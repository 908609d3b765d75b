"""Interrupts for the calls that an ADK agent waits for, and the user's answers to them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.adk.events import Event
from google.genai import types

from headrace.adapters.adk.session import as_response
from headrace.adapters.conversation.turns import CallItem, other_parts
from headrace.adapters.questions.answers import answers_of
from headrace.adapters.questions.approvals import Decision, decisions_of, question
from headrace.adapters.questions.response_schemas import conforming
from headrace.model import parts
from headrace.model.events import Json

CONFIRMATION = "adk_request_confirmation"
INPUT = "adk_request_input"
CREDENTIAL = "adk_request_credential"
FRAMEWORKS = frozenset({CONFIRMATION, CREDENTIAL})
"""Names of the calls with which ADK itself, not a model, sends requests to its client."""

_UNANSWERED = "The user did not answer."


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A call that waits for the client."""

    id: str
    """Id of the call to answer."""
    name: str
    """Name of that call: a long-running tool's, or one of ADK's own."""
    call: CallItem
    """The tool call that it concerns, as in the log."""
    hint: str = ""
    """The tool's hint for its approval, or its progress so far."""
    payload: Any = None
    """For an approval: the payload that the user is asked to fill in."""


@dataclass(frozen=True, slots=True)
class UserDecision:
    """The user's answer to the calls that wait."""

    content: types.Content
    """For ADK: a response to each call that waits or, if any ask for approval, to each of those."""
    results: types.Content | None = None
    """The other answers, if `content` is about approvals: ADK shows its model nothing of a message
    that contains approvals."""
    decisions: dict[str, Decision] = field(default_factory=dict)
    """Decisions on the tools that wait for approval, by call id."""
    extra: Sequence[Json] = ()
    """A2A Parts that the user sent in addition to the answers."""


def waiting_calls(events: Iterable[Event]) -> list[WaitingCall]:
    """Return the calls that wait for the client, in order."""
    waiting, replies = dict[str, WaitingCall](), dict[str, str]()
    for event in events:
        long_running = event.long_running_tool_ids or set()
        for call in event.get_function_calls():
            if call.id and call.id in long_running:
                waiting[call.id] = _waiting(call.id, call)
        for response in event.get_function_responses():
            if event.author == "user":
                waiting.pop(response.id or "", None)
            elif response.id in waiting:
                replies[response.id] = _short(response.response)
    return [
        WaitingCall(each.id, each.name, each.call, replies.get(each.id, each.hint), each.payload)
        for each in waiting.values()
    ]


def questions(
    waiting: Sequence[WaitingCall],
    from_client: Collection[str],
    within: float | None,
    tools: Mapping[str, Json],
) -> tuple[list[Json], list[str]]:
    """Return the interrupts to emit, and the ids of calls to client tools (`from_client`).

    `tools`: JSON Schemas of tools' arguments, by name.
    """
    asking = [each for each in waiting if each.name not in from_client]
    interrupts = [_interrupt_of(each, within, tools.get(each.call.name)) for each in asking]
    return interrupts, [each.call.id for each in waiting if each.name in from_client]


def answer_of(
    message: Sequence[Json],
    waiting: Sequence[WaitingCall],
    interrupts: Sequence[Json],
    from_client: Mapping[str, Json],
) -> UserDecision | None:
    """Return the message's answers to the calls that wait; None if no interrupt is answered.

    Args:
        message: The message's A2A Parts.
        waiting: The calls that wait.
        interrupts: The interrupts among them.
        from_client: Results of the client's tools, by call id.

    Raises:
        AnswerInvalid: An answer matches none of the requested schemas.
    """
    words = [part for part in message if parts.tool_result(part) is None]
    if interrupts and not words:
        return None
    approvals = [each for each in interrupts if each["reason"] == "tool_call"]
    decisions = decisions_of(words, approvals)
    answers = answers_of(words, [each["id"] for each in interrupts])
    schemas = {each["id"]: each.get("responseSchema") for each in interrupts}
    approving, responses = list[types.Part](), list[types.Part]()
    for each in waiting:
        call = each.call.id
        if each.name == CONFIRMATION:
            decided = decisions.get(call) or Decision(approved=False, reason=_UNANSWERED)
            response = _confirmation(decided, answers.get(call))
        elif call in from_client:
            response = from_client[call]
        else:
            response = _result(call, answers, schemas.get(call))
        answering = types.FunctionResponse(id=each.id, name=each.name, response=response)
        part = types.Part(function_response=answering)
        (approving if each.name == CONFIRMATION else responses).append(part)
    extra = other_parts(words) if interrupts else words
    results = types.Content(role="user", parts=responses) if responses else None
    if not approving:
        return UserDecision(results or types.Content(role="user"), None, decisions, extra)
    return UserDecision(types.Content(role="user", parts=approving), results, decisions, extra)


def _waiting(name: str, call: types.FunctionCall) -> WaitingCall:
    given = call.args or {}
    if call.name == CONFIRMATION:
        original = given.get("originalFunctionCall") or {}
        about = CallItem(
            original.get("id") or name, original.get("name") or "", original.get("args")
        )
        wanted = given.get("toolConfirmation") or {}
        return WaitingCall(
            name, CONFIRMATION, about, wanted.get("hint") or "", wanted.get("payload")
        )
    return WaitingCall(name, call.name or "", CallItem(name, call.name or "", given))


def _interrupt_of(waits: WaitingCall, within: float | None, arguments: Json | None) -> Json:
    call = waits.call
    if waits.name == CONFIRMATION:
        interrupt = question(call, {"hint": waits.hint} if waits.hint else None, within, arguments)
        if waits.payload is not None:
            schema = interrupt["responseSchema"]
            properties = {**schema["properties"], "payload": {"default": waits.payload}}
            interrupt["responseSchema"] = {**schema, "properties": properties}
        return interrupt
    interrupt = {"id": call.id, "reason": "input_required", "responseSchema": {}}
    if waits.name == INPUT:
        given = call.arguments
        schema = given.get("response_schema") or {}
        return {**interrupt, "message": str(given.get("message") or ""), "responseSchema": schema}
    message = f"The result of {call.name}({call.arguments_json})?"
    if waits.hint:
        message += f" So far: {waits.hint}"
    return {**interrupt, "toolCallId": call.id, "message": message}


def _confirmation(decided: Decision, answer: Any) -> Json:  # noqa: ANN401  # any JSON
    payload = answer.get("payload") if isinstance(answer, dict) else None
    confirmed: Json = {"confirmed": decided.approved}
    return confirmed if payload is None else {**confirmed, "payload": payload}


def _result(call: str, answers: Json, schema: Any) -> Json:  # noqa: ANN401  # any JSON
    if call not in answers:
        return {"error": _UNANSWERED}
    if answers[call] is None:
        return {"error": "The user cancelled it."}
    return as_response(conforming(call, answers[call], schema))


def _short(response: Json | None) -> str:
    result = (response or {}).get("result", response)
    return str(result or "")[:500]
