"""Messages in the formats of OpenAI's APIs, in the shape of GenAI's semantic conventions.

Files keep their kind and lose their content.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.model.events import Json
from headrace.span_content import text_part

STOP = "stop"

CALLED = "tool_call"
"""Why a response ended: the model calls tools. OpenAI's name is ``tool_calls``."""


def of_chat(messages: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Return messages of the Chat Completions API."""
    return list(map(_of_chat, messages))


def response_of(text: str, calls: Iterable[Json], finish: str) -> list[Json]:
    """Return a response; `finish` is OpenAI's reason for its end, or empty."""
    parts = [*pieces_of(text), *calls]
    reason = CALLED if finish == "tool_calls" else finish
    return [{"role": "assistant", "parts": parts, "finish_reason": reason or "error"}]


def of_items(items: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Return items of the Responses API."""
    return list(map(_of_item, items))


def response_of_items(items: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Return a response of the Responses API, whose end the API does not explain."""
    parts = [part for item in items for part in _of_item(item)["parts"]]
    reason = CALLED if any(part["type"] == "tool_call" for part in parts) else STOP
    return [{"role": "assistant", "parts": parts, "finish_reason": reason}]


def call_part(call: str, name: str, arguments: Any) -> Json:  # noqa: ANN401  # any JSON
    """Return the part that is a tool call."""
    return {"type": "tool_call", "id": call, "name": name, "arguments": arguments}


def pieces_of(content: Any) -> list[Json]:  # noqa: ANN401  # text, pieces of content, or None
    """Return the parts that are a message's content."""
    if isinstance(content, str):
        return [text_part(content)] if content else []
    return [_piece(piece) for piece in content or ()]


def _piece(piece: Any) -> Json:  # noqa: ANN401  # one of either API's
    if isinstance(piece, str):
        return text_part(piece)
    text = piece.get("text") or piece.get("refusal")
    return text_part(text) if isinstance(text, str) else {"type": str(piece.get("type") or "file")}


def _of_chat(message: Mapping[str, Any]) -> Json:
    if message["role"] == "tool":
        return _result(message.get("tool_call_id"), message.get("content"))
    calls = [
        call_part(call.get("id"), call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    ]
    return {"role": message["role"], "parts": [*pieces_of(message.get("content")), *calls]}


def _of_item(item: Mapping[str, Any]) -> Json:
    match item.get("type"):
        case "function_call":
            called = call_part(item["call_id"], item["name"], item["arguments"])
            return {"role": "assistant", "parts": [called]}
        case "function_call_output":
            return _result(item["call_id"], item["output"])
        case "reasoning":
            texts = [piece["text"] for piece in item.get("summary") or ()]
            parts = [{"type": "reasoning", "content": text} for text in texts]
            return {"role": "assistant", "parts": parts}
        case None | "message":
            return {"role": item.get("role"), "parts": pieces_of(item.get("content"))}
        case kind:
            return {"role": "assistant", "parts": [{"type": kind}]}


def _result(call: Any, content: Any) -> Json:  # noqa: ANN401  # an id; text or pieces of content
    response = content if isinstance(content, str) else pieces_of(content)
    return {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": call, "response": response}],
    }
