"""Tool calls as Hector's clients read them: whole, two levels deep."""

from typing import Any

import orjson

from headrace.model import parts
from headrace.model.events import Json


class StreamedArguments:
    """Puts the pieces of tool calls' arguments together."""

    def __init__(self) -> None:
        """Begin without any."""
        self._pieces: dict[str, list[str]] = {}
        self._names: dict[str, str] = {}

    @property
    def is_open(self) -> bool:
        """Whether a call has begun and is not complete."""
        return bool(self._pieces)

    def discard(self) -> None:
        """Forget what an attempt has begun: another one begins anew."""
        self._pieces.clear()

    def whole(self, part: Json) -> list[Json]:
        """Return what `part` completes: itself, or the call that it is the last piece of.

        A result completes a call whose last piece was never marked.
        """
        call = parts.tool_call_id(part)
        if not parts.is_partial_tool_call(part):
            return [*(self._take(call) if parts.tool_result(part) else []), part]
        self._pieces.setdefault(call, []).append(part.get("text", ""))
        self._names[call] = parts.tool_name(part) or self._names.get(call, "")
        return self._take(call) if parts.is_block_end(part) else []

    def rest(self) -> list[Json]:
        """Return the calls that nothing has completed."""
        return [one for call in list(self._pieces) for one in self._take(call)]

    def _take(self, call: str) -> list[Json]:
        if (pieces := self._pieces.pop(call, None)) is None:
            return []
        return [parts.tool_call_part(self._names.pop(call), parsed("".join(pieces)), call)]


def parsed(arguments: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return arguments as JSON; some writers give them as text."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return orjson.loads(arguments or "{}")
    except orjson.JSONDecodeError:
        return arguments


def tool_part(part: Json) -> Json:
    """Return a tool call, or a tool's result, with its data two levels deep."""
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
