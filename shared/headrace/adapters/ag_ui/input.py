"""Conversion of a run into a RunAgentInput for an AG-UI agent."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ag_ui.core import PROTOCOL_VERSION, Message, RunAgentInput
from pydantic import TypeAdapter, ValidationError

from headrace.adapters.conversation.memory import Memory, RememberedConversation, remembered
from headrace.adapters.conversation.of_log import snapshot_of_logs
from headrace.adapters.conversation.turns import (
    CallItem,
    ReasoningItem,
    TextItem,
    Turn,
    other_parts,
)
from headrace.adapters.outside_context import outside_context
from headrace.adapters.questions.answers import AnswerInvalid, answers_of
from headrace.adapters.questions.approvals import decision_of, interrupts_before
from headrace.adapters.questions.response_schemas import conforming
from headrace.model import json_text, parts
from headrace.model.events import Json
from headrace.sdk.context import RunContext


def messages_of(turns: Iterable[Turn], base: Sequence[Json] = ()) -> list[Json]:
    """Return the turns as the messages that an AG-UI client of the agent would have.

    Each message has the id that the agent gave it. Calls without a result stay open. Answers to
    interrupts are not messages. The messages follow `base`, the messages that the agent has set.
    """
    messages = _UniqueMessages(base)
    for turn in turns:
        match turn.role:
            case "assistant":
                messages.respond(turn)
            case "tool":
                messages.add_result(turn)
            case "user" if turn.answers:
                if extra := other_parts(turn.parts):
                    messages.add(turn, {"role": "user", "content": _content(extra)})
            case "user":
                messages.add(turn, {"role": "user", "content": _content(turn.parts)})
            case _:
                messages.add(turn, {"role": "system", "content": turn.text})
    return messages.all


class _UniqueMessages:
    """The messages, each with a unique id."""

    def __init__(self, base: Sequence[Json]) -> None:
        self.all: list[Json] = [*base]
        self._ids: set[str] = {message["id"] for message in base}
        calls = (call for message in base for call in message.get("toolCalls") or ())
        self._calls: set[str] = {call["id"] for call in calls}

    def add(self, turn: Turn, message: Json, name: str = "") -> Json:
        """Add and return a message, with a unique id even if a client reuses ids."""
        wished = name or turn.id
        found, number = wished, 0
        while not found or found in self._ids:
            found, number = "-".join(filter(None, [wished, turn.task, f"{number}"])), number + 1
        self._ids.add(found)
        self.all.append({"id": found, **message})
        return self.all[-1]

    def add_result(self, turn: Turn) -> None:
        """Add a tool's result if the tool was called."""
        result = turn.result
        if result is None or result.id not in self._calls:
            return
        error = {"error": result.error} if result.error else {}
        fields = {"toolCallId": result.id, "content": json_text.as_text(result.content), **error}
        self.add(turn, {"role": "tool", **fields}, turn.origin)

    def respond(self, turn: Turn) -> None:
        """Add the agent's response."""
        messages: dict[str, Json] = {}
        last = ""
        for item in turn.items:
            match item:
                case ReasoningItem() if item.origin or not turn.run:
                    self._think(turn, item, messages)
                case TextItem() if not item.asks:
                    last = item.origin or item.id or turn.id
                    message = self._assistant_message(turn, last, messages)
                    message["content"] = message.get("content", "") + item.text
                case CallItem():
                    last = item.origin or last or turn.id or item.id
                    self._assistant_message(turn, last, messages).setdefault(
                        "toolCalls", []
                    ).append(_call(item))
                    self._calls.add(item.id)

    def _assistant_message(self, turn: Turn, name: str, messages: dict[str, Json]) -> Json:
        if name not in messages:
            messages[name] = self.add(turn, {"role": "assistant"}, name)
        return messages[name]

    def _think(self, turn: Turn, item: ReasoningItem, messages: dict[str, Json]) -> None:
        name = item.origin or item.id
        if name not in messages:
            sealed = {"encryptedValue": item.encrypted} if item.encrypted else {}
            messages[name] = self.add(turn, {"role": "reasoning", "content": "", **sealed}, name)
        messages[name]["content"] += item.text


def _call(call: CallItem) -> Json:
    function = {"name": call.name, "arguments": call.arguments_json}
    sealed = {"encryptedValue": call.encrypted} if call.encrypted else {}
    return {"id": call.id, "type": "function", "function": function, **sealed}


def _content(content: Sequence[Json]) -> str | list[Json]:
    if all("text" in part for part in content):
        return parts.text_of(content)
    return [_piece(part) for part in content]


def _piece(part: Json) -> Json:
    if "text" in part:
        return {"type": "text", "text": part["text"]}
    if "data" in part:
        return {"type": "text", "text": json_text.text(part["data"])}
    media = part.get("mediaType") or "application/octet-stream"
    family = media.partition("/")[0]
    kind = family if family in {"image", "audio", "video"} else "document"
    if "url" in part:
        source = {"type": "url", "value": part["url"], "mimeType": media}
    else:
        source = {"type": "data", "value": part["raw"], "mimeType": media}
    return {"type": kind, "source": source}


_HANDED_ON = ("tools", "context", "forwardedProps", "parentRunId")

_CANCELLED = "cancelled"

_MESSAGES: TypeAdapter[list[Message]] = TypeAdapter(list[Message])


async def run_input(ctx: RunContext, memory: Memory) -> Json:
    """Return the input of the AG-UI run for this run.

    Raises:
        AnswerInvalid: An answer to an interrupt does not match the requested schema.
        Retryable: The conversation can't be read now.
        LogLost: The log no longer exists.
        BusUnavailable: The bus does not answer.
    """
    interrupts = await interrupts_before(ctx) if ctx.run > 1 else []
    if ctx.run > 1 and memory == "none":
        # The agent's questions are needed to answer them.
        memory = "task"
    before = await remembered(ctx, memory)
    given = ctx.agui.get("state")
    body: Json = {
        "tools": [],
        "context": [],
        "forwardedProps": {},
        **{key: ctx.agui[key] for key in _HANDED_ON if ctx.agui.get(key) is not None},
        "state": before.state() if given is None else given,
        "threadId": outside_context(ctx, before.requested_by),
        "runId": f"{ctx.task}-{ctx.run}",
        "protocolVersion": PROTOCOL_VERSION,
        "messages": _messages(ctx, before),
    }
    if interrupts and ctx.checkpoint_data is None:
        # An earlier attempt with a checkpoint has passed the answers on already.
        body["resume"] = _resume(ctx, interrupts)
    valid = RunAgentInput.model_validate(body)
    whole: Json = valid.model_dump(mode="json", by_alias=True, exclude_none=True)
    return whole


def _messages(ctx: RunContext, before: RememberedConversation) -> list[Json]:
    """Return the messages that the agent has set, if any, and those since then.

    If an AG-UI client sent messages, they already include what the agent has set.
    """
    is_sent = ctx.agui.get("messages") and not ctx.agui.get("resume")
    base, covered = ([], []) if is_sent else snapshot_of_logs(before.logs)
    try:
        _MESSAGES.validate_python(base)
    except ValidationError as error:
        ctx.log.warning("the agent set an invalid conversation: %s", error)
        base, covered = [], []
    since = before.turns[len(covered) :]
    if covered and (last := before.turns[len(covered) - 1]).role == "assistant":
        # The agent may have continued the same response.
        more = last.items[len(covered[-1].items) :]
        since = [*([replace(last, items=more)] if more else []), *since]
    return messages_of(since, base)


def _resume(ctx: RunContext, interrupts: Sequence[Json]) -> list[Json]:
    """Return the answer to each of `interrupts`; those without an answer are cancelled.

    Raises:
        AnswerInvalid: An answer does not match its interrupt's schema, or the message contains only
            results of the client's tools.
    """
    sent = {entry["interruptId"]: entry for entry in ctx.agui.get("resume") or ()}
    content = [part for part in ctx.parts if parts.tool_result(part) is None]
    if not content and not sent:
        raise AnswerInvalid("some questions have no answer")
    answers = answers_of(content, [interrupt["id"] for interrupt in interrupts])
    cancelled = {
        parts.interrupt_id(part) for part in content if parts.resume_status(part) == _CANCELLED
    }
    resume: list[Json] = []
    for interrupt in interrupts:
        name = interrupt["id"]
        if (entry := sent.get(name)) is not None:
            if entry.get("status") != _CANCELLED:
                conforming(name, entry.get("payload"), interrupt.get("responseSchema"))
            resume.append(entry)
        elif name in answers and name not in cancelled:
            payload = _payload(interrupt, answers[name])
            resume.append({"interruptId": name, "status": "resolved", "payload": payload})
        else:
            resume.append({"interruptId": name, "status": _CANCELLED})
    return resume


def _payload(interrupt: Json, answer: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return an answer as the agent expects it; text may approve or refuse a call."""
    name, schema = interrupt["id"], interrupt.get("responseSchema") or {}
    if not isinstance(answer, str | bool) or "approved" not in (schema.get("properties") or {}):
        return conforming(name, answer, schema)
    decided = decision_of(answer, name)
    return {"approved": decided.approved, **({"reason": decided.reason} if decided.reason else {})}
