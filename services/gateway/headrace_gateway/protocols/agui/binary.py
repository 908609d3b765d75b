"""The binary form: each event a protobuf message behind its length (4 bytes, big-endian).

Written by hand, for the bytes are to be those of the official encoder: fields in order of their
numbers, JSON objects in the order of their keys.
"""

import re
from functools import partial

from headrace.model.events import Json
from headrace_gateway.protocols.agui.binary_schema import EVENTS, MESSAGES, OPERATIONS
from headrace_gateway.protocols.agui.frame import Frame
from headrace_gateway.protocols.agui.wire import (
    Field,
    Write,
    message,
    object_bytes,
    tagged,
    value_bytes,
    varint,
)
from headrace_gateway.protocols.agui.wire import text as text_bytes

_FIELD = re.compile(r"(\w+):(\d+)(?: (\w+))?([?!*]?)")
_SIMPLE: dict[str, Write] = {
    "": text_bytes,
    "value": value_bytes,
    "object": object_bytes,
    "int": varint,
    "enum": varint,
    "bool": varint,
}
_NUMBERS = {"int", "enum", "bool"}


def encoded(log: str, frames: list[Frame]) -> bytes:  # noqa: ARG001 - an `Encoding`: no place for ids
    """Return `told` as binary frames; events that the binary form does not know are left out."""
    return b"".join([_framed(frame.event) for frame in frames if frame.event["type"] in _EVENTS])


def event_bytes(event: Json) -> bytes:
    """Return one event as a protobuf message.

    Raises:
        KeyError: the binary form does not know its type.
    """
    kind, number, write = _EVENTS[event["type"]]
    base = {"type": kind, **{key: event[key] for key in _BASE if key in event}}
    content = tagged(1, _base(base)) + write(_flat(event))
    return tagged(number, content)


def _framed(event: Json) -> bytes:
    content = event_bytes(event)
    return len(content).to_bytes(4) + content


def _writer(fields: str) -> Write:
    read, numbers = list[Field](), set[int]()
    for name, number, kind, presence in _FIELD.findall(fields):
        write = _SIMPLE.get(kind) or _WRITERS[kind]
        read.append((name, int(number), write, presence))
        if kind in _NUMBERS:
            numbers.add(int(number))
    return partial(message, read, frozenset(numbers))


_WRITERS: dict[str, Write] = {}
for _name, _fields in MESSAGES.items():
    _WRITERS[_name] = _writer(_fields)

_EVENTS = {name: (kind, number, _writer(fields)) for name, kind, number, fields in EVENTS}
_base = _WRITERS["BaseEvent"]
_BASE = ("timestamp", "rawEvent", "metadata")


def _flat(event: Json) -> Json:
    """Return the event with its unions spread over fields, as the binary form has them."""
    match event["type"]:
        case "RUN_FINISHED" | "SUBAGENT_FINISHED":
            outcome = event.get("outcome") or {"type": ""}
            return {**event, **outcome, "type": "", "outcome": outcome["type"]}
        case "STATE_DELTA":
            return {**event, "delta": [_operation(one) for one in event["delta"]]}
        case "ACTIVITY_DELTA":
            return {**event, "patch": [_operation(one) for one in event["patch"]]}
        case "MESSAGES_SNAPSHOT":
            return {**event, "messages": [_message(one) for one in event["messages"]]}
        case _:
            return event


def _operation(operation: Json) -> Json:
    return {**operation, "op": OPERATIONS[operation["op"]]}


def _message(said: Json) -> Json:
    content = said.get("content")
    if isinstance(content, list):
        return {**said, "content": None, "contentParts": [_part(part) for part in content]}
    if said["role"] == "activity":
        return {**said, "content": None, "activityContent": content}
    return said


def _part(part: Json) -> Json:
    if part["type"] == "text":
        return {"text": part}
    source = part["source"]
    return {part["type"]: {**part, "source": {source["type"]: source}}}
