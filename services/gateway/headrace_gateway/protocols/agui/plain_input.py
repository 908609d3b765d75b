"""Items of a run input that its models would return unchanged.

A client sends its whole conversation and all of its tools with each run. The models take 6 µs for
each of these, most of it to leave out fields without a value. Nearly all have required strings
alone, and recognizing them takes a tenth of that.
"""

from collections.abc import Callable

from headrace.model.events import Json

_TEXTS = ("developer", "system", "assistant", "user", "reasoning")
_STRINGS = dict.fromkeys(_TEXTS, ("id", "content")) | {"tool": ("id", "content", "toolCallId")}
"""The required fields of a message beside its role, by that; all are strings."""


def is_plain_message(message: object) -> bool:
    """Return whether the models would return the message, any JSON value, unchanged."""
    if not isinstance(message, dict) or not isinstance(role := message.get("role"), str):
        return False
    if (names := _STRINGS.get(role)) is None:
        return False
    if len(message) != len(names) + 1:
        return role == "assistant" and _calls_plainly(message)
    # Without a generator, which takes as long again: there are many messages.
    for name in names:
        if not isinstance(message.get(name), str):
            return role == "assistant" and _calls_plainly(message)
    return True


def _calls_plainly(message: Json) -> bool:
    """Return whether that is so for an assistant's message, which makes tool calls."""
    names = ("id", "content") if "content" in message else ("id",)
    calls = message.get("toolCalls")
    return (
        isinstance(calls, list)
        and _has_strings(message, (*names, "role"), 1)
        and all(map(_is_plain_call, calls))
    )


def _is_plain_call(call: object) -> bool:
    return (
        isinstance(call, dict)
        and call.get("type") == "function"
        and _has_strings(call, ("id", "type"), 1)
        and isinstance(function := call.get("function"), dict)
        and _has_strings(function, ("name", "arguments"), 0)
    )


def is_plain_tool(tool: object) -> bool:
    """Return whether the models would return the tool, any JSON value, unchanged."""
    return (
        isinstance(tool, dict)
        and tool.get("parameters") is not None
        and _has_strings(tool, ("name", "description"), 1)
    )


def _has_strings(found: Json, names: tuple[str, ...], others: int) -> bool:
    """Return whether `found` has a string of each name, and as many other fields."""
    if len(found) != len(names) + others:
        return False
    return all(isinstance(found.get(name), str) for name in names)


_PLAIN: dict[str, Callable[[object], bool]] = {
    "messages": is_plain_message,
    "tools": is_plain_tool,
}
"""Recognizes the plain items of a list, by the input's field."""


class PlainItems:
    """The plain items of one input, which need not pass through the models."""

    def __init__(self, body: Json) -> None:
        """Recognize those of `body`."""
        self._body = body
        self._are_plain = {
            name: list(map(is_plain, items))
            for name, is_plain in _PLAIN.items()
            if isinstance(items := body.get(name), list)
        }

    def without(self) -> Json:
        """Return the input without them."""
        rest = {
            name: [one for one, plain in zip(self._body[name], are_plain, strict=True) if not plain]
            for name, are_plain in self._are_plain.items()
        }
        return self._body | rest

    def returned_to(self, validated: Json) -> Json:
        """Return `validated`, what the models made of the input without them, with them."""
        whole = dict(validated)
        for name, are_plain in self._are_plain.items():
            rest, items = iter(validated[name]), zip(self._body[name], are_plain, strict=True)
            whole[name] = [one if plain else next(rest) for one, plain in items]
        return whole
