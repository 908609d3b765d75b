"""Findings on invalid fields, each with the values allowed."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from headrace_worker.config.lines import FieldPath, Finding, Lines
from headrace_worker.config.model import schema

_TYPES = {"python", "openai", "a2a", "mcp", "ag-ui", "bearer", "api_key", "oauth2", "[key]"}
"""Path elements that pydantic adds to a field's location; they are not in the file."""


def findings(invalid: ValidationError, lines: Lines) -> Iterator[Finding]:
    """Yield the field and the rule of each error."""
    for error in invalid.errors(include_url=False):
        path, rule = _path(error["loc"], lines), error["msg"].removeprefix("Value error, ")
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
