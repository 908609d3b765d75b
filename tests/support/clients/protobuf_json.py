"""Protobuf messages as the JSON that the log has."""

from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from headrace.model.whole_numbers import whole

type Json = dict[str, Any]


def as_logged(message: Message) -> Json:
    """Return a message with whole numbers as such and times to the millisecond.

    Protobuf's JSON writes a Struct's numbers as doubles, and leaves out a fraction of a second
    that is zero.
    """
    found: Json = _with_milliseconds(whole(MessageToDict(message)))
    return found


def _with_milliseconds(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, list):
        return [_with_milliseconds(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: one.replace("Z", ".000Z")
        if key == "timestamp" and isinstance(one, str) and "." not in one
        else _with_milliseconds(one)
        for key, one in value.items()
    }
