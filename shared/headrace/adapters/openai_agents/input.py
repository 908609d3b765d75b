"""Conversion of a conversation into items of the Responses API, for the OpenAI Agents SDK."""

from collections.abc import Iterable
from typing import Any

from agents import ItemHelpers
from openai.types.responses import ResponseFunctionToolCall

from headrace.adapters.as_json import as_json
from headrace.adapters.conversation.turns import CallItem, Item, ResultItem, TextItem, Turn
from headrace.adapters.openai.content import ContentNames, content_of
from headrace.model.events import Json
from headrace.model.parts import ToolResultPart

FORMAT = "openai.agents"
"""Format of what is kept verbatim. Of a response: ``items``, in the form in which the SDK sends
them back to the model, and ``agent``, the name of the agent that gave it. Of a result: what the
tool returned, or the model was sent (`logged`)."""

_PIECES = ContentNames(
    text=lambda text: {"type": "input_text", "text": text},
    image=lambda url: {"type": "input_image", "image_url": url, "detail": "auto"},
    pdf=lambda name, url: {"type": "input_file", "filename": name, "file_data": url},
)


def items_of(turns: Iterable[Turn]) -> list[Any]:
    """Return the input of a run, without an AG-UI client's system messages."""
    return [item for turn in turns for item in _items(turn)]


def response_items(turn: Turn) -> list[Json]:
    """Return the items of a model's response."""
    kept = _kept(turn).get("items")
    if isinstance(kept, list):
        return kept
    return [item for part in turn.items if (item := _item(part)) is not None]


def agent_of(turn: Turn) -> str:
    """Return the name of the agent that gave the response; empty if unknown."""
    return str(_kept(turn).get("agent") or "")


def _kept(turn: Turn) -> Json:
    kept = turn.verbatim.response if turn.verbatim and turn.verbatim.format == FORMAT else None
    return kept if isinstance(kept, dict) else {}


def _items(turn: Turn) -> list[Json]:
    match turn.role:
        case "assistant":
            return response_items(turn)
        case "tool" if turn.result is not None:
            return [_output(turn, turn.result)]
        case "user":
            return [{"role": "user", "content": content_of(turn.parts, _PIECES)}]
        case _:
            return []


def _item(item: Item) -> Json | None:
    match item:
        case TextItem() if item.text:
            return _message(item.text)
        case CallItem():
            called = {"call_id": item.id, "name": item.name, "arguments": item.arguments_json}
            return {"type": "function_call", **called}
        case ResultItem():
            return _message(item.text)
        case _:
            # Providers accept reasoning only verbatim, and only from their own model.
            return None


def _message(text: str) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    frame = {"id": "message", "type": "message", "role": "assistant", "status": "completed"}
    return {**frame, "content": content}


def returned(turn: Turn, result: ToolResultPart) -> Any:  # noqa: ANN401  # any JSON
    """Return what a tool returned: content, error, or what is kept beside these."""
    if turn.verbatim is not None and turn.verbatim.format == FORMAT:
        return turn.verbatim.response
    return result.error or result.content


def logged(value: Any) -> tuple[Any, Any]:  # noqa: ANN401  # what a tool may return
    """Return a tool's value as the log has it, and what is kept verbatim beside it; None: nothing.

    Images and files are text in the log. The SDK sends other values as Python's text of them, which
    JSON does not always have.
    """
    result, sent = as_json(value), _converted(value)
    if isinstance(sent, str):
        return result, None if sent == _converted(result) else sent
    return "\n".join(each.get("text") or _mention(each) for each in sent), result


def _mention(piece: Any) -> str:  # noqa: ANN401  # the API's types
    kind = piece["type"].removeprefix("input_")
    return f"[{kind} {piece['filename']}]" if piece.get("filename") else f"[{kind}]"


def _converted(value: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return a tool's value as the SDK sends it: pieces of content, else text."""
    call = ResponseFunctionToolCall(arguments="", call_id="", name="", type="function_call")
    return ItemHelpers.tool_call_output_item(call, value)["output"]


def _output(turn: Turn, result: ToolResultPart) -> Json:
    output = _converted(returned(turn, result))
    return {"type": "function_call_output", "call_id": result.id, "output": output}
