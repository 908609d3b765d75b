"""What users, agents and tools said, as attributes of spans: made only where content is asked for.

The shapes are those of OpenTelemetry's GenAI semantic conventions, encoded as JSON. Each value has
at most `LIMIT` characters of content; where more is left out, it says how much.
"""

from collections.abc import Iterable
from typing import Any

import orjson

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
    bounded = BoundedText()
    shown = [_part(part, bounded) for part in message.get("parts") or ()]
    if bounded.mark:
        shown = [part for part in shown if part.get("content") != ""]
        shown.append({"type": "text", "content": bounded.mark})
    return _encoded([{"role": "user", "parts": shown}])


def output_json(text: str, finish_reason: str) -> str:
    """Return ``gen_ai.output.messages`` for the text of an attempt; `finish_reason` is required."""
    shown = [{"type": "text", "content": text}] if text else []
    return _encoded([{"role": "assistant", "parts": shown, "finish_reason": finish_reason}])


def texts_of(parts: Iterable[Json]) -> Iterable[str]:
    """Return the texts among A2A parts."""
    return (part["text"] for part in parts if isinstance(part.get("text"), str))


def _part(part: Json, bounded: BoundedText) -> Json:
    if isinstance(text := part.get("text"), str):
        return {"type": "text", "content": bounded.add(text)}
    if "data" in part:
        return {"type": "data", "content": bounded.add(_encoded(part["data"]))}
    named = {"name": part.get("filename"), "mime_type": part.get("mediaType")}
    return {"type": "file_name", "content": bounded.add(_encoded(named))}


def _encoded(value: Any) -> str:  # noqa: ANN401  # any JSON
    return orjson.dumps(value).decode()
