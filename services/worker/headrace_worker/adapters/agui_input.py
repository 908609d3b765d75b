"""A leg as a RunAgentInput."""

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from headrace.events import Json
from headrace.interrupts import INTERRUPTS
from headrace.task import INPUT_REQUIRED
from headrace_worker.adapters.answers import INTERRUPT_ID, RESUME_STATUS, answers_of
from headrace_worker.adapters.extras import needs
from headrace_worker.context import RunContext
from headrace_worker.conversation import Turn, answered
from headrace_worker.remembering import Memory, conversation
from headrace_worker.tools import as_text

with needs("ag-ui"):
    from ag_ui.core import PROTOCOL_VERSION, RunAgentInput

_HANDED_ON = ("state", "tools", "context", "forwardedProps", "parentRunId")


async def run_input(ctx: RunContext, memory: Memory) -> Json:
    """Return the input of the run that stands for this leg.

    Raises:
        StateUnavailable: task state, which knows the conversation, does not answer.
    """
    sent = {key: ctx.agui[key] for key in _HANDED_ON if key in ctx.agui}
    interrupts = pending(await ctx.retell()) if ctx.leg > 1 else []
    asked: Json = {
        "state": {},
        "tools": [],
        "context": [],
        "forwardedProps": {},
        **sent,
        "threadId": ctx.context,
        "runId": f"{ctx.task}-{ctx.leg}",
        "protocolVersion": PROTOCOL_VERSION,
        "messages": [*messages_of(ctx, answered(await conversation(ctx, memory)))],
    }
    if interrupts:
        asked["messages"].pop()
        asked["resume"] = _resume(ctx.parts, interrupts)
    valid = RunAgentInput.model_validate(asked)
    whole: Json = valid.model_dump(mode="json", by_alias=True, exclude_none=True)
    return whole


def pending(log: Iterable[tuple[int, Json]]) -> list[str]:
    """Return the interrupts that the last question before this leg's input has asked."""
    found: list[str] = []
    for _, event in log:
        update = event.get("statusUpdate", {})
        if update.get("status", {}).get("state") == INPUT_REQUIRED:
            asked = update.get("metadata", {}).get(INTERRUPTS) or []
            found = [interrupt["id"] for interrupt in asked]
    return found


def messages_of(ctx: RunContext, turns: Sequence[Turn]) -> Iterable[Json]:
    """Yield the turns as AG-UI messages; their ids are the same in each run of the task."""
    for number, turn in enumerate(turns):
        named = {"id": f"{ctx.task}-{number}"}
        if turn.role == "tool" and turn.result is not None:
            result = turn.result
            error = {"error": result.error} if result.error else {}
            said = {"toolCallId": result.id, "content": as_text(result.content), **error}
            yield {**named, "role": "tool", **said}
        elif turn.role == "assistant":
            calls = [_call(call.id, call.name, call.arguments) for call in turn.calls]
            content = {"content": turn.text} if turn.text else {}
            yield {
                **named,
                "role": "assistant",
                **content,
                **({"toolCalls": calls} if calls else {}),
            }
        elif turn.role == "user":
            yield {**named, "role": "user", "content": _content(turn.parts)}
        else:
            yield {**named, "role": "system", "content": turn.text}


def _call(call: str, name: str, arguments: Any) -> Json:  # noqa: ANN401  # any JSON
    said = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    return {"id": call, "type": "function", "function": {"name": name, "arguments": said}}


def _content(said: Sequence[Json]) -> str | list[Json]:
    if all("text" in part for part in said):
        return "".join(part["text"] for part in said)
    return [_piece(part) for part in said]


def _piece(part: Json) -> Json:
    if "text" in part:
        return {"type": "text", "text": part["text"]}
    if "data" in part:
        return {"type": "text", "text": orjson.dumps(part["data"]).decode()}
    media = part.get("mediaType") or "application/octet-stream"
    family = media.partition("/")[0]
    kind = family if family in {"image", "audio", "video"} else "document"
    if "url" in part:
        source = {"type": "url", "value": part["url"], "mimeType": media}
    else:
        source = {"type": "data", "value": part["raw"], "mimeType": media}
    return {"type": kind, "source": source}


def _resume(said: Sequence[Json], interrupts: Sequence[str]) -> list[Json]:
    status = {
        part["metadata"][INTERRUPT_ID]: part["metadata"].get(RESUME_STATUS, "resolved")
        for part in said
        if INTERRUPT_ID in (part.get("metadata") or {})
    }
    return [
        {"interruptId": name, "status": status.get(name, "resolved"), "payload": payload}
        for name, payload in answers_of(said, interrupts).items()
    ]
