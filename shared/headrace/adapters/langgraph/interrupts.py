"""Interrupts of a graph, and the answers in the form that the graph expects.

In addition to a graph's own interrupts, three kinds are supported: the reviews of tool calls by
LangChain's HumanInTheLoopMiddleware, with one interrupt either for all calls of a response or for
each call, and static breakpoints (``interrupt_before``, ``interrupt_after``). Answers may have
LangGraph's format or that of AG-UI approvals, or be text.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langgraph.types import Interrupt

from headrace.adapters.as_json import as_json
from headrace.adapters.questions import approvals
from headrace.adapters.questions.answers import AnswerInvalid, is_expired
from headrace.adapters.questions.response_schemas import checked, conforming
from headrace.model import json_text
from headrace.model.events import Json

_WORDS = ("question", "message", "prompt", "text", "query", "description")
"""Keys of an interrupt's value that may contain the text for the user."""
_BREAKPOINT = "breakpoint-"
"""Prefix of the id of a static breakpoint's interrupt; the checkpoint's id follows."""

_LATE = "The answer came too late."
_EACH: dict[str, Json] = {
    "approve": {"required": ["type"]},
    "edit": {
        "properties": {
            "edited_action": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "args": {"type": "object"}},
                "required": ["name", "args"],
            }
        },
        "required": ["type", "edited_action"],
    },
    "reject": {"properties": {"message": {"type": "string"}}, "required": ["type"]},
    "respond": {"properties": {"message": {"type": "string"}}, "required": ["type", "message"]},
}
"""JSON Schemas of the decisions that the middleware accepts."""


def question(
    interrupt: Interrupt, ends: str | None = None, tools: Mapping[str, Json] | None = None
) -> Json:
    """Return an interrupt as an AG-UI Interrupt that expires at `ends`.

    `tools`: JSON Schemas of the graph's tools, by name.
    """
    value = as_json(interrupt.value)
    described: Json = {"id": interrupt.id, "reason": "input_required", "message": _words(value)}
    if isinstance(value, dict):
        described["metadata"] = {"value": value}
    if calls := _calls(interrupt):
        described["reason"] = "tool_call"
        described["message"] = "\n".join(map(_asks, calls))
    if isinstance(value, dict) and isinstance(call := value.get("tool_call_id"), str) and calls:
        described["toolCallId"] = call
    if (schema := _schema(interrupt, tools or {})) is not None:
        described["responseSchema"] = schema
    return described if ends is None else {**described, "expiresAt": ends}


def breakpoint_question(checkpoint: str, nodes: Sequence[str], ends: str | None = None) -> Json:
    """Return the AG-UI Interrupt for a static breakpoint before `nodes`."""
    interrupt: Json = {
        "id": f"{_BREAKPOINT}{checkpoint}",
        "reason": "breakpoint",
        "message": f"Continue with {', '.join(nodes)}?",
        "responseSchema": approvals.SCHEMA,
        "metadata": {"next": [*nodes]},
    }
    return interrupt if ends is None else {**interrupt, "expiresAt": ends}


def is_breakpoint(interrupt: Json, checkpoint: str | None) -> bool:
    """Return whether an AG-UI Interrupt is that of the static breakpoint at a checkpoint."""
    return bool(checkpoint) and interrupt["id"] == f"{_BREAKPOINT}{checkpoint}"


def resuming(
    answers: Mapping[str, Any], interrupts: Sequence[Json], waiting: Iterable[Interrupt]
) -> dict[str, Any]:
    """Return the values that resume the interrupts `waiting`, by id.

    An expired interrupt is cancelled. One without an answer stays open.

    Args:
        answers: The user's answers, by id.
        interrupts: The AG-UI Interrupts.
        waiting: The graph's interrupts.

    Raises:
        AnswerInvalid: An answer matches none of the requested schemas.
        TimeoutError: An interrupt has expired and can't be resumed without an answer.
    """
    questions = {each["id"]: each for each in interrupts}
    given: dict[str, Any] = {}
    for interrupt in waiting:
        name = interrupt.id
        if is_expired(questions[name]):
            given[name] = _expired(interrupt)
        elif name in answers:
            given[name] = _given(interrupt, answers[name])
    return given


def decided(answers: Mapping[str, Any], interrupt: Json) -> approvals.Decision:
    """Return the decision at a static breakpoint.

    Raises:
        AnswerInvalid: The answer is missing or does not match the requested schema.
    """
    name = interrupt["id"]
    if is_expired(interrupt):
        return approvals.Decision(approved=False, reason=_LATE)
    if name not in answers:
        raise AnswerInvalid(f"the answer to {name} is missing")
    given = answers[name]
    if isinstance(given, dict):
        given = checked({name: given}, [interrupt])[name]
    return approvals.decision_of(given, name)


def _given(interrupt: Interrupt, answer: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return an answer in the form that the graph expects."""
    calls = _calls(interrupt)
    if not calls:
        return conforming(interrupt.id, answer, interrupt.response_schema)
    decisions = _decisions(interrupt.id, answer, calls)
    if not _is_batch(interrupt):
        return conforming(interrupt.id, decisions[0], interrupt.response_schema)
    native = _native(calls)
    return conforming(interrupt.id, {"decisions": decisions}, native)


def _expired(interrupt: Interrupt) -> Any:  # noqa: ANN401  # what the graph takes
    if _calls(interrupt):
        refusal = {"approved": False, "reason": _LATE}
        try:
            return _given(interrupt, refusal)
        except AnswerInvalid as error:
            raise TimeoutError(_LATE) from error
    try:
        return conforming(interrupt.id, None, interrupt.response_schema)
    except AnswerInvalid as error:
        raise TimeoutError(_LATE) from error


def _decisions(name: str, answer: Any, calls: Sequence[Json]) -> list[Any]:  # noqa: ANN401  # any JSON
    """Return the decision on each call of a review."""
    match answer:
        case {"decisions": list(decisions)}:
            return decisions
        case {"type": str()}:
            return [answer] * len(calls)
        case list():
            return answer
    decision = approvals.decision_of(answer, name)
    if decision.arguments is not None and len(calls) > 1:
        raise AnswerInvalid(
            f"the answer to {name}: editedArgs: there are {len(calls)} calls; use decisions"
        )
    return [_decision(decision, call, words=isinstance(answer, str)) for call in calls]


def _decision(decided: approvals.Decision, call: Json, *, words: bool) -> Json:
    allowed = call["allowed"]
    if words and "respond" in allowed and not {"approve", "reject"} & set(allowed):
        return {"type": "respond", "message": decided.reason or "yes"}
    if not decided.approved:
        return {"type": "reject", **({"message": decided.reason} if decided.reason else {})}
    if decided.arguments is None:
        return {"type": "approve"}
    return {"type": "edit", "edited_action": {"name": call["name"], "args": decided.arguments}}


def _is_batch(interrupt: Interrupt) -> bool:
    return isinstance(interrupt.value, dict) and "action_requests" in interrupt.value


def _calls(interrupt: Interrupt) -> list[Json]:
    """Return the tool calls that an interrupt of the middleware reviews; empty for others."""
    match interrupt.value:
        case {"action_requests": list(calls), "review_configs": list(configs)}:
            allowed = {each["action_name"]: each["allowed_decisions"] for each in configs}
            return [{**call, "allowed": allowed.get(call["name"], [*_EACH])} for call in calls]
        case {"type": "tool_approval", "name": str(), "args": dict()}:
            return [{**interrupt.value, "allowed": _allowed(interrupt.response_schema)}]
    return []


def _allowed(schema: Any) -> list[str]:  # noqa: ANN401  # any JSON
    """Return the decisions that a schema of the middleware allows."""
    text = json_text.text(as_json(schema)) if isinstance(schema, dict) else ""
    return [each for each in _EACH if f'"{each}"' in text] or [*_EACH]


def _schema(interrupt: Interrupt, tools: Mapping[str, Json]) -> Json | None:
    """Return the schema of answers; a review also accepts AG-UI's format."""
    schema = interrupt.response_schema
    calls = _calls(interrupt)
    if not calls:
        return schema if isinstance(schema, dict) else None
    native = _native(calls, tools) if _is_batch(interrupt) else schema
    own = approvals.answer_schema(tools.get(calls[0]["name"]) if len(calls) == 1 else None)
    either = [{"required": own["required"]}, *([native] if isinstance(native, dict) else [])]
    definitions = native.get("$defs") if isinstance(native, dict) else None
    return {
        "type": "object",
        "properties": own["properties"],
        "anyOf": either,
        **({"$defs": definitions} if definitions else {}),
    }


def _native(calls: Sequence[Json], tools: Mapping[str, Json] | None = None) -> Json:
    """Return the schema of the middleware's own answer to a review of several calls.

    An edit has what the `tools` say of their arguments.
    """
    decisions = [
        {
            "type": "object",
            "oneOf": [_kind(each, (tools or {}).get(call["name"])) for each in call["allowed"]],
        }
        for call in calls
    ]
    whole: Json = {"type": "array", "prefixItems": decisions}
    whole |= {"minItems": len(calls), "maxItems": len(calls)}
    return {"type": "object", "properties": {"decisions": whole}, "required": ["decisions"]}


def _kind(decision: str, arguments: Json | None) -> Json:
    known = _EACH.get(decision, {})
    fields = {**known.get("properties", {}), "type": {"const": decision}}
    if arguments and (action := fields.get("edited_action")):
        told = {**action["properties"], "args": approvals.arguments_schema(arguments)}
        fields["edited_action"] = {**action, "properties": told}
    return {**known, "properties": fields}


def _asks(call: Json) -> str:
    description = call.get("description")
    # What the middleware says by itself has the arguments in Python's form.
    own = f"Tool execution requires approval\n\nTool: {call['name']}\nArgs: {call['args']}"
    if isinstance(description, str) and description and description != own:
        return description
    return f"Approve {call['name']}({json_text.text(as_json(call['args']))})?"


def _words(value: Any) -> str:  # noqa: ANN401  # any JSON
    if isinstance(value, dict):
        found = next((value[key] for key in _WORDS if isinstance(value.get(key), str)), None)
        if found is not None:
            return str(found)
    return json_text.as_text(value)
