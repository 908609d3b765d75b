"""What agents from elsewhere make, as JSON: bytes as base64, objects of no known type as text."""

from typing import Any

from pydantic_core import to_jsonable_python


def as_json(value: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return `value` as JSON; nothing fails because somebody else's object is none."""
    return to_jsonable_python(value, bytes_mode="base64", fallback=str)
