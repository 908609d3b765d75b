"""What a trigger takes from an event: dotted paths, texts with paths in them, and conditions.

Nothing is evaluated: an event is data, so a path names one value and no expression.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from headrace.model.errors import HeadraceError

type Scalar = str | int | float | bool | None

_PATH = re.compile(r"(?:subject|headers|body)(?:\.[^.{}\s]+)*")
_HOLE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_RULE = "must be subject, headers.NAME or body, followed by names and numbers with dots between"


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
            PathMissing: its body is neither JSON nor text.
        """
        body: object
        try:
            body = orjson.loads(data)
        except orjson.JSONDecodeError:
            try:
                body = data.decode()
            except UnicodeDecodeError:
                raise PathMissing("the body is neither JSON nor UTF-8 text") from None
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
    if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
        return value[int(name)]
    raise PathMissing(f"the event has no {path!r}")


def why_no_path(path: str) -> str | None:
    """Return why `path` is not a path. None: it is one."""
    return None if _PATH.fullmatch(path) and path != "headers" else f"{path!r} {_RULE}"


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
        PathMissing: the event has no such value.
    """

    def value(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0][0]
        return _text(event.at(found[1]))

    return _HOLE.sub(value, template)


def _text(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
