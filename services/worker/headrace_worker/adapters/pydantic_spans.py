"""The messages of a pydantic-ai agent's model calls, as spans hold them."""

from collections.abc import Sequence
from typing import Any

from headrace.model.events import Json
from headrace_worker.adapters.extras import needs

with needs("pydantic-ai"):
    from pydantic_ai.messages import ModelMessage, ModelRequest
    from pydantic_ai.models.instrumented import InstrumentationSettings as Instrumentation

_RENAMED = {"result": "response"}
_KINDS = {"thinking": "reasoning"}
"""Names of the library's that the conventions have changed since."""


def messages_in(messages: Sequence[ModelMessage]) -> list[Json]:
    """Return messages as spans hold them. Files keep their kind and lose their content."""
    instrumentation = Instrumentation(include_binary_content=False)
    shown: Any = instrumentation.messages_to_otel_messages(list(messages))
    return [_message(message) for message in shown]


def instructions_in(messages: Sequence[ModelMessage]) -> str:
    """Return the instructions that are sent beside the messages."""
    last = messages[-1] if messages else None
    return (last.instructions or "") if isinstance(last, ModelRequest) else ""


def _message(message: Json) -> Json:
    parts = [_part(part) for part in message["parts"]]
    kinds = {part["type"] for part in parts}
    named: Json = {"role": "tool"} if kinds == {"tool_call_response"} else {}
    end: Json = {"finish_reason": "stop"} if message["role"] == "assistant" else {}
    return {**end, **message, **named, "parts": parts}


def _part(part: Json) -> Json:
    renamed = {_RENAMED.get(name, name): value for name, value in part.items()}
    return {**renamed, "type": _KINDS.get(part["type"], part["type"])}
