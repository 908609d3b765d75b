"""Conversion of any value to JSON: bytes as base64, objects of unknown types as text."""

from typing import Any

from pydantic_core import to_jsonable_python


def as_json(value: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return `value` as JSON; an object that can't be converted never raises an error."""
    return to_jsonable_python(value, bytes_mode="base64", fallback=str)
