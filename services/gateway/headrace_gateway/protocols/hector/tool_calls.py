"""Tool calls in the form that Hector's clients read: complete, and nested two levels deep."""

from typing import Any

import orjson

from headrace.model import parts
from headrace.model.events import Json


class StreamedArguments:
    """Joins the argument pieces of tool calls."""

    def __init__(self) -> None:
        """Start with no pieces."""
        self._pieces: dict[str, list[str]] = {}
        self._names: dict[str, str] = {}

    @property
    def is_open(self) -> bool:
        """Whether a call has started and is not complete."""
        return bool(self._pieces)

    def discard(self) -> None:
        """Drop the incomplete calls of an attempt; the next attempt starts over."""
        self._pieces.clear()

    def whole(self, part: Json) -> list[Json]:
        """Return what `part` completes: itself, or the call whose last piece it is.

        A result completes a call whose last piece was never marked.
        """
        call = parts.tool_call_id(part)
        if not parts.is_partial_tool_call(part):
            return [*(self._take(call) if parts.tool_result(part) else []), part]
        self._pieces.setdefault(call, []).append(part.get("text", ""))
        self._names[call] = parts.tool_name(part) or self._names.get(call, "")
        return self._take(call) if parts.is_block_end(part) else []

    def rest(self) -> list[Json]:
        """Return the calls that were never completed."""
        return [one for call in list(self._pieces) for one in self._take(call)]

    def _take(self, call: str) -> list[Json]:
        if (pieces := self._pieces.pop(call, None)) is None:
            return []
        return [parts.tool_call_part(self._names.pop(call), parsed("".join(pieces)), call)]


def parsed(arguments: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return arguments as JSON; some workers write them as text."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return orjson.loads(arguments or "{}")
    except orjson.JSONDecodeError:
        return arguments


def tool_part(part: Json) -> Json:
    """Return a tool call or tool result with its data nested two levels deep."""
    metadata = {**(part.get("metadata") or {}), parts.EVENT_TYPE: parts.TOOL_CALL}
    if (result := parts.tool_result(part)) is not None:
        named = {parts.TOOL_CALL_ID: result.id, parts.IS_ERROR: result.is_error}
        data = {"tool_call_id": result.id, "content": result.content, "error": result.error}
    elif (call := parts.tool_call(part)) is not None:
        named = {parts.TOOL_CALL_ID: call.id, parts.TOOL_NAME: call.name}
        data = {"id": call.id, "name": call.name, "arguments": parsed(call.arguments)}
    else:
        return {**part, "data": {"data": {}}}
    return {"data": {"data": data}, "metadata": metadata | named}
