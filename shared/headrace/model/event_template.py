"""What a trigger takes from an event: dotted paths, texts with paths in them, and conditions.

Nothing is evaluated: an event is data, so a path names one value and no expression.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from headrace.model import json_text
from headrace.model.errors import HeadraceError
from headrace.model.nesting import RULE, is_too_deep

type Scalar = str | int | float | bool | None

_PATH = re.compile(r"(?:subject|headers|body)(?:\.[^.{}\s]+)*")
_HOLE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_INDEX = re.compile(r"[0-9]{1,9}")
_PATH_RULE = (
    "must be subject, headers.NAME or body, followed by names and numbers with dots between"
)


MOST_FILLED = 8 * 1024 * 1024
"""Maximum size of a message that a template makes: a short one may name a large value often."""


class PathMissing(HeadraceError):
    """The event has no value at a path that a trigger needs."""

    code = "path_missing"


@dataclass(frozen=True, slots=True)
class Event:
    """An event as templates see it."""

    subject: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: object = None
    """The parsed JSON; the text of a body that is no JSON."""

    @classmethod
    def of(cls, subject: str, headers: Mapping[str, str] | None, data: bytes) -> "Event":
        """Return the event of a message.

        Raises:
            PathMissing: its body is neither JSON nor text, or nested too deep.
        """
        body: object
        try:
            body = json_text.decode_foreign(data)
        except orjson.JSONDecodeError:
            try:
                body = data.decode()
            except UnicodeDecodeError:
                raise PathMissing("the body is neither JSON nor UTF-8 text") from None
        if is_too_deep(body):
            raise PathMissing(f"the body {RULE}")
        return cls(subject, headers or {}, body)

    def at(self, path: str) -> object:
        """Return the value at a path.

        Raises:
            PathMissing: there is none.
        """
        root, *names = path.split(".")
        if root == "headers":
            name = ".".join(names)
            if name not in self.headers:
                raise PathMissing(f"the event has no header {name!r}")
            return self.headers[name]
        value: object = self.subject.split(".") if root == "subject" and names else self.subject
        if root == "body":
            value = self.body
        for name in names:
            value = _member(value, name, path)
        return value

    def has(self, path: str) -> bool:
        """Return whether there is a value at a path."""
        try:
            self.at(path)
        except PathMissing:
            return False
        return True


def _member(value: object, name: str, path: str) -> object:
    if isinstance(value, dict) and name in value:
        return value[name]
    if isinstance(value, list) and _INDEX.fullmatch(name) and int(name) < len(value):
        return value[int(name)]
    raise PathMissing(f"the event has no {path!r}")


def why_no_path(path: str) -> str | None:
    """Return why `path` is not a path. None: it is one."""
    return None if _PATH.fullmatch(path) and path != "headers" else f"{path!r} {_PATH_RULE}"


def why_no_template(template: str) -> str | None:
    """Return why `template` is not a text with paths in braces. None: it is one."""
    for found in _HOLE.finditer(template):
        if found[0] in {"{{", "}}"}:
            continue
        if found[1] is None:
            return "has a single brace; write {{ or }} for a brace"
        if (why := why_no_path(found[1])) is not None:
            return why
    return None


def filled(template: str, event: Event) -> str:
    """Return the template with the event's values in place of its paths.

    Raises:
        PathMissing: the event has no such value, or the text becomes too large.
    """
    room = _Room()

    def value(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0][0]
        return room.reserved(json_text.as_text(event.at(found[1])))

    return _HOLE.sub(value, template)


def picked(paths: Mapping[str, str], event: Event) -> dict[str, object]:
    """Return the event's values at the paths, by name.

    Raises:
        PathMissing: the event has no such value, or together they become too large.
    """
    found, room = dict[str, object](), _Room()
    for name, path in paths.items():
        found[name] = event.at(path)
        room.reserved(json_text.as_text(found[name]))
    return found


class _Room:
    """What is left of the size that a message may have."""

    def __init__(self) -> None:
        self._left = MOST_FILLED

    def reserved(self, text: str) -> str:
        """Return the text, which takes room.

        Raises:
            PathMissing: there is not enough left.
        """
        self._left -= len(text)
        if self._left < 0:
            raise PathMissing(f"the message becomes larger than {MOST_FILLED} characters")
        return text
