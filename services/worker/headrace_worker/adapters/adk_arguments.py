"""A tool call's arguments as JSON text, of the pieces by path in which ADK's models stream them."""

import re
from typing import Any

import orjson

from headrace.model.events import Json
from headrace_worker.adapters.extras import needs

with needs("google-adk"):
    from google.genai import types

_KEY = re.compile(r"\$\.([A-Za-z_]\w*)")
"""The path of an argument that is no part of another."""


class ArgumentsText:
    """Puts together the text of one call's arguments.

    Text, numbers and other plain values are told as they come. What follows a piece of an object or
    of a list is told at the end, when the whole is known.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._told: Json = {}
        self._open = ""
        self._waits = False

    def add(self, piece: types.PartialArg) -> str:
        """Return the text that a piece adds; empty where it has to wait for the rest."""
        found = _KEY.fullmatch(piece.json_path or "")
        key = found[1] if found else ""
        if piece.string_value is not None and key and key == self._open and not self._waits:
            self._told[key] += piece.string_value
            return _inside(piece.string_value)
        value = _value(piece)
        self._waits |= not key or key in self._told or value is None
        if self._waits:
            return ""
        begins = self._next(key)
        self._told[key] = value
        if not isinstance(value, str):
            return begins + _text(value)
        self._open = key
        return f'{begins}"{_inside(value)}'

    def rest(self, arguments: Json) -> str:
        """Return the text that is missing to the whole `arguments`."""
        text = ""
        if self._open:
            whole, told = arguments.get(self._open), self._told[self._open]
            if isinstance(whole, str) and whole.startswith(told):
                text = _inside(whole[len(told) :])
        for key, value in arguments.items():
            if key not in self._told:
                text += self._next(key) + _text(value)
                self._told[key] = value
        ends = '"' if self._open else ""
        return f"{text}{ends}}}" if self._told else "{}"

    def _next(self, key: str) -> str:
        ends, self._open = '"' if self._open else "", ""
        return f"{ends}{',' if self._told else '{'}{_text(key)}:"


def _value(piece: types.PartialArg) -> Any:  # noqa: ANN401  # any JSON
    """Return a plain value; None: it is none, or nothing."""
    number = piece.number_value
    if number is not None:
        return int(number) if number.is_integer() else number
    return piece.string_value if piece.bool_value is None else piece.bool_value


def _text(value: Any) -> str:  # noqa: ANN401  # any JSON
    return orjson.dumps(value).decode()


def _inside(said: str) -> str:
    """Return text as it stands between the quotes of a JSON string."""
    return _text(said)[1:-1]
