"""The parts that an agent's output is made of: building them, and reading what others built.

Parts are A2A v1.0 Parts in ProtoJSON whose metadata says, under keys ``agui_*``, what a user
interface is to make of them; a client that knows nothing of that loses nothing. The keys are those
of the metadata schema that A2A agents with AG-UI support share, and three of our own: a block's
end, a partial tool call, and the child run that a relayed part belongs to.
"""

import secrets
from base64 import b64encode
from collections.abc import Iterable
from typing import Any, NamedTuple

from headrace.model.events import Json

EVENT_TYPE = "agui_event_type"
"""`CONTENT_BLOCK`, `THINKING`, `TOOL_CALL`, `TASK` or `ERROR`."""

BLOCK_TYPE = "agui_block_type"
"""``text``, ``thinking`` or ``code``."""

BLOCK_ID = "agui_block_id"

BLOCK_INDEX = "agui_block_index"
"""Position among the blocks of one run, from 0."""

BLOCK_END = "agui_block_end"
"""True on a block's last part. A block without one ends with its run."""

PARTIAL = "agui_partial"
"""True on a text part that is a piece of a tool call's arguments."""

TOOL_CALL_ID = "agui_tool_call_id"

TOOL_NAME = "agui_tool_name"

IS_ERROR = "agui_is_error"
"""On tool results only, where it tells them from calls: whether the tool failed."""

SUBAGENT_RUN_ID = "agui_subagent_run_id"
"""Which delegated run a relayed part belongs to."""

CONTENT_BLOCK = "content_block"

THINKING = "thinking"

TOOL_CALL = "tool_call"

TASK = "task"

ERROR = "error"

STATE_SNAPSHOT = "state_snapshot"
"""Event type of a data part that holds the whole state."""

STATE_DELTA = "state_delta"
"""Event type of a data part that holds a JSON Patch (RFC 6902) of the state."""

MESSAGES_SNAPSHOT = "messages_snapshot"
"""Event type of a data part that holds the whole conversation, a list of AG-UI Messages."""

ACTIVITY_SNAPSHOT = "activity_snapshot"
"""Event type of a data part that holds an activity's content; its block id names the activity."""

ACTIVITY_DELTA = "activity_delta"
"""Event type of a data part that holds a JSON Patch of an activity's content."""

STEP_STARTED = "step_started"

STEP_FINISHED = "step_finished"
"""Event types of parts whose `STEP_NAME` says which step."""

SUBAGENT_STARTED = "subagent_started"

SUBAGENT_FINISHED = "subagent_finished"
"""Event types of data parts that say which agent of the task's own process goes on with the task:
``id`` and ``name``, at its end also ``outcome`` (``success`` or ``suspended``)."""

USAGE = "usage"
"""Event type of a data part that holds one AG-UI TokenUsage."""

CUSTOM = "custom"
"""Event type of a data part that holds any value, named by `CUSTOM_NAME`."""

RAW = "raw"
"""Event type of a data part that holds another system's event, from `SOURCE`."""

ACTIVITY_TYPE = "agui_activity_type"

STEP_NAME = "agui_step_name"

CUSTOM_NAME = "agui_custom_name"

SOURCE = "agui_source"

ENCRYPTED_VALUE = "agui_encrypted_value"
"""On text, thinking and tool calls: what a provider wants back with the message, opaque."""

SIGNATURE = "agui_signature"
"""On thinking: another name of `ENCRYPTED_VALUE`."""

TITLE = "agui_title"
"""On thinking: what a user interface may put above it."""

INTERRUPT_ID = "agui_interrupt_id"
"""On a user's part that answers an interrupt: the interrupt's id."""

RESUME_STATUS = "agui_resume_status"
"""Beside `INTERRUPT_ID`: ``resolved`` or ``cancelled``."""


def mint_id(kind: str) -> str:
    """Return a random id such as ``block-3f9a1c0b`` for what was given none."""
    return f"{kind}-{secrets.token_hex(4)}"


def text_part(
    text: str,
    block_id: str = "",
    block_index: int = 0,
    *,
    block_type: str = "text",
    end: bool = False,
) -> Json:
    """Return a piece of a content block; without `block_id`, of a block of its own."""
    metadata = _block(CONTENT_BLOCK, block_type, block_id or mint_id("block"), block_index)
    return {"text": text, "metadata": _ended(metadata, end=end)}


def thinking_part(  # by keyword
    text: str,
    block_id: str = "",
    block_index: int = 0,
    *,
    title: str = "",
    encrypted: str = "",
    end: bool = False,
) -> Json:
    """Return a piece of the agent's reasoning; without `block_id`, of a block of its own.

    `encrypted` is what a provider wants back with it, opaque to everybody else.
    """
    metadata = _block(THINKING, THINKING, block_id or mint_id("think"), block_index)
    if title:
        metadata["title"] = title
    return {"text": text, "metadata": _ended(_sealed(metadata, encrypted), end=end)}


def tool_call_part(
    name: str,
    arguments: Any,  # noqa: ANN401  # any JSON
    call_id: str = "",
    *,
    encrypted: str = "",
) -> Json:
    """Return a whole tool call; `arguments` are JSON, `call_id` is minted where empty."""
    call_id = call_id or mint_id("call")
    return {
        "data": {"id": call_id, "name": name, "arguments": arguments},
        "metadata": _sealed(_tool(call_id, name), encrypted),
    }


def tool_arguments_part(
    delta: str, call_id: str, name: str = "", *, encrypted: str = "", end: bool = False
) -> Json:
    """Return a piece of a tool call's arguments, which are JSON text once put together."""
    metadata = {**_tool(call_id, name), PARTIAL: True}
    return {"text": delta, "metadata": _ended(_sealed(metadata, encrypted), end=end)}


def tool_result_part(call_id: str, content: Any, error: str = "") -> Json:  # noqa: ANN401  # any JSON
    """Return what a tool answered; `error` is empty where it did not fail."""
    return {
        "data": {"tool_call_id": call_id, "content": content, "error": error},
        "metadata": {EVENT_TYPE: TOOL_CALL, TOOL_CALL_ID: call_id, IS_ERROR: bool(error)},
    }


def file_part(content: bytes, filename: str = "", media_type: str = "") -> Json:
    """Return a file by its content."""
    return _described({"raw": b64encode(content).decode()}, filename, media_type)


def link_part(url: str, filename: str = "", media_type: str = "") -> Json:
    """Return a file by its address."""
    return _described({"url": url}, filename, media_type)


def data_part(data: Any, media_type: str = "") -> Json:  # noqa: ANN401  # any JSON
    """Return structured data."""
    return _described({"data": data}, "", media_type)


def notice_part(text: str, kind: str = TASK) -> Json:
    """Return a word on how the work goes (`TASK`), or on why it ended (`ERROR`)."""
    return {"text": text, "metadata": {EVENT_TYPE: kind}}


def state_part(state: Any) -> Json:  # noqa: ANN401  # any JSON
    """Return the whole state that the agent shares with its user interface."""
    return _hinted(state, STATE_SNAPSHOT)


def state_delta_part(patch: list[Json]) -> Json:
    """Return a change of that state, a JSON Patch (RFC 6902)."""
    return _hinted(patch, STATE_DELTA)


def messages_part(messages: list[Json]) -> Json:
    """Return the whole conversation, AG-UI Messages: what a client holds becomes this."""
    return _hinted(messages, MESSAGES_SNAPSHOT)


def activity_part(activity_type: str, content: Json, activity_id: str = "") -> Json:
    """Return structured content that a user interface shows by its type; it replaces what it was.

    Without `activity_id` it is an activity of its own.
    """
    named = {ACTIVITY_TYPE: activity_type, BLOCK_ID: activity_id or mint_id("activity")}
    return _hinted(content, ACTIVITY_SNAPSHOT, named)


def activity_delta_part(patch: list[Json], activity_id: str) -> Json:
    """Return a change of an activity's content, a JSON Patch."""
    return _hinted(patch, ACTIVITY_DELTA, {BLOCK_ID: activity_id})


def step_part(name: str, *, finished: bool = False) -> Json:
    """Return that a step of the work begins, or ends."""
    return _hinted({}, STEP_FINISHED if finished else STEP_STARTED, {STEP_NAME: name})


def subagent_part(subagent: str, name: str) -> Json:
    """Return that the agent `name` goes on with the task, as the subagent run of that id."""
    return _hinted({"id": subagent, "name": name}, SUBAGENT_STARTED)


def subagent_end_part(subagent: str, name: str, outcome: str) -> Json:
    """Return that a subagent run has ended; `outcome` is ``success`` or ``suspended``."""
    return _hinted({"id": subagent, "name": name, "outcome": outcome}, SUBAGENT_FINISHED)


def usage_part(usage: Json) -> Json:
    """Return what a model has used: an AG-UI TokenUsage, added up per provider and model."""
    return _hinted(usage, USAGE)


def custom_part(name: str, value: Any) -> Json:  # noqa: ANN401  # any JSON
    """Return an event of the agent's own making."""
    return _hinted(value, CUSTOM, {CUSTOM_NAME: name})


def raw_part(event: Any, source: str = "") -> Json:  # noqa: ANN401  # any JSON
    """Return an event of another system as it came."""
    return _hinted(event, RAW, {SOURCE: source} if source else {})


def _hinted(data: Any, kind: str, more: Json | None = None) -> Json:  # noqa: ANN401  # any JSON
    return {"data": data, "metadata": {EVENT_TYPE: kind, **(more or {})}}


def _block(event_type: str, block_type: str, block_id: str, index: int) -> Json:
    return {
        EVENT_TYPE: event_type,
        BLOCK_TYPE: block_type,
        BLOCK_ID: block_id,
        BLOCK_INDEX: index,
    }


def _tool(call_id: str, name: str) -> Json:
    return {EVENT_TYPE: TOOL_CALL, TOOL_CALL_ID: call_id, TOOL_NAME: name}


def _sealed(metadata: Json, value: str) -> Json:
    return {**metadata, ENCRYPTED_VALUE: value} if value else metadata


def _ended(metadata: Json, *, end: bool) -> Json:
    return {**metadata, BLOCK_END: True} if end else metadata


def _described(part: Json, filename: str, media_type: str) -> Json:
    if filename:
        part["filename"] = filename
    if media_type:
        part["mediaType"] = media_type
    return part


_PREFIX = "agui_"

_ANSWER = frozenset({"", "message", "text", CONTENT_BLOCK})
"""What a part with answer text may say it is."""


class ToolCallPart(NamedTuple):
    """A whole tool call, as read from a part."""

    id: str
    name: str
    arguments: Any


class ToolResultPart(NamedTuple):
    """A tool's answer, as read from a part."""

    id: str
    content: Any
    error: str
    is_error: bool


def metadata_of(part: Json, key: str) -> Any:  # noqa: ANN401  # whatever stands there
    """Return the part's metadata under `key`, or under its name without ``agui_``; else None."""
    metadata = part.get("metadata")
    if not isinstance(metadata, dict):
        return None
    found = metadata.get(key)
    return metadata.get(key.removeprefix(_PREFIX)) if found is None else found


def event_type(part: Json) -> str:
    """Return what kind of part this is; empty where it does not say.

    An older name of the key, ``part_type``, is read too.
    """
    return _text(metadata_of(part, EVENT_TYPE) or metadata_of(part, "part_type"))


def block_type(part: Json) -> str:
    """Return the type of the part's block; empty where it has none."""
    return _text(metadata_of(part, BLOCK_TYPE))


def block_id(part: Json) -> str:
    """Return the id of the part's block; empty where it has none."""
    return _text(metadata_of(part, BLOCK_ID))


def block_index(part: Json) -> int:
    """Return the index of the part's block; 0 where it does not say. Protobuf makes it a float."""
    index = metadata_of(part, BLOCK_INDEX)
    return int(index) if isinstance(index, int | float) else 0


def encrypted_value(part: Json) -> str:
    """Return what a provider wants back with the part; empty where there is nothing.

    ``signature``, thinking's older name for it, is read too.
    """
    return _text(metadata_of(part, ENCRYPTED_VALUE) or metadata_of(part, SIGNATURE))


def interrupt_id(part: Json) -> str:
    """Return which interrupt the part answers; empty where it answers none."""
    return _text(metadata_of(part, INTERRUPT_ID))


def resume_status(part: Json) -> str:
    """Return how the part answers an interrupt, ``resolved`` or ``cancelled``; else empty."""
    return _text(metadata_of(part, RESUME_STATUS))


def is_block_end(part: Json) -> bool:
    """Tell whether the part is its block's last."""
    return metadata_of(part, BLOCK_END) is True


def is_thinking(part: Json) -> bool:
    """Tell whether the part is reasoning, not answer."""
    return event_type(part) == THINKING or block_type(part) == THINKING


def is_partial_tool_call(part: Json) -> bool:
    """Tell whether the part is a piece of a tool call's arguments."""
    return metadata_of(part, PARTIAL) is True and event_type(part) == TOOL_CALL


def tool_call_id(part: Json) -> str:
    """Return the id of the tool call that the part belongs to; empty where there is none."""
    found = metadata_of(part, TOOL_CALL_ID)
    return _text(found or _data(part).get("tool_call_id") or _data(part).get("id"))


def tool_name(part: Json) -> str:
    """Return the name of the tool that the part calls; empty where it calls none."""
    return _text(metadata_of(part, TOOL_NAME) or _data(part).get("name"))


def tool_call(part: Json) -> ToolCallPart | None:
    """Return the whole tool call that the part is, if it is one."""
    data = _data(part)
    if event_type(part) != TOOL_CALL or "name" not in data or _is_result(part):
        return None
    arguments = data.get("arguments", data.get("input", {}))
    return ToolCallPart(tool_call_id(part), tool_name(part), arguments)


def tool_result(part: Json) -> ToolResultPart | None:
    """Return the tool's answer that the part is, if it is one."""
    if event_type(part) != TOOL_CALL or not _is_result(part):
        return None
    data = _data(part)
    error = _text(data.get("error"))
    is_error = metadata_of(part, IS_ERROR) is True or bool(error)
    return ToolResultPart(tool_call_id(part), data.get("content", ""), error, is_error)


def text_of(parts: Iterable[Json]) -> str:
    """Return the text of `parts` put together, without reasoning and tool calls."""
    return "".join(part["text"] for part in parts if _is_answer(part))


def thinking_of(parts: Iterable[Json]) -> str:
    """Return the reasoning in `parts`, put together."""
    return "".join(part["text"] for part in parts if _has_text(part) and is_thinking(part))


def _is_answer(part: Json) -> bool:
    return _has_text(part) and event_type(part) in _ANSWER and not is_thinking(part)


def _has_text(part: Json) -> bool:
    return isinstance(part.get("text"), str)


def _is_result(part: Json) -> bool:
    return metadata_of(part, IS_ERROR) is not None or "tool_call_id" in _data(part)


def _data(part: Json) -> Json:
    """Return the part's data; some writers wrap it in one more level of ``data``."""
    data = part.get("data")
    inner = data.get("data") if isinstance(data, dict) and data.keys() == {"data"} else data
    return inner if isinstance(inner, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
