"""Tool calls and their results: a call ends with its arguments, its result may come later.

Open items are kept by the agent's id of a call, everything else by the client's (`CallNames`).
"""

from typing import Any

import orjson

from headrace.model import json_text, parts
from headrace.model.events import Json
from headrace_gateway.protocols.agui.blocks import TEXT, BlockMessages
from headrace_gateway.protocols.agui.call_names import CallNames, result_id
from headrace_gateway.protocols.agui.output import OpenItem, Output
from headrace_gateway.protocols.agui.view import AgentMessage, ToolCallSoFar, ToolMessage, View

KIND = "call"


class ToolCalls:
    """Converts tool parts to TOOL_CALL events."""

    def __init__(
        self, output: Output, view: View, text: BlockMessages, ids: CallNames, *, modern: bool
    ) -> None:
        """Emit to `output`; `modern` clients support metadata on messages."""
        self._output, self._view, self._text = output, view, text
        self._ids, self._modern = ids, modern

    def part(self, part: Json, message: str) -> None:
        """Emit a call, a piece of its arguments, or a result; `message` is the fallback call id.

        Raises:
            ValueError: the part is none of these.
        """
        if (result := parts.tool_result(part)) is not None:
            self._result(result)
        elif parts.is_partial_tool_call(part):
            self._arguments(part, parts.tool_call_id(part) or message)
        elif (call := parts.tool_call(part)) is not None:
            self._complete_call(call._replace(id=call.id or message), parts.encrypted_value(part))
        else:
            raise ValueError("neither a call nor a result")

    def _complete_call(self, call: parts.ToolCallPart, encrypted: str) -> None:
        if self._is_repeated(call):
            return
        item = self._open(call.id, call.name)
        if not item.pieces:
            self._piece(item, _json_text(call.arguments) or "{}")
        self._output.end((KIND, call.id))
        if encrypted:
            self._seal(item.id, encrypted)

    def _is_repeated(self, call: parts.ToolCallPart) -> bool:
        """Return whether the call states again the latest one with its id, which has no result."""
        if (KIND, call.id) in self._output.open:
            return False
        latest = self._ids.latest(call.id)
        if latest is None or self._ids.has_result(latest):
            return False
        caller = self._view.caller_of(latest)
        made = caller.call(latest) if isinstance(caller, AgentMessage) else None
        stated = _json_text(call.arguments) or "{}"
        return made is not None and made.name == call.name and _is_same(made, stated)

    def _arguments(self, part: Json, call: str) -> None:
        item = self._open(call, parts.tool_name(part))
        self._piece(item, part["text"])
        if parts.is_block_end(part):
            self._output.end((KIND, call))
        if value := parts.encrypted_value(part):
            self._seal(item.id, value)

    def _piece(self, item: OpenItem, delta: str) -> None:
        if delta:
            item.pieces.append(delta)
            self._output.emit("TOOL_CALL_ARGS", toolCallId=item.id, delta=delta)

    def _open(self, call: str, name: str) -> OpenItem:
        """Return the call that is open with the agent's id `call`, or start another one."""
        item = self._output.open.get((KIND, call))
        return item or self._begin(call, ToolCallSoFar(self._ids.next(call), name))

    def _begin(self, own: str, call: ToolCallSoFar) -> OpenItem:
        parent = self._parent(call.id)
        self._view.message(parent).calls.append(call)
        start = {"toolCallId": call.id, "toolCallName": call.name, "parentMessageId": parent}
        item = OpenItem(
            (("TOOL_CALL_START", start),),
            (("TOOL_CALL_END", {"toolCallId": call.id}),),
            call.id,
            call.arguments,
        )
        return self._output.begin((KIND, own), item)

    def _parent(self, call: str) -> str:
        """Return the message that makes the call: the open text, or an empty message for it.

        Consecutive calls share the empty message, as the calls of one turn do: a model that reads
        the conversation again needs them in one message, followed by the results.
        """
        for (kind, _), item in reversed(self._output.open.items()):
            if kind == TEXT.use:
                return item.id
        youngest = next(reversed(self._view.messages.values()), None)
        if isinstance(youngest, AgentMessage) and self._is_waiting_caller(youngest):
            return youngest.id
        return self._text.add_empty(f"{call}-message")

    def _is_waiting_caller(self, message: AgentMessage) -> bool:
        is_own = message.subagent == self._output.subagent
        return is_own and bool(message.calls) and not any(message.chunks)

    def _result(self, result: parts.ToolResultPart) -> None:
        call = self._ids.answered(result.id)
        item = self._output.open.get((KIND, result.id))
        if item is not None and item.id == call:
            self._output.end((KIND, result.id))
        message = self._view.claim(self._output.use("result"), result_id(call))
        if message in self._view.messages:
            return
        metadata: Json = {}
        if result.is_error and self._modern:
            metadata = {"metadata": {"error": result.error or True}}
        content, whose = _json_text(result.content) or result.error, self._output.subagent
        self._view.add_result(ToolMessage(message, call, content, metadata, whose))
        self._output.emit(
            "TOOL_CALL_RESULT",
            messageId=message,
            toolCallId=call,
            content=content,
            role="tool",
            **metadata,
        )

    def _seal(self, call: str, value: str) -> None:
        caller = self._view.caller_of(call)
        if caller is not None and caller.subagent != self._output.subagent:
            return
        made = caller.call(call) if isinstance(caller, AgentMessage) else None
        if made is not None:
            made.encrypted = value
        self._output.emit(
            "REASONING_ENCRYPTED_VALUE", subtype="tool-call", entityId=call, encryptedValue=value
        )


def _is_same(made: ToolCallSoFar, stated: str) -> bool:
    """Return whether the arguments of `made` are those of the JSON text `stated`."""
    text = "".join(made.arguments)
    if text == stated:
        return True
    try:
        return bool(json_text.decode_foreign(text) == json_text.decode_foreign(stated))
    except orjson.JSONDecodeError:
        return False


def _json_text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return `value` as text; nothing for None."""
    return "" if value is None else json_text.as_text(value)
