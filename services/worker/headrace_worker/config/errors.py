"""Errors in a configuration: each with its line, the field, the rule, and the values allowed."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from headrace.model.errors import HeadraceError
from headrace.model.field_rule import rule_of
from headrace_worker.config.model import schema

type FieldPath = tuple[str | int, ...]

type Finding = tuple[FieldPath, str]
"""A field, and the problem with it."""


_TYPES = {"python", "openai", "a2a", "mcp", "ag-ui", "bearer", "api_key", "oauth2", "[key]"}
"""Path elements that pydantic adds to a field's location; they are not in the file."""


class Unusable(HeadraceError):
    """The file can't be used; each line of the message names a line, a field and a rule."""

    code = "configuration_unusable"


class FieldUnusable(HeadraceError):
    """One field can't be used."""

    code = "configuration_unusable"

    def __init__(self, path: FieldPath, rule: str) -> None:
        """Report that the field at `path` violates `rule`."""
        super().__init__(rule)
        self.finding: Finding = (path, rule)


class Lines:
    """Formatter of findings by line and field; only by field for a configuration made in code."""

    def __init__(self, name: str = "", lines: Mapping[FieldPath, int] | None = None) -> None:
        """Format findings on the file `name`; `lines` has its fields' line numbers."""
        self._name, self._lines = name, lines or {}

    def __contains__(self, path: FieldPath) -> bool:
        return path in self._lines

    def at(self, path: FieldPath, rule: str) -> str:
        """Return a finding with its location: ``headrace.yaml:7: agents.helper.url: …``."""
        field = ".".join(map(str, path)) or "the file"
        where = f"{self._name}:{self._line(path)}: " if self._name else ""
        return f"{where}{field}: {rule}"

    def report(self, findings: list[Finding]) -> list[str]:
        """Return each finding once, in the order of the file."""
        found = sorted(dict.fromkeys(findings), key=lambda finding: self._line(finding[0]))
        return [self.at(path, rule) for path, rule in found]

    def _line(self, path: FieldPath) -> int:
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)


def fields_of(node: yaml.Node) -> Iterator[tuple[FieldPath, int]]:
    """Yield every field and its line; endless if a field contains itself."""
    ahead: deque[tuple[FieldPath, yaml.Node, int]] = deque([((), node, node.start_mark.line)])
    while ahead:
        path, node, line = ahead.popleft()
        yield path, line + 1
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                ahead.append(((*path, key.value), value, key.start_mark.line))
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                ahead.append(((*path, index), item, item.start_mark.line))


def findings(invalid: ValidationError, lines: Lines) -> Iterator[Finding]:
    """Yield the field and the rule of each error."""
    for error in invalid.errors(include_url=False):
        path, rule = _path(error["loc"], lines), rule_of(error["msg"])
        match error["type"]:
            case "extra_forbidden":
                rule = f"unknown field; {alternatives(str(path[-1]), _fields(error['loc'][:-1]))}"
            case "union_tag_invalid":
                path, rule = (*path, "type"), f"unknown; {_tags(error)}"
            case "union_tag_not_found":
                path, rule = (*path, "type"), f"is missing; {_tags(error)}"
            case "literal_error":
                rule = f"{rule}; {_guess(str(error['input']), _quoted(error))}".rstrip("; ")
            case "model_type":
                rule = "must be a mapping with fields"
        yield path, rule


def alternatives(word: str, allowed: Sequence[str]) -> str:
    """Return the closest match for `word`, and all allowed values."""
    return f"{_guess(word, allowed)}allowed: {', '.join(allowed) or 'none'}"


def _guess(word: str, allowed: Sequence[str]) -> str:
    close = get_close_matches(word, allowed, 1, 0.5)
    return f"did you mean {close[0]!r}? " if close else ""


def _tags(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    if "expected_tags" not in context:
        return "allowed: a2a and ag-ui, for an agent with a url"
    return alternatives(str(context["tag"]), _quoted(error))


def _quoted(error: ErrorDetails) -> list[str]:
    """Return the quoted values in an error's text."""
    context = error.get("ctx", {})
    text = str(context.get("expected_tags", context.get("expected", "")))
    return text.split("'")[1::2]


def _path(loc: tuple[int | str, ...], lines: Lines) -> FieldPath:
    path: FieldPath = ()
    for position, step in enumerate(loc):
        if step in _TYPES and (*path, step) not in lines and position:
            continue
        path = (*path, step)
    return path


def _fields(loc: tuple[int | str, ...]) -> list[str]:
    """Return the field names allowed at a location, from the published schema."""
    place = _schema()
    for step in loc:
        place = _within(place, step)
    return sorted(_resolved(place).get("properties", ()))


_schema = cache(schema)


def _resolved(place: dict[str, Any]) -> dict[str, Any]:
    """Return a part of the schema with references resolved and the null alternative removed."""
    while True:
        if "$ref" in place:
            place = _schema()["$defs"][place["$ref"].rpartition("/")[2]]
        elif "anyOf" in place:
            place = next(one for one in place["anyOf"] if one.get("type") != "null")
        else:
            return place


def _within(place: dict[str, Any], step: int | str) -> dict[str, Any]:
    place = _resolved(place)
    for branch in map(_resolved, place.get("oneOf", ())):
        if branch["properties"]["type"].get("const") == step:
            return branch
    named: dict[str, Any] = place.get("properties", {})
    patterns: dict[str, Any] = place.get("patternProperties", {})
    rest = [*patterns.values(), place.get("additionalProperties"), place.get("items")]
    return named.get(str(step)) or next((one for one in rest if isinstance(one, dict)), {})
