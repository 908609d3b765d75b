"""Tool calls and their results: a call ends with its arguments, its result may come later."""

from typing import Any

import orjson

from headrace.model import parts
from headrace.model.events import Json
from headrace_gateway.protocols.agui.blocks import TEXT, BlockMessages
from headrace_gateway.protocols.agui.output import OpenItem, Output
from headrace_gateway.protocols.agui.view import AgentMessage, ToolCallSoFar, ToolMessage, View

KIND = "call"


class ToolCalls:
    """Converts tool parts to TOOL_CALL events."""

    def __init__(self, output: Output, view: View, text: BlockMessages, *, modern: bool) -> None:
        """Emit to `output`; `modern` clients support metadata on messages."""
        self._output, self._view, self._text = output, view, text
        self._modern = modern

    def part(self, part: Json, message: str) -> None:
        """Emit a call, a piece of its arguments, or a result; `message` is the fallback call id.

        Raises:
            ValueError: the part is none of these.
        """
        if (result := parts.tool_result(part)) is not None:
            self._result(result._replace(id=self._known_as(result.id)))
        elif parts.is_partial_tool_call(part):
            self._arguments(part, self._known_as(parts.tool_call_id(part) or message))
        elif (call := parts.tool_call(part)) is not None:
            named = call._replace(id=self._known_as(call.id or message))
            self._complete_call(named, parts.encrypted_value(part))
        else:
            raise ValueError("neither a call nor a result")

    def _known_as(self, call: str) -> str:
        """Return the client's id of the agent's call.

        Some models number their calls, so two subagents may use the same id. Ids of subagents are
        made unique, because only the subagents answer these calls. The agent's own ids stay,
        because clients answer them.
        """
        return f"{call}@{self._output.subagent}" if self._output.subagent else call

    def _complete_call(self, call: parts.ToolCallPart, encrypted: str) -> None:
        item = self._open(call.id, call.name)
        if item is None:
            return
        if not item.pieces:
            self._piece(item, _json_text(call.arguments) or "{}")
        self._output.end((KIND, call.id))
        if encrypted:
            self._seal(call.id, encrypted)

    def _arguments(self, part: Json, call: str) -> None:
        item = self._open(call, parts.tool_name(part))
        if item is None:
            return
        self._piece(item, part["text"])
        if parts.is_block_end(part):
            self._output.end((KIND, call))
        if value := parts.encrypted_value(part):
            self._seal(call, value)

    def _piece(self, item: OpenItem, delta: str) -> None:
        if delta:
            item.pieces.append(delta)
            self._output.emit("TOOL_CALL_ARGS", toolCallId=item.id, delta=delta)

    def _open(self, call: str, name: str) -> OpenItem | None:
        """Return the call, started if it is new; None if it is already complete."""
        item = self._output.open.get((KIND, call))
        if item is None and self._view.caller_of(call) is None:
            item = self._begin(ToolCallSoFar(call, name))
        return item

    def _begin(self, call: ToolCallSoFar) -> OpenItem:
        parent = self._parent(call.id)
        self._view.message(parent).calls.append(call)
        start = {"toolCallId": call.id, "toolCallName": call.name, "parentMessageId": parent}
        item = OpenItem(
            (("TOOL_CALL_START", start),),
            (("TOOL_CALL_END", {"toolCallId": call.id}),),
            call.id,
            call.arguments,
        )
        return self._output.begin((KIND, call.id), item)

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
        block = f"{call}-message"
        message = self._text.begin(block).id
        self._text.end(block)
        return message

    def _is_waiting_caller(self, message: AgentMessage) -> bool:
        is_own = message.subagent == self._output.subagent
        return is_own and bool(message.calls) and not any(message.chunks)

    def _result(self, result: parts.ToolResultPart) -> None:
        self._output.end((KIND, result.id))
        message = self._view.claim(self._output.use("result"), f"{result.id}-result")
        if message in self._view.messages:
            return
        metadata: Json = {}
        if result.is_error and self._modern:
            metadata = {"metadata": {"error": result.error or True}}
        content, whose = _json_text(result.content) or result.error, self._output.subagent
        self._view.answer(ToolMessage(message, result.id, content, metadata, whose))
        self._output.emit(
            "TOOL_CALL_RESULT",
            messageId=message,
            toolCallId=result.id,
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


def _json_text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return `value` as a client shows it: text unchanged, other values as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
