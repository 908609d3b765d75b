"""A conversation in pydantic-ai's words."""

from base64 import b64decode
from collections.abc import Sequence
from typing import Any

import orjson

from headrace.events import Json
from headrace_worker.adapters.extras import needs
from headrace_worker.conversation import Turn

with needs("pydantic-ai"):
    from pydantic_ai.messages import (
        BinaryContent,
        DocumentUrl,
        ImageUrl,
        ModelMessage,
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserContent,
        UserPromptPart,
    )


def history_of(turns: Sequence[Turn]) -> tuple[list[UserContent] | None, list[ModelMessage]]:
    """Return what the user says now, None where tools have answered, and what was said before."""
    if turns and turns[-1].role == "user":
        return _content(turns[-1].parts), _messages(turns[:-1])
    return None, _messages(turns)


def _messages(turns: Sequence[Turn]) -> list[ModelMessage]:
    names = {call.id: call.name for turn in turns for call in turn.calls}
    return [_message(turn, names) for turn in turns]


def _message(turn: Turn, names: dict[str, str]) -> ModelMessage:
    if turn.role == "assistant":
        calls = [ToolCallPart(call.name, call.arguments, call.id) for call in turn.calls]
        said = [TextPart(turn.text)] if turn.text else []
        return ModelResponse([*said, *calls])
    if turn.role == "tool" and turn.result is not None:
        result = turn.result
        content, outcome = (result.error, "failed") if result.error else (result.content, "success")
        name = names.get(result.id, "")
        returned: Any = ToolReturnPart(name, content, result.id, outcome=outcome)  # type: ignore[arg-type]  # a literal by value
        return ModelRequest([returned])
    if turn.role == "system":
        return ModelRequest([SystemPromptPart(turn.text)])
    return ModelRequest([UserPromptPart(_content(turn.parts))])


def _content(said: Sequence[Json]) -> list[UserContent]:
    return [_piece(part) for part in said]


def _piece(part: Json) -> UserContent:
    media = part.get("mediaType") or "application/octet-stream"
    if "raw" in part:
        return BinaryContent(b64decode(part["raw"]), media_type=media)
    if "url" in part:
        linked = ImageUrl if media.startswith("image/") else DocumentUrl
        return linked(part["url"])
    return part["text"] if "text" in part else orjson.dumps(part.get("data")).decode()
