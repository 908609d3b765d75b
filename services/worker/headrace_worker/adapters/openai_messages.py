"""A conversation in the words of the chat completions API."""

from collections.abc import Iterable

from headrace.model.events import Json
from headrace.model.parts import ToolResultPart
from headrace.sdk.tools import Tool, as_text
from headrace_worker.adapters.openai_content import ContentNames, content_of
from headrace_worker.adapters.openai_stream import FORMAT
from headrace_worker.conversation import CallItem, ResultItem, Turn

_PIECES = ContentNames(
    text=lambda said: {"type": "text", "text": said},
    image=lambda url: {"type": "image_url", "image_url": {"url": url}},
    pdf=lambda name, url: {"type": "file", "file": {"filename": name, "file_data": url}},
)


def messages_of(instruction: str, turns: Iterable[Turn]) -> list[Json]:
    """Return the messages of a request."""
    system = [{"role": "system", "content": instruction}] if instruction else []
    return [*system, *map(_message, turns)]


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
            return _assistant(turn)
        case "tool" if turn.result is not None:
            return _tool(turn.result)
        case "user":
            return {"role": "user", "content": content_of(turn.parts, _PIECES)}
        case _:
            return {"role": turn.role, "content": turn.text}


def _assistant(turn: Turn) -> Json:
    """Return what the model has said, with every field that came with it."""
    kept = turn.verbatim.response if turn.verbatim and turn.verbatim.format == FORMAT else {}
    more = {key: value for key, value in kept.items() if key != "tool_calls"}
    results = [item.told for item in turn.items if isinstance(item, ResultItem)]
    text = "\n".join(filter(None, [turn.text, *results]))
    # Null means that there are calls instead of an answer: without any, servers refuse it.
    content = text or (None if turn.calls else "")
    said: Json = {**more, "role": "assistant", "content": content}
    if turn.calls:
        fields = kept.get("tool_calls") or {}
        said["tool_calls"] = [_call(call, fields.get(call.id) or {}) for call in turn.calls]
    return said


def _call(call: CallItem, fields: Json) -> Json:
    function = {**fields.get("function", {}), "name": call.name, "arguments": call.said}
    return {**fields, "id": call.id, "type": "function", "function": function}


def _tool(result: ToolResultPart) -> Json:
    said = f"Error: {result.error}" if result.error else as_text(result.content)
    return {"role": "tool", "tool_call_id": result.id, "content": said}
