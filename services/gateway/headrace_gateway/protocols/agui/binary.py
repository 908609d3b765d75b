"""The binary form: each event is a protobuf message after its length (4 bytes, big-endian).

This encoder is written by hand because its bytes must equal those of the official encoder: fields
in the order of their numbers, JSON objects in the order of their keys.

Field numbers are those of @ag-ui/proto 1.0.0. A field is written ``name:number kind``, with ``?``
if it is optional (null means missing), ``!`` if null is a valid value, ``*`` if it repeats. Strings
have no kind. `value` is any JSON, `object` a JSON object.
"""

import re
import struct
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from headrace.model.events import Json
from headrace_gateway.protocols.agui.frame import AguiFrame

MESSAGES = {
    "BaseEvent": "type:1 enum, timestamp:2 int?, rawEvent:3 value?, metadata:4 object?",
    "JsonPatchOperation": "op:1 enum, path:2, from:3?, value:4 value!",
    "Usage": """provider:1?, model:2?, inputTokens:3 int?, outputTokens:4 int?, totalTokens:5 int?,
        reasoningTokens:6 int?, cachedInputTokens:7 int?, cacheWriteInputTokens:8 int?""",
    "Interrupt": """id:1, reason:2, message:3?, toolCallId:4?, responseSchema:5 value?,
        expiresAt:6?, metadata:7 value?, subagentRunId:8?""",
    "DataSource": "value:1, mimeType:2",
    "UrlSource": "value:1, mimeType:2?",
    "FileSource": "value:1, provider:2?, mimeType:3?",
    "Source": "data:1 DataSource?, url:2 UrlSource?, file:3 FileSource?",
    "Text": "text:1, id:2?, metadata:3 value?",
    "Media": "source:1 Source?, metadata:2 value?, id:3?",
    "Content": "text:1 Text?, image:2 Media?, audio:3 Media?, video:4 Media?, document:5 Media?",
    "Function": "name:1, arguments:2",
    "ToolCall": "id:1, type:2, function:3 Function?, metadata:4 object?, encryptedValue:5?",
    "Message": """id:1, role:2, content:3?, name:4?, toolCalls:5 ToolCall*, toolCallId:6?, error:7?,
        contentParts:8 Content*, metadata:9 object?, subagentRunId:10?, encryptedValue:11?,
        activityType:12?, activityContent:13 object?""",
}
"""Messages that events contain."""

EVENTS = (
    ("TEXT_MESSAGE_START", 0, 1, "messageId:2, role:3?, name:4?, subagentRunId:5?"),
    ("TEXT_MESSAGE_CONTENT", 1, 2, "messageId:2, delta:3, subagentRunId:4?"),
    ("TEXT_MESSAGE_END", 2, 3, "messageId:2, subagentRunId:3?"),
    (
        *("TOOL_CALL_START", 3, 4),
        "toolCallId:2, toolCallName:3, parentMessageId:4?, subagentRunId:5?",
    ),
    ("TOOL_CALL_ARGS", 4, 5, "toolCallId:2, delta:3, subagentRunId:4?"),
    ("TOOL_CALL_END", 5, 6, "toolCallId:2, subagentRunId:3?"),
    ("STATE_SNAPSHOT", 6, 7, "snapshot:2 value!, subagentRunId:3?"),
    ("STATE_DELTA", 7, 8, "delta:2 JsonPatchOperation*, subagentRunId:3?"),
    ("MESSAGES_SNAPSHOT", 8, 9, "messages:2 Message*"),
    ("RAW", 9, 10, "event:2 value!, source:3?, subagentRunId:4?"),
    ("CUSTOM", 10, 11, "name:2, value:3 value!, subagentRunId:4?"),
    ("RUN_STARTED", 11, 12, "threadId:2, runId:3, parentRunId:4?, protocolVersion:6?"),
    (
        *("RUN_FINISHED", 12, 13),
        """threadId:2, runId:3, result:4 value?, outcome:5, interrupts:6 Interrupt*, usage:7 Usage*,
        pendingToolCallIds:8*""",
    ),
    ("RUN_ERROR", 13, 14, "code:2?, message:3, usage:4 Usage*"),
    ("STEP_STARTED", 14, 15, "stepName:2, subagentRunId:3?"),
    ("STEP_FINISHED", 15, 16, "stepName:2, subagentRunId:3?"),
    (
        *("SUBAGENT_STARTED", 16, 19),
        """subagentRunId:2, name:3, description:4?, parentSubagentRunId:5?, parentToolCallId:6?,
        parentMessageId:7?""",
    ),
    ("SUBAGENT_FINISHED", 17, 20, "subagentRunId:2, result:3 value?, outcome:4, interruptIds:5*"),
    ("SUBAGENT_ERROR", 18, 21, "subagentRunId:2, message:3, code:4?"),
    (
        *("TEXT_MESSAGE_CHUNK", 19, 17),
        "messageId:2?, role:3?, delta:4?, name:5?, subagentRunId:6?",
    ),
    (
        *("TOOL_CALL_CHUNK", 20, 18),
        "toolCallId:2?, toolCallName:3?, parentMessageId:4?, delta:5?, subagentRunId:6?",
    ),
    (
        *("TOOL_CALL_RESULT", 21, 22),
        "subagentRunId:2?, messageId:3, toolCallId:4, content:5?, role:6?, contentParts:7 Content*",
    ),
    (
        *("ACTIVITY_SNAPSHOT", 22, 23),
        "subagentRunId:2?, messageId:3, activityType:4, content:5 object?, replace:6 bool?",
    ),
    (
        *("ACTIVITY_DELTA", 23, 24),
        "subagentRunId:2?, messageId:3, activityType:4, patch:5 JsonPatchOperation*",
    ),
    ("REASONING_START", 24, 25, "subagentRunId:2?, messageId:3"),
    ("REASONING_MESSAGE_START", 25, 26, "subagentRunId:2?, messageId:3, role:4"),
    ("REASONING_MESSAGE_CONTENT", 26, 27, "subagentRunId:2?, messageId:3, delta:4"),
    ("REASONING_MESSAGE_END", 27, 28, "subagentRunId:2?, messageId:3"),
    ("REASONING_MESSAGE_CHUNK", 28, 29, "subagentRunId:2?, messageId:3?, delta:4?"),
    ("REASONING_END", 29, 30, "subagentRunId:2?, messageId:3"),
    (
        *("REASONING_ENCRYPTED_VALUE", 30, 31),
        "subagentRunId:2?, subtype:3, entityId:4, encryptedValue:5",
    ),
)
"""Type, EventType number, field number in the envelope, and fields besides the base event's."""

OPERATIONS = {"add": 0, "remove": 1, "replace": 2, "move": 3, "copy": 4, "test": 5}
"""JSON Patch operations by name."""


type Write = Callable[[Any], bytes]
"""Encodes a value, without field number and length."""

_VARINT, _FIXED_64, _BYTES = 0, 1, 2
_MOST_INDEX = 2**32 - 2
_INDEX_DIGITS = 10


def varint(number: int) -> bytes:
    """Encode `number` in base 128, least significant digit first; negative numbers as 64 bits."""
    number &= 2**64 - 1
    digits = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - seven bits
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def tagged(number: int, content: bytes, *, is_varint: bool = False) -> bytes:
    """Encode a field: its number, and its content as a varint or with its length."""
    if is_varint:
        return varint(number << 3 | _VARINT) + content
    return varint(number << 3 | _BYTES) + varint(len(content)) + content


def text(value: str) -> bytes:
    """Encode a string."""
    return value.encode()


def value_bytes(value: Any) -> bytes:  # noqa: ANN401 - any JSON
    """Encode a google.protobuf.Value."""
    match value:
        case None:
            return tagged(1, b"\0", is_varint=True)
        case bool():
            return tagged(4, bytes([value]), is_varint=True)
        case int() | float():
            return varint(2 << 3 | _FIXED_64) + struct.pack("<d", value)
        case str():
            return tagged(3, value.encode())
        case dict():
            return tagged(5, object_bytes(value))
        case _:
            items: Iterable[Any] = value
            return tagged(6, b"".join([tagged(1, value_bytes(item)) for item in items]))


def object_bytes(value: Mapping[str, Any]) -> bytes:
    """Encode a google.protobuf.Struct, with the fields in JavaScript's order."""
    return b"".join([tagged(1, _entry(key, value[key])) for key in _in_order(value)])


def _entry(key: str, value: Any) -> bytes:  # noqa: ANN401 - any JSON
    return (tagged(1, key.encode()) if key else b"") + tagged(2, value_bytes(value))


def _in_order(value: Mapping[str, Any]) -> Iterable[str]:
    """Return the keys in JavaScript's order: array indices first, by number."""
    if not any(key[:1].isdecimal() for key in value):
        return value
    indices = sorted((key for key in value if _is_index(key)), key=int)
    return [*indices, *(key for key in value if not _is_index(key))]


def _is_index(key: str) -> bool:
    if not (key.isascii() and key.isdecimal() and len(key) <= _INDEX_DIGITS):
        return False
    return str(int(key)) == key and int(key) <= _MOST_INDEX


type Field = tuple[str, int, Write, str]
"""Name, number, encoder, and ``?``, ``!`` or ``*`` as in the schema."""


def message(fields: list[Field], numbers: frozenset[int], body: Json) -> bytes:
    """Encode `body` as a message of these fields; `numbers` are the varint fields."""
    pieces: list[bytes] = []
    for name, number, write, presence in fields:
        value = body.get(name)
        is_varint = number in numbers
        if presence == "*":
            pieces += [tagged(number, write(item)) for item in value or ()]
        elif presence:
            if value is not None or (presence == "!" and name in body):
                pieces.append(tagged(number, write(value), is_varint=is_varint))
        elif value:
            pieces.append(tagged(number, write(value), is_varint=is_varint))
    return b"".join(pieces)


_FIELD = re.compile(r"(\w+):(\d+)(?: (\w+))?([?!*]?)")
_SIMPLE: dict[str, Write] = {
    "": text,
    "value": value_bytes,
    "object": object_bytes,
    "int": varint,
    "enum": varint,
    "bool": varint,
}
_NUMBERS = {"int", "enum", "bool"}


def encoded(log: str, frames: list[AguiFrame]) -> bytes:  # noqa: ARG001 - required by `Encoding`; this form has no ids
    """Encode `frames` in the binary form; event types that it does not have are omitted."""
    return b"".join([_framed(frame.event) for frame in frames if frame.event["type"] in _EVENTS])


def event_bytes(event: Json) -> bytes:
    """Encode one event as a protobuf message.

    Raises:
        KeyError: the binary form does not have the event's type.
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
    """Return the event with its unions flattened into fields, as in the binary form."""
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


def _message(original: Json) -> Json:
    content = original.get("content")
    if isinstance(content, list):
        return {**original, "content": None, "contentParts": [_part(part) for part in content]}
    if original["role"] == "activity":
        return {**original, "content": None, "activityContent": content}
    return original


def _part(part: Json) -> Json:
    if part["type"] == "text":
        return {"text": part}
    source = part["source"]
    return {part["type"]: {**part, "source": {source["type"]: source}}}
