"""Building parts, with the defaults that agents' authors expect."""

import secrets
from base64 import b64encode
from typing import Any

from headrace.model.events import Json
from headrace.model.parts.keys import (
    ACTIVITY_DELTA,
    ACTIVITY_SNAPSHOT,
    ACTIVITY_TYPE,
    BLOCK_END,
    BLOCK_ID,
    BLOCK_INDEX,
    BLOCK_TYPE,
    CONTENT_BLOCK,
    CUSTOM,
    CUSTOM_NAME,
    ENCRYPTED_VALUE,
    EVENT_TYPE,
    IS_ERROR,
    MESSAGES_SNAPSHOT,
    PARTIAL,
    RAW,
    SOURCE,
    STATE_DELTA,
    STATE_SNAPSHOT,
    STEP_FINISHED,
    STEP_NAME,
    STEP_STARTED,
    SUBAGENT_FINISHED,
    SUBAGENT_STARTED,
    TASK,
    THINKING,
    TOOL_CALL,
    TOOL_CALL_ID,
    TOOL_NAME,
    USAGE,
)


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
