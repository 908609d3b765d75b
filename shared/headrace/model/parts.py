"""Build and read the parts of an agent's output.

Parts are A2A v1.0 Parts in ProtoJSON. Metadata under keys ``agui_*`` describes how a user interface
shows them; clients that ignore it still get the whole content. The keys are those of the metadata
schema that A2A agents with AG-UI support share, plus three of Headrace's: the end of a block, a
partial tool call, and the child run of a relayed part.
"""

import secrets
from base64 import b64encode
from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from headrace.model import json_text
from headrace.model.a2ui import MEDIA_TYPE, MEDIA_TYPES, action_message
from headrace.model.events import Json

EVENT_TYPE = "agui_event_type"
"""`CONTENT_BLOCK`, `THINKING`, `TOOL_CALL`, `TASK` or `ERROR`."""

BLOCK_TYPE = "agui_block_type"
"""``text``, ``thinking`` or ``code``."""

BLOCK_ID = "agui_block_id"

BLOCK_INDEX = "agui_block_index"
"""Position among the blocks of one run, from 0."""

BLOCK_END = "agui_block_end"
"""True on a block's last part. A block without it ends with its run."""

PARTIAL = "agui_partial"
"""True on a text part with a piece of a tool call's arguments."""

TOOL_CALL_ID = "agui_tool_call_id"

TOOL_NAME = "agui_tool_name"

IS_ERROR = "agui_is_error"
"""Whether the tool failed. Only tool results have this key; it distinguishes them from calls."""

SUBAGENT_RUN_ID = "agui_subagent_run_id"
"""Id of the child run that a relayed part belongs to."""

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

SURFACES = "a2ui"
"""Event type of a data part that holds A2UI messages."""

STEP_STARTED = "step_started"

STEP_FINISHED = "step_finished"
"""Event types of parts that mark a step, named by `STEP_NAME`."""

SUBAGENT_STARTED = "subagent_started"

SUBAGENT_FINISHED = "subagent_finished"
"""Event types of data parts that mark the start and end of a subagent in the same process: ``id``
and ``name``, and at the end ``outcome`` (``success`` or ``suspended``)."""

USAGE = "usage"
"""Event type of a data part that holds one AG-UI TokenUsage."""

CUSTOM = "custom"
"""Event type of a data part that holds any value, named by `CUSTOM_NAME`."""

RAW = "raw"
"""Event type of a data part that holds another system's event, from `SOURCE`."""

ACTIVITY_TYPE = "agui_activity_type"

A2UI_MEDIA_TYPE = "mimeType"
"""On A2UI messages: their media type. Clients of A2A 1.0 also read that of the part itself."""

STEP_NAME = "agui_step_name"

CUSTOM_NAME = "agui_custom_name"

SOURCE = "agui_source"

ENCRYPTED_VALUE = "agui_encrypted_value"
"""On text, thinking and tool calls: an opaque value to return to the provider with the message."""

SIGNATURE = "agui_signature"
"""On thinking: older name of `ENCRYPTED_VALUE`."""

TITLE = "agui_title"
"""On thinking: a title for user interfaces."""

INTERRUPT_ID = "agui_interrupt_id"
"""On a user's part that answers an interrupt: the interrupt's id."""

RESUME_STATUS = "agui_resume_status"
"""Together with `INTERRUPT_ID`: ``resolved`` or ``cancelled``."""


def mint_id(kind: str) -> str:
    """Return a random id such as ``block-3f9a1c0b``."""
    return f"{kind}-{secrets.token_hex(4)}"


def text_part(
    text: str,
    block_id: str = "",
    block_index: int = 0,
    *,
    block_type: str = "text",
    end: bool = False,
) -> Json:
    """Return a piece of a content block; without `block_id` it is a block by itself."""
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
    """Return a piece of the agent's reasoning; without `block_id` it is a block by itself.

    `encrypted` is an opaque value to return to the provider.
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
    """Return a complete tool call with JSON `arguments`; an empty `call_id` is generated."""
    call_id = call_id or mint_id("call")
    return {
        "data": {"id": call_id, "name": name, "arguments": arguments},
        "metadata": _sealed(_tool(call_id, name), encrypted),
    }


def tool_arguments_part(
    delta: str, call_id: str, name: str = "", *, encrypted: str = "", end: bool = False
) -> Json:
    """Return a piece of a tool call's arguments; together the pieces are JSON text."""
    metadata = {**_tool(call_id, name), PARTIAL: True}
    return {"text": delta, "metadata": _ended(_sealed(metadata, encrypted), end=end)}


def tool_result_part(call_id: str, content: Any, error: str = "") -> Json:  # noqa: ANN401  # any JSON
    """Return a tool's result; `error` is empty if the tool succeeded."""
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
    """Return a notice of progress (`TASK`) or of an error (`ERROR`)."""
    return {"text": text, "metadata": {EVENT_TYPE: kind}}


def state_part(state: Any) -> Json:  # noqa: ANN401  # any JSON
    """Return the whole state that the agent shares with its user interface."""
    return _hinted(state, STATE_SNAPSHOT)


def state_delta_part(patch: list[Json]) -> Json:
    """Return a change of the shared state as a JSON Patch (RFC 6902)."""
    return _hinted(patch, STATE_DELTA)


def messages_part(messages: list[Json]) -> Json:
    """Return the whole conversation as AG-UI Messages; clients replace theirs with it."""
    return _hinted(messages, MESSAGES_SNAPSHOT)


def activity_part(activity_type: str, content: Json, activity_id: str = "") -> Json:
    """Return an activity's content, which a user interface shows according to `activity_type`.

    It replaces the activity's previous content. Without `activity_id` it is a new activity.
    """
    named = {ACTIVITY_TYPE: activity_type, BLOCK_ID: activity_id or mint_id("activity")}
    return _hinted(content, ACTIVITY_SNAPSHOT, named)


def activity_delta_part(patch: list[Json], activity_id: str) -> Json:
    """Return a change of an activity's content, a JSON Patch."""
    return _hinted(patch, ACTIVITY_DELTA, {BLOCK_ID: activity_id})


def surfaces_part(messages: list[Json]) -> Json:
    """Return changes of A2UI surfaces, marked as A2UI's extension of A2A requires."""
    return {
        **_hinted(messages, SURFACES, {A2UI_MEDIA_TYPE: MEDIA_TYPE}),
        "mediaType": MEDIA_TYPE,
    }


def surface_action_part(action: Json) -> Json:
    """Return what a user has done on a surface, as a client of A2A sends it."""
    return {
        "data": [action_message(action)],
        "mediaType": MEDIA_TYPE,
        "metadata": {A2UI_MEDIA_TYPE: MEDIA_TYPE},
    }


def surface_actions(part: Json) -> list[Json]:
    """Return what a user has done on surfaces, as a client's part says; none for other parts."""
    stated = part.get("mediaType"), metadata_of(part, A2UI_MEDIA_TYPE)
    # Metadata may have any JSON there, which a set would not take.
    if not any(isinstance(one, str) and one in MEDIA_TYPES for one in stated):
        return []
    data = part.get("data")
    given = data if isinstance(data, list) else [data]
    found = [one.get("action") or one.get("userAction") for one in given if isinstance(one, dict)]
    return [one for one in found if isinstance(one, dict)]


def step_part(name: str, *, finished: bool = False) -> Json:
    """Return the start or the end of a step."""
    return _hinted({}, STEP_FINISHED if finished else STEP_STARTED, {STEP_NAME: name})


def subagent_part(subagent: str, name: str) -> Json:
    """Return the start of a subagent run with the id `subagent`, of the agent `name`."""
    return _hinted({"id": subagent, "name": name}, SUBAGENT_STARTED)


def subagent_end_part(subagent: str, name: str, outcome: str) -> Json:
    """Return the end of a subagent run; `outcome` is ``success`` or ``suspended``."""
    return _hinted({"id": subagent, "name": name, "outcome": outcome}, SUBAGENT_FINISHED)


def usage_part(usage: Json) -> Json:
    """Return token usage, an AG-UI TokenUsage; it is added up per provider and model."""
    return _hinted(usage, USAGE)


def custom_part(name: str, value: Any) -> Json:  # noqa: ANN401  # any JSON
    """Return a custom event of the agent."""
    return _hinted(value, CUSTOM, {CUSTOM_NAME: name})


def raw_part(event: Any, source: str = "") -> Json:  # noqa: ANN401  # any JSON
    """Return an event of another system, unchanged."""
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
"""Event and block types of parts with answer text."""


class ToolCallPart(NamedTuple):
    """A complete tool call, as read from a part."""

    id: str
    name: str
    arguments: Any


class ToolResultPart(NamedTuple):
    """A tool's result, as read from a part."""

    id: str
    content: Any
    error: str
    is_error: bool


def metadata_of(part: Json, key: str) -> Any:  # noqa: ANN401  # whatever stands there
    """Return the part's metadata under `key`, or under `key` without ``agui_``; None if absent."""
    metadata = part.get("metadata")
    if not isinstance(metadata, dict):
        return None
    found = metadata.get(key)
    return metadata.get(key.removeprefix(_PREFIX)) if found is None else found


def event_type(part: Json) -> str:
    """Return the part's event type; empty if it has none.

    The older key ``part_type`` is read too.
    """
    return _text(metadata_of(part, EVENT_TYPE) or metadata_of(part, "part_type"))


def block_type(part: Json) -> str:
    """Return the type of the part's block; empty if it has none."""
    return _text(metadata_of(part, BLOCK_TYPE))


def block_id(part: Json) -> str:
    """Return the id of the part's block; empty if it has none."""
    return _text(metadata_of(part, BLOCK_ID))


def block_index(part: Json) -> int:
    """Return the index of the part's block, which Protobuf makes a float; 0 if it has none."""
    index = metadata_of(part, BLOCK_INDEX)
    return int(index) if isinstance(index, int | float) else 0


def encrypted_value(part: Json) -> str:
    """Return the opaque value to return to the provider with the part; empty if it has none.

    The older key of thinking, ``signature``, is read too.
    """
    return _text(metadata_of(part, ENCRYPTED_VALUE) or metadata_of(part, SIGNATURE))


def interrupt_id(part: Json) -> str:
    """Return the id of the interrupt that the part answers; empty if it answers none."""
    return _text(metadata_of(part, INTERRUPT_ID))


def resume_status(part: Json) -> str:
    """Return how the part answers an interrupt: ``resolved``, ``cancelled`` or empty."""
    return _text(metadata_of(part, RESUME_STATUS))


def is_block_end(part: Json) -> bool:
    """Return whether the part is its block's last."""
    return metadata_of(part, BLOCK_END) is True


def is_thinking(part: Json) -> bool:
    """Return whether the part is reasoning."""
    return event_type(part) == THINKING or block_type(part) == THINKING


def is_partial_tool_call(part: Json) -> bool:
    """Return whether the part is a piece of a tool call's arguments."""
    return metadata_of(part, PARTIAL) is True and event_type(part) == TOOL_CALL


def tool_call_id(part: Json) -> str:
    """Return the id of the tool call that the part belongs to; empty if there is none."""
    found = metadata_of(part, TOOL_CALL_ID)
    return _text(found or _data(part).get("tool_call_id") or _data(part).get("id"))


def tool_name(part: Json) -> str:
    """Return the name of the tool that the part calls; empty if it calls none."""
    return _text(metadata_of(part, TOOL_NAME) or _data(part).get("name"))


def tool_call(part: Json) -> ToolCallPart | None:
    """Return the part as a complete tool call; None if it is not one."""
    data = _data(part)
    if event_type(part) != TOOL_CALL or "name" not in data or _is_result(part):
        return None
    arguments = data.get("arguments", data.get("input", {}))
    return ToolCallPart(tool_call_id(part), tool_name(part), arguments)


def tool_result(part: Json) -> ToolResultPart | None:
    """Return the part as a tool's result; None if it is not one."""
    if event_type(part) != TOOL_CALL or not _is_result(part):
        return None
    data = _data(part)
    error = _text(data.get("error"))
    is_error = metadata_of(part, IS_ERROR) is True or bool(error)
    return ToolResultPart(tool_call_id(part), data.get("content", ""), error, is_error)


def is_answer(part: Json) -> bool:
    """Return whether the part is answer text, not a file, reasoning or a notice."""
    return "text" in part and not part.get("filename") and event_type(part) in _ANSWER


def text_of(parts: Iterable[Json]) -> str:
    """Return the joined text of `parts`, without reasoning and tool calls."""
    return "".join(part["text"] for part in parts if _is_answer(part))


def parsed_arguments(arguments: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a tool call's arguments, or its result, as JSON; some workers write them as text."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json_text.decode_foreign(arguments or "{}")
    except orjson.JSONDecodeError:
        return arguments


def words_of(parts: Iterable[Json]) -> str:
    """Return the joined text of a status for people, notices and errors too.

    Reasoning and tool calls are left out.
    """
    return "".join(part["text"] for part in parts if _has_text(part) and not _is_hidden(part))


def thinking_of(parts: Iterable[Json]) -> str:
    """Return the joined reasoning of `parts`."""
    return "".join(part["text"] for part in parts if _has_text(part) and is_thinking(part))


def _is_answer(part: Json) -> bool:
    return _has_text(part) and event_type(part) in _ANSWER and not is_thinking(part)


def _is_hidden(part: Json) -> bool:
    return is_thinking(part) or event_type(part) == TOOL_CALL


def _has_text(part: Json) -> bool:
    return isinstance(part.get("text"), str)


def _is_result(part: Json) -> bool:
    return metadata_of(part, IS_ERROR) is not None or "tool_call_id" in _data(part)


def _data(part: Json) -> Json:
    """Return the part's data; some writers nest it in another ``data`` object."""
    data = part.get("data")
    inner = data.get("data") if isinstance(data, dict) and data.keys() == {"data"} else data
    return inner if isinstance(inner, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
