"""What users, agents and tools said, as attributes of spans: made only where content is asked for.

The shapes are those of OpenTelemetry's GenAI semantic conventions, encoded as JSON. Each value has
at most `LIMIT` characters of content; where more is left out, it says how much.
"""

from collections.abc import Iterable
from typing import Any

from headrace.model import json_text
from headrace.model.events import Json

LIMIT = 16 * 1024
"""Maximum characters of content in one attribute."""


class BoundedText:
    """Text that is collected up to `LIMIT` characters."""

    def __init__(self) -> None:
        """Begin empty."""
        self._kept: list[str] = []
        self._room = LIMIT
        self._left_out = 0

    def add(self, text: str) -> str:
        """Append `text`, and return what is kept of it."""
        kept = text[: self._room]
        self._room -= len(kept)
        self._left_out += len(text) - len(kept)
        if kept:
            self._kept.append(kept)
        return kept

    @property
    def mark(self) -> str:
        """How much was left out; empty if nothing was."""
        return f"… [{self._left_out} more characters]" if self._left_out else ""

    @property
    def text(self) -> str:
        """The text, with `mark` at its end."""
        return "".join(self._kept) + self.mark

    def json(self) -> str:
        """Return the text, which is JSON; if it was cut, as a JSON string."""
        return _encoded(self.text) if self._left_out else self.text


def value_json(value: Any) -> str:  # noqa: ANN401  # any JSON
    """Return a tool's arguments or result as JSON; if too long, as a JSON string of its beginning.

    Raises:
        TypeError: `value` is not JSON.
    """
    bounded = BoundedText()
    bounded.add(_encoded(value))
    return bounded.json()


def input_json(message: Json) -> str:
    """Return ``gen_ai.input.messages`` for an A2A message. Files are named, without content."""
    return messages_json([{"role": "user", "parts": list(map(_part, message.get("parts") or ()))}])


def messages_json(messages: Iterable[Json]) -> str:
    """Return messages of the conventions' shape as JSON, of which the end is cut.

    Raises:
        TypeError: a message is not JSON.
    """
    bounded, shown = BoundedText(), list[Json]()
    for message in messages:
        parts = _kept_parts(message["parts"], bounded)
        if parts or not message["parts"]:
            shown.append({**message, "parts": parts})
    if bounded.mark:
        shown[-1]["parts"].append(text_part(bounded.mark))
    return _encoded(shown)


def instructions_json(text: str) -> str:
    """Return ``gen_ai.system_instructions`` for a model's instructions."""
    bounded = BoundedText()
    bounded.add(text)
    return _encoded([text_part(bounded.text)])


def text_part(text: str) -> Json:
    """Return a part that is text."""
    return {"type": "text", "content": text}


def output_json(text: str, finish_reason: str) -> str:
    """Return ``gen_ai.output.messages`` for the text of an attempt; `finish_reason` is required."""
    shown = [text_part(text)] if text else []
    return _encoded([{"role": "assistant", "parts": shown, "finish_reason": finish_reason}])


def texts_of(parts: Iterable[Json]) -> Iterable[str]:
    """Return the texts among A2A parts."""
    return (part["text"] for part in parts if isinstance(part.get("text"), str))


def _part(part: Json) -> Json:
    if isinstance(text := part.get("text"), str):
        return text_part(text)
    if "data" in part:
        return {"type": "data", "content": _encoded(part["data"])}
    named = {"name": part.get("filename"), "mime_type": part.get("mediaType")}
    return {"type": "file_name", "content": _encoded(named)}


_CONTENT_FIELDS = ("content", "arguments", "response")
"""Fields of a part that hold content; a part has at most one of them."""


def _kept_parts(parts: Iterable[Json], bounded: BoundedText) -> list[Json]:
    """Return what is kept of `parts`: none of which nothing is left."""
    kept = list[Json]()
    for part in parts:
        values = {
            name: _kept_value(part[name], bounded) for name in _CONTENT_FIELDS if name in part
        }
        if not (bounded.mark and "" in values.values()):
            kept.append({**part, **values})
    return kept


def _kept_value(value: Any, bounded: BoundedText) -> Any:  # noqa: ANN401  # any JSON
    if isinstance(value, str):
        return bounded.add(value)
    whole = _encoded(value)
    return value if (kept := bounded.add(whole)) == whole else kept


def _encoded(value: Any) -> str:  # noqa: ANN401  # any JSON
    return json_text.text(value)
