"""The arguments of an ADK call that streams, as JSON text."""

import re
from typing import Any

from google.genai import types

from headrace.model import json_text
from headrace.model.events import Json

_KEY = re.compile(r"\$\.([A-Za-z_]\w*)")
"""JSON path of a top-level argument."""


class ArgumentsText:
    """Assembles the JSON text of one streaming call's arguments.

    Strings, numbers and booleans are emitted as they arrive. After a piece of an object or a list,
    the rest is emitted at the end, when the complete arguments are known.
    """

    def __init__(self) -> None:
        """Start without arguments."""
        self._emitted: Json = {}
        self._open = ""
        self._waits = False

    def add(self, piece: types.PartialArg) -> str:
        """Return the text that a piece adds; empty if it must wait for the complete arguments."""
        found = _KEY.fullmatch(piece.json_path or "")
        key = found[1] if found else ""
        if piece.string_value is not None and key and key == self._open and not self._waits:
            self._emitted[key] += piece.string_value
            return _inside(piece.string_value)
        value = _value(piece)
        self._waits |= not key or key in self._emitted or value is None
        if self._waits:
            return ""
        begins = self._next(key)
        self._emitted[key] = value
        if not isinstance(value, str):
            return begins + _json(value)
        self._open = key
        return f'{begins}"{_inside(value)}'

    def rest(self, arguments: Json) -> str:
        """Return the text that is still missing from the complete `arguments`."""
        text = ""
        if self._open:
            complete, emitted = arguments.get(self._open), self._emitted[self._open]
            if isinstance(complete, str) and complete.startswith(emitted):
                text = _inside(complete[len(emitted) :])
        for key, value in arguments.items():
            if key not in self._emitted:
                text += self._next(key) + _json(value)
                self._emitted[key] = value
        ends = '"' if self._open else ""
        return f"{text}{ends}}}" if self._emitted else "{}"

    def _next(self, key: str) -> str:
        ends, self._open = '"' if self._open else "", ""
        return f"{ends}{',' if self._emitted else '{'}{_json(key)}:"


def _value(piece: types.PartialArg) -> Any:  # noqa: ANN401  # any JSON
    """Return the piece's plain value, or None if it has none."""
    number = piece.number_value
    if number is not None:
        return int(number) if number.is_integer() else number
    return piece.string_value if piece.bool_value is None else piece.bool_value


def _json(value: Any) -> str:  # noqa: ANN401  # any JSON
    return json_text.text(value)


def _inside(value: str) -> str:
    """Return text as it appears between the quotes of a JSON string."""
    return _json(value)[1:-1]
