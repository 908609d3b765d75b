"""Reading parts, whoever built them: older names of the keys and shapes of the data are known."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from headrace.model.events import Json
from headrace.model.parts.keys import (
    BLOCK_END,
    BLOCK_ID,
    BLOCK_INDEX,
    BLOCK_TYPE,
    CONTENT_BLOCK,
    ENCRYPTED_VALUE,
    EVENT_TYPE,
    INTERRUPT_ID,
    IS_ERROR,
    PARTIAL,
    RESUME_STATUS,
    SIGNATURE,
    THINKING,
    TOOL_CALL,
    TOOL_CALL_ID,
    TOOL_NAME,
)

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
