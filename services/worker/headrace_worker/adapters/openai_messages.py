"""A conversation in the words of the chat completions API."""

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from headrace import parts
from headrace.events import Json
from headrace_worker.conversation import Call, Turn
from headrace_worker.tools import Tool, as_text


def messages_of(instruction: str, turns: Iterable[Turn]) -> list[Json]:
    """Return the messages of a request."""
    system = [{"role": "system", "content": instruction}] if instruction else []
    return [*system, *map(_message, turns)]


def call_of(call: Call) -> Json:
    """Return a tool call as an assistant's message names it."""
    function = {"name": call.name, "arguments": call.said}
    return {"id": call.id, "type": "function", "function": function}


def assistant_message(text: str, calls: Sequence[Call]) -> Json:
    """Return what the model has said, for the next request."""
    said: Json = {"role": "assistant", "content": text or None}
    return {**said, "tool_calls": list(map(call_of, calls))} if calls else said


def tool_message(call: str, content: Any, error: str) -> Json:  # noqa: ANN401  # any JSON
    """Return what a tool has answered, for the next request."""
    said = f"Error: {error}" if error else as_text(content)
    return {"role": "tool", "tool_call_id": call, "content": said}


def function_of(tool: Tool) -> Json:
    """Return a tool as a request offers it."""
    return offered(tool.name, tool.description, tool.parameters)


def frontend_function(tool: Json) -> Json:
    """Return an AG-UI client's tool as a request offers it."""
    return offered(tool["name"], tool.get("description") or "", tool.get("parameters"))


def offered(name: str, description: str, parameters: Json | None) -> Json:
    """Return a function as a request offers it."""
    schema = parameters or {"type": "object", "properties": {}}
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


def _message(turn: Turn) -> Json:
    match turn.role:
        case "assistant":
            return assistant_message(turn.text, turn.calls)
        case "tool" if turn.result is not None:
            return tool_message(turn.result.id, turn.result.content, turn.result.error)
        case "user":
            return {"role": "user", "content": _content(turn.parts)}
        case _:
            return {"role": turn.role, "content": turn.text}


def _content(said: Sequence[Json]) -> str | list[Json]:
    if all("text" in part for part in said):
        return parts.text_of(said)
    return [_piece(part) for part in said]


def _piece(part: Json) -> Json:
    media = part.get("mediaType", "")
    if "text" in part:
        return {"type": "text", "text": part["text"]}
    if "data" in part:
        return {"type": "text", "text": orjson.dumps(part["data"]).decode()}
    if "url" in part and media.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": part["url"]}}
    if "raw" in part and media.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": f"data:{media};base64,{part['raw']}"}}
    # A file that chat models don't take is at least mentioned.
    name = part.get("filename") or part.get("url") or media
    return {"type": "text", "text": f"[file {name}]"}
