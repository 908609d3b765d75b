"""What a graph asks its user, and the answers as the graph takes them.

Three kinds of questions are known, beside those of a graph's own making: the review of tool calls
by LangChain's HumanInTheLoopMiddleware, all calls of a response in one interrupt or one interrupt
for each, and a static breakpoint (``interrupt_before``, ``interrupt_after``). They are answered as
LangGraph's users do, or as AG-UI clients answer approvals, or in words.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from headrace.model.events import Json
from headrace_worker.adapters import approvals
from headrace_worker.adapters.answers import AnswerInvalid, is_expired
from headrace_worker.adapters.as_json import as_json
from headrace_worker.adapters.extras import needs

with needs("langgraph"):
    from langgraph.types import Interrupt

    from headrace_worker.adapters.response_schemas import checked, conforming

_WORDS = ("question", "message", "prompt", "text", "query", "description")
"""Keys under which an interrupt's value says what a person is to read."""
_BREAKPOINT = "breakpoint-"
"""What the id of a static breakpoint's interrupt begins with; the checkpoint's id follows."""

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
"""The decisions that the middleware knows, as JSON Schema."""


def question(interrupt: Interrupt, ends: str | None = None) -> Json:
    """Return an interrupt in AG-UI's words; it is open until `ends`."""
    value = as_json(interrupt.value)
    asked: Json = {"id": interrupt.id, "reason": "input_required", "message": _words(value)}
    if isinstance(value, dict):
        asked["metadata"] = {"value": value}
    if calls := _calls(interrupt):
        asked["reason"] = "tool_call"
        asked["message"] = "\n".join(map(_asks, calls))
    if isinstance(value, dict) and isinstance(call := value.get("tool_call_id"), str) and calls:
        asked["toolCallId"] = call
    if (schema := _schema(interrupt)) is not None:
        asked["responseSchema"] = schema
    return asked if ends is None else {**asked, "expiresAt": ends}


def breakpoint_question(checkpoint: str, nodes: Sequence[str], ends: str | None = None) -> Json:
    """Return what is asked where a graph has stopped before `nodes`, at a static breakpoint."""
    asked: Json = {
        "id": f"{_BREAKPOINT}{checkpoint}",
        "reason": "breakpoint",
        "message": f"Go on with {', '.join(nodes)}?",
        "responseSchema": approvals.SCHEMA,
        "metadata": {"next": [*nodes]},
    }
    return asked if ends is None else {**asked, "expiresAt": ends}


def is_breakpoint(asked: Json, checkpoint: str | None) -> bool:
    """Tell whether a question is that of the static breakpoint at a checkpoint."""
    return bool(checkpoint) and asked["id"] == f"{_BREAKPOINT}{checkpoint}"


def resuming(
    answers: Mapping[str, Any], asked: Sequence[Json], waiting: Iterable[Interrupt]
) -> dict[str, Any]:
    """Return with what the interrupts `waiting`, which `asked` asks, are resumed, by id.

    One that has expired is canceled. What is not answered goes on waiting.

    Raises:
        AnswerInvalid: an answer is none of what was asked for.
        TimeoutError: an interrupt has expired, and can't be resumed without an answer.
    """
    questions = {each["id"]: each for each in asked}
    given: dict[str, Any] = {}
    for interrupt in waiting:
        name = interrupt.id
        if is_expired(questions[name]):
            given[name] = _expired(interrupt)
        elif name in answers:
            given[name] = _given(interrupt, answers[name])
    return given


def decided(answers: Mapping[str, Any], asked: Json) -> approvals.Decision:
    """Return what an answer decides at a static breakpoint.

    Raises:
        AnswerInvalid: it is none.
    """
    name = asked["id"]
    if is_expired(asked):
        return approvals.Decision(approved=False, reason=_LATE)
    if name not in answers:
        raise AnswerInvalid(f"the answer to {name} is missing")
    given = answers[name]
    if isinstance(given, dict):
        given = checked({name: given}, [asked])[name]
    return approvals.decision_of(given, name)


def _given(interrupt: Interrupt, answer: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return an answer as the graph takes it."""
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
    """Return the decision on each call that a review is about."""
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
    """Return the tool calls that an interrupt of the middleware is about, else none."""
    match interrupt.value:
        case {"action_requests": list(calls), "review_configs": list(configs)}:
            allowed = {each["action_name"]: each["allowed_decisions"] for each in configs}
            return [{**call, "allowed": allowed.get(call["name"], [*_EACH])} for call in calls]
        case {"type": "tool_approval", "name": str(), "args": dict()}:
            return [{**interrupt.value, "allowed": _allowed(interrupt.response_schema)}]
    return []


def _allowed(schema: Any) -> list[str]:  # noqa: ANN401  # any JSON
    """Return the decisions that a schema of the middleware's knows."""
    said = orjson.dumps(as_json(schema)).decode() if isinstance(schema, dict) else ""
    return [each for each in _EACH if f'"{each}"' in said] or [*_EACH]


def _schema(interrupt: Interrupt) -> Json | None:
    """Return what answers may look like: a review's may be AG-UI's too."""
    schema = interrupt.response_schema
    calls = _calls(interrupt)
    if not calls:
        return schema if isinstance(schema, dict) else None
    native = _native(calls) if _is_batch(interrupt) else schema
    own = approvals.SCHEMA
    either = [{"required": own["required"]}, *([native] if isinstance(native, dict) else [])]
    definitions = native.get("$defs") if isinstance(native, dict) else None
    return {
        "type": "object",
        "properties": own["properties"],
        "anyOf": either,
        **({"$defs": definitions} if definitions else {}),
    }


def _native(calls: Sequence[Json]) -> Json:
    """Return what the middleware takes as the answer to a review of several calls."""
    decisions = [
        {"type": "object", "oneOf": [_kind(each) for each in call["allowed"]]} for call in calls
    ]
    whole: Json = {"type": "array", "prefixItems": decisions}
    whole |= {"minItems": len(calls), "maxItems": len(calls)}
    return {"type": "object", "properties": {"decisions": whole}, "required": ["decisions"]}


def _kind(decision: str) -> Json:
    known = _EACH.get(decision, {})
    return {**known, "properties": {**known.get("properties", {}), "type": {"const": decision}}}


def _asks(call: Json) -> str:
    if isinstance(said := call.get("description"), str) and said:
        return said
    return f"Approve {call['name']}({orjson.dumps(as_json(call['args'])).decode()})?"


def _words(value: Any) -> str:  # noqa: ANN401  # any JSON
    if isinstance(value, dict):
        found = next((value[key] for key in _WORDS if isinstance(value.get(key), str)), None)
        if found is not None:
            return str(found)
    return value if isinstance(value, str) else orjson.dumps(value).decode()
