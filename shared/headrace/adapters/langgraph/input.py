"""Conversion of a run into a graph's input."""

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.channels import BinaryOperatorAggregate
from langgraph.pregel import Pregel
from langgraph.types import Overwrite

from headrace.adapters.as_json import as_json
from headrace.adapters.conversation.memory import Memory, conversation, with_content
from headrace.adapters.conversation.turns import Item, ResultItem, Turn, answered, user_turn
from headrace.adapters.langgraph.calls import graphs_id
from headrace.adapters.langgraph.threads import RunStart
from headrace.model import json_text
from headrace.model.events import Json
from headrace.model.parts import text_of
from headrace.sdk.context import RunContext


def messages_of(turns: Sequence[Turn]) -> list[AnyMessage]:
    """Return the turns as messages."""
    return [_message(turn) for turn in turns]


def human(content: Sequence[Json]) -> HumanMessage:
    """Return the user's A2A Parts as a message."""
    if all("text" in part for part in content):
        return HumanMessage(text_of(content))
    blocks: Any = [_block(part) for part in content]
    return HumanMessage(content_blocks=blocks)


def _message(turn: Turn) -> AnyMessage:
    if turn.role == "assistant":
        calls: Any = [
            {"name": call.name, "args": _arguments(call.arguments), "id": call.id}
            for call in turn.calls
        ]
        results = [item.text for item in turn.items if isinstance(item, ResultItem)]
        return AIMessage("\n".join(filter(None, [turn.text, *results])), tool_calls=calls)
    if turn.role == "tool" and turn.result is not None:
        result = turn.result
        text = result.error or json_text.as_text(result.content)
        status: Any = "error" if result.error else "success"
        return ToolMessage(text, tool_call_id=result.id, status=status)
    return SystemMessage(turn.text) if turn.role == "system" else human(turn.parts)


def _arguments(arguments: Any) -> Any:  # noqa: ANN401  # any JSON
    return arguments if isinstance(arguments, dict) else {"input": arguments}


_MEDIA = frozenset({"image", "audio", "video"})
"""Kinds of media that have a kind of block; other files are all of one kind."""


def _block(part: Json) -> Json:
    media = part.get("mediaType") or "application/octet-stream"
    if "text" in part:
        return {"type": "text", "text": part["text"]}
    if "data" in part:
        return {"type": "text", "text": json_text.text(part["data"])}
    kind = media.partition("/")[0]
    if kind == "text" and "raw" in part:
        # Clients of models take no other block for a text file.
        return {"type": "text", "text": b64decode(part["raw"]).decode(errors="replace")}
    place = {"url": part["url"]} if "url" in part else {"base64": part["raw"]}
    if kind in _MEDIA:
        return {"type": kind, "mime_type": media, **place}
    named = {"filename": part["filename"]} if part.get("filename") else {}
    return {"type": "file", "mime_type": media, **place, **named}


async def input_for(
    ctx: RunContext,
    graph: Pregel[Any, Any, Any, Any],
    start: RunStart | None,
    memory: Memory,
    output: str,
) -> Json:
    """Return the messages that are new to a graph, and what an AG-UI client sent with them.

    The client's tools and its context are under ``tools`` and ``ag-ui``, if the graph has such
    keys. `output` is the key of the graph's answer.

    Raises:
        Retryable: The conversation or a file can't be read now.
        BusUnavailable: The bus does not answer.
    """
    if start is None:
        turns = answered(await conversation(ctx, memory))
    else:
        own = user_turn(ctx.message, ctx.task, ctx.run)
        turns = _with_earlier(start.earlier, own)
        for turn in turns:
            turn.parts = await with_content(ctx, turn.parts)
    messages = messages_of(_without_output(turns, output))
    if start is not None:
        _name_as_the_graph(messages, start.values)
    given: Json = {"messages": messages}
    tools, context = ctx.agui.get("tools") or [], ctx.agui.get("context") or []
    from_client = {"tools": tools, "ag-ui": {"tools": tools, "context": context}}
    return given | {key: value for key, value in from_client.items() if key in graph.channels}


def _name_as_the_graph(messages: Sequence[AnyMessage], values: Any) -> None:  # noqa: ANN401  # a graph's state
    """Give the results of the client's tools the ids that the calls have in the graph."""
    held = values.get("messages") if isinstance(values, dict) else None
    last = held[-1] if isinstance(held, list) and held else None
    calls = [call["id"] or "" for call in last.tool_calls] if isinstance(last, AIMessage) else []
    for message in messages:
        if isinstance(message, ToolMessage):
            message.tool_call_id = graphs_id(message.tool_call_id, calls)


def _with_earlier(earlier: Sequence[Turn], own: Sequence[Turn]) -> list[Turn]:
    """Return the earlier turns, with every call answered, and then the run's own."""
    calls = {call.id for turn in earlier for call in turn.calls}
    if any(turn.result is not None and turn.result.id in calls for turn in own):
        return answered([*earlier, *own])
    return [*answered(earlier), *own]


def _without_output(turns: Sequence[Turn], output: str) -> list[Turn]:
    """Return the turns without data that only restate in another form what a model has said.

    A graph keeps these under the key `output`, and not among its messages. They stay where a run
    has nothing else that an answer could be remembered by.
    """
    answers = (turn for turn in turns if turn.role == "assistant" and (turn.text or turn.calls))
    spoke = {(turn.task, turn.run) for turn in answers}
    kept = list[Turn]()
    for turn in turns:
        if turn.role == "assistant" and (turn.task, turn.run) in spoke:
            items = [item for item in turn.items if not _is_output(item, output)]
            if items:
                kept.append(replace(turn, items=items))
        else:
            kept.append(turn)
    return kept


def _is_output(item: Item, output: str) -> bool:
    return isinstance(item, ResultItem) and "data" in item.part and item.name == output


def shared_state(
    ctx: RunContext,
    graph: Pregel[Any, Any, Any, Any],
    start: RunStart | None,
    state_keys: Sequence[str],
) -> Json:
    """Return the client's state for `state_keys`, where it differs from the graph's."""
    known = start.values if start is not None and isinstance(start.values, dict) else {}
    state = ctx.agui.get("state")
    if not isinstance(state, dict):
        return {}
    changed = {
        key: state[key]
        for key in state_keys
        if key in state and (key not in known or as_json(known[key]) != state[key])
    }
    return {key: _instead(graph, key, value) for key, value in changed.items()}


def _instead(graph: Pregel[Any, Any, Any, Any], key: str, value: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return an update that sets a key, bypassing its reducer."""
    reduces = isinstance(graph.channels.get(key), BinaryOperatorAggregate)
    return Overwrite(value) if reduces else value
