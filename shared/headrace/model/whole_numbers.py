"""Whole numbers that protobuf turned into floats: a Struct holds only doubles."""

from typing import Any


def whole(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return `value` with every whole float as an int."""
    if isinstance(value, dict):
        return {key: whole(one) for key, one in value.items()}
    if isinstance(value, list):
        return [whole(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
