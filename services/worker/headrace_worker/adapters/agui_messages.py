"""A conversation as AG-UI messages."""

from collections.abc import Iterable, Sequence

import orjson

from headrace.model import parts
from headrace.model.events import Json
from headrace.sdk.tools import as_text
from headrace_worker.conversation import CallItem, ReasoningItem, Turn, Words, beside_answers


def messages_of(turns: Iterable[Turn], base: Sequence[Json] = ()) -> list[Json]:
    """Return the turns as the messages that an AG-UI client of the agent's would have.

    Each has the id under which the agent knows it. Calls without a result stay open; what answers
    interrupts is no message. They come behind the messages `base`, which the agent has set.
    """
    messages = _Messages(base)
    for turn in turns:
        match turn.role:
            case "assistant":
                messages.respond(turn)
            case "tool":
                messages.answer(turn)
            case "user" if turn.answers:
                if beside := beside_answers(turn.parts):
                    messages.add(turn, {"role": "user", "content": _content(beside)})
            case "user":
                messages.add(turn, {"role": "user", "content": _content(turn.parts)})
            case _:
                messages.add(turn, {"role": "system", "content": turn.text})
    return messages.all


class _Messages:
    """The messages, with an id of its own for each."""

    def __init__(self, base: Sequence[Json]) -> None:
        self.all: list[Json] = [*base]
        self._ids: set[str] = {message["id"] for message in base}
        calls = (call for message in base for call in message.get("toolCalls") or ())
        self._calls: set[str] = {call["id"] for call in calls}

    def add(self, turn: Turn, message: Json, name: str = "") -> Json:
        """Add a message, and return it; clients use ids again, and no two can have one."""
        wished = name or turn.id
        found, number = wished, 0
        while not found or found in self._ids:
            found, number = "-".join(filter(None, [wished, turn.task, f"{number}"])), number + 1
        self._ids.add(found)
        self.all.append({"id": found, **message})
        return self.all[-1]

    def answer(self, turn: Turn) -> None:
        """Add what a tool answered, if it was called."""
        result = turn.result
        if result is None or result.id not in self._calls:
            return
        error = {"error": result.error} if result.error else {}
        said = {"toolCallId": result.id, "content": as_text(result.content), **error}
        self.add(turn, {"role": "tool", **said}, turn.origin)

    def respond(self, turn: Turn) -> None:
        """Add what the agent said."""
        said: dict[str, Json] = {}
        last = ""
        for item in turn.items:
            match item:
                case ReasoningItem() if item.origin or not turn.run:
                    self._think(turn, item, said)
                case Words() if not item.asks:
                    last = item.origin or item.id or turn.id
                    message = self._said(turn, last, said)
                    message["content"] = message.get("content", "") + item.text
                case CallItem():
                    last = item.origin or last or turn.id or item.id
                    self._said(turn, last, said).setdefault("toolCalls", []).append(_call(item))
                    self._calls.add(item.id)

    def _said(self, turn: Turn, name: str, said: dict[str, Json]) -> Json:
        if name not in said:
            said[name] = self.add(turn, {"role": "assistant"}, name)
        return said[name]

    def _think(self, turn: Turn, item: ReasoningItem, said: dict[str, Json]) -> None:
        name = item.origin or item.id
        if name not in said:
            sealed = {"encryptedValue": item.encrypted} if item.encrypted else {}
            said[name] = self.add(turn, {"role": "reasoning", "content": "", **sealed}, name)
        said[name]["content"] += item.text


def _call(call: CallItem) -> Json:
    function = {"name": call.name, "arguments": call.said}
    sealed = {"encryptedValue": call.encrypted} if call.encrypted else {}
    return {"id": call.id, "type": "function", "function": function, **sealed}


def _content(said: Sequence[Json]) -> str | list[Json]:
    if all("text" in part for part in said):
        return parts.text_of(said)
    return [_piece(part) for part in said]


def _piece(part: Json) -> Json:
    if "text" in part:
        return {"type": "text", "text": part["text"]}
    if "data" in part:
        return {"type": "text", "text": orjson.dumps(part["data"]).decode()}
    media = part.get("mediaType") or "application/octet-stream"
    family = media.partition("/")[0]
    kind = family if family in {"image", "audio", "video"} else "document"
    if "url" in part:
        source = {"type": "url", "value": part["url"], "mimeType": media}
    else:
        source = {"type": "data", "value": part["raw"], "mimeType": media}
    return {"type": kind, "source": source}
