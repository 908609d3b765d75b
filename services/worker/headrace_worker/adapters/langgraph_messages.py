"""A conversation in LangChain's words."""

from collections.abc import Sequence
from typing import Any

import orjson

from headrace.model.events import Json
from headrace.model.parts import text_of
from headrace.sdk.tools import as_text
from headrace_worker.adapters.extras import needs
from headrace_worker.conversation import ResultItem, Turn

with needs("langgraph"):
    from langchain_core.messages import (
        AIMessage,
        AnyMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
    )


def messages_of(turns: Sequence[Turn]) -> list[AnyMessage]:
    """Return the turns as messages."""
    return [_message(turn) for turn in turns]


def human(said: Sequence[Json]) -> HumanMessage:
    """Return what a user says, A2A Parts, as a message."""
    if all("text" in part for part in said):
        return HumanMessage(text_of(said))
    blocks: Any = [_block(part) for part in said]
    return HumanMessage(content_blocks=blocks)


def _message(turn: Turn) -> AnyMessage:
    if turn.role == "assistant":
        calls: Any = [
            {"name": call.name, "args": _arguments(call.arguments), "id": call.id}
            for call in turn.calls
        ]
        results = [item.told for item in turn.items if isinstance(item, ResultItem)]
        return AIMessage("\n".join(filter(None, [turn.text, *results])), tool_calls=calls)
    if turn.role == "tool" and turn.result is not None:
        result = turn.result
        said = result.error or as_text(result.content)
        status: Any = "error" if result.error else "success"
        return ToolMessage(said, tool_call_id=result.id, status=status)
    return SystemMessage(turn.text) if turn.role == "system" else human(turn.parts)


def _arguments(said: Any) -> Any:  # noqa: ANN401  # any JSON
    return said if isinstance(said, dict) else {"input": said}


def _block(part: Json) -> Json:
    media = part.get("mediaType") or "application/octet-stream"
    if "text" in part:
        return {"type": "text", "text": part["text"]}
    if "data" in part:
        return {"type": "text", "text": orjson.dumps(part["data"]).decode()}
    kind = "image" if media.startswith("image/") else "file"
    place = {"url": part["url"]} if "url" in part else {"base64": part["raw"]}
    return {"type": kind, "mime_type": media, **place}
