"""Spans as OTLP's bytes, for a ninth of the processor time of the exporter's own encoder.

That encoder makes two protobuf messages per attribute, and hashes the JSON of the resource for each
span. Spans as Headrace makes them, with attributes that are text or whole numbers and without
events or links, are written here, with what their template states written once. All others are left
to it, as the bytes of requests can be joined. Needs the extra `opentelemetry`.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from types import MappingProxyType
from typing import Any, NamedTuple

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, Status, StatusCode

from headrace.span_recorder import UNSET, Origin, RecordedSpan, UsualParts
from headrace.span_template import SpanTemplate

# Functions are called as few times as can be: a call takes longer than what most of them would do.
# A field is its tag, which is its number times 8 and its wire type, and its value. Wire type 0 is a
# number with 7 bits in a byte, 1 and 5 are numbers of 8 and 4 bytes, 2 is a length and the bytes.
_RESOURCE_SPANS = b"\x0a"
_SCOPE_SPANS = b"\x12"
_SPANS = b"\x12"
# The ids of a trace, which has two halves here, of a span and of its parent.
_IDS_OF_ROOT, _IDS = Struct(">2sQQ2sQ").pack, Struct(">2sQQ2sQ2sQ").pack
_TRACE_ID, _SPAN_ID, _PARENT_SPAN_ID = b"\x0a\x10", b"\x12\x08", b"\x22\x08"
_HALF = 2**64 - 1
_NAME = b"\x2a"
_TIMES = Struct("<BQBQ").pack
_START_TIME, _END_TIME = 0x39, 0x41
_ATTRIBUTES = b"\x4a"
_KEY, _VALUE = b"\x0a", b"\x12"
_STRING, _BOOL, _INT = b"\x0a", b"\x10", b"\x18"
_KINDS = {
    SpanKind.INTERNAL: b"\x30\x01",
    SpanKind.SERVER: b"\x30\x02",
    SpanKind.CLIENT: b"\x30\x03",
    SpanKind.PRODUCER: b"\x30\x04",
    SpanKind.CONSUMER: b"\x30\x05",
}
_STATUSES = {
    StatusCode.UNSET: b"\x7a\x00",
    StatusCode.OK: b"\x7a\x02\x18\x01",
    StatusCode.ERROR: b"\x7a\x02\x18\x02",
}
# Whether the parent is in another process is known, and it is or is not.
_FLAGS = {True: b"\x85\x01\x00\x03\x00\x00", False: b"\x85\x01\x00\x01\x00\x00"}

_MOST_INT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class EncodedSpans:
    """An OTLP request for spans, as the exporter takes it."""

    data: bytes

    def SerializePartialToString(self) -> bytes:  # noqa: N802 - protobuf's name
        """Return the request's bytes."""
        return self.data


def use_in_exporter() -> None:
    """Have OTLP's exporter over HTTP encode spans with this module."""
    trace_exporter.encode_spans = encode  # type: ignore[assignment, attr-defined]


def encode(spans: Sequence[ReadableSpan]) -> EncodedSpans:
    """Encode spans, which may be of several resources and scopes."""
    # By identity: to compare two resources costs more than to encode a span.
    groups = defaultdict[int, dict[int, _EncodedScope]](dict)
    left = list[ReadableSpan]()
    origin: Origin | None = None
    into = list[bytes]()
    for span in spans:
        usual = span.usual_parts() if type(span) is RecordedSpan else _usual_parts(span)
        encoded = None if usual is None else _encoded(usual)
        if usual is None or encoded is None:
            left.append(span)
            continue
        if usual[0] is not origin:
            origin = usual[0]
            scopes, scope = groups[id(origin[0])], id(origin[1])
            into = scopes.setdefault(scope, _EncodedScope(span, [])).encoded
        size = len(encoded)
        into += (_HEADS[size] if size < _MANY else _SPANS + _varint(size), encoded)
    parts = [_of_resource(list(scopes.values())) for scopes in groups.values()]
    if left:
        parts.append(encode_spans(left).SerializePartialToString())
    return EncodedSpans(b"".join(parts))


class _EncodedScope(NamedTuple):
    """Encoded spans of one resource and scope, each after its head, and a span that has these."""

    span: ReadableSpan
    encoded: list[bytes]


def _of_resource(scopes: Sequence[_EncodedScope]) -> bytes:
    # What stands around the spans is encoded by the library.
    [resource] = encode_spans([scopes[0].span]).resource_spans
    resource.ClearField("scope_spans")
    parts = [resource.SerializePartialToString()]
    for span, encoded in scopes:
        [scope] = encode_spans([span]).resource_spans[0].scope_spans
        scope.ClearField("spans")
        in_scope = b"".join([scope.SerializePartialToString(), *encoded])
        parts.append(_SCOPE_SPANS + _sized(in_scope))
    return _RESOURCE_SPANS + _sized(b"".join(parts))


def _encoded(usual: UsualParts) -> bytes | None:
    """Return a span's bytes; None for one that is left to the exporter's encoder."""
    _, template, attributes, context, parent, start, end, status = usual
    trace, span, is_remote = context[0], context[1], False
    ids = _TRACE_ID, trace >> 64, trace & _HALF, _SPAN_ID, span
    try:
        if parent is None:
            written = _IDS_OF_ROOT(*ids)
        else:
            written, is_remote = _IDS(*ids, _PARENT_SPAN_ID, parent[1]), parent[2]
        name_and_kind, constants = template.encoded or _template(template)
        parts = [written, name_and_kind, _TIMES(_START_TIME, start, _END_TIME, end), constants]
        for key, value in attributes.items():
            if type(value) is str:
                data = value.encode()
                parts += (_text_head(key, len(data)), data)
            else:
                parts += (_attribute(key, value),)
    except (TypeError, ValueError):  # A value that can't be hashed, or not be encoded here.
        return None
    parts += (_UNSET_ENDS[is_remote] if status is UNSET else _end(status, is_remote=is_remote),)
    return b"".join(parts)


def _usual_parts(span: ReadableSpan) -> UsualParts | None:
    """Return what `RecordedSpan.usual_parts` does, of a span that the SDK recorded."""
    context, status = span.context, span.status
    scope = span.instrumentation_scope
    if context is None or scope is None or span.start_time is None or span.end_time is None:
        return None
    if span.events or span.links or context.trace_state or status.description:
        return None
    if span.dropped_attributes or span.dropped_events or span.dropped_links:
        return None
    # A copy, because reading the attributes one by one takes a lock for each.
    attributes: MappingProxyType[str, Any] = span.attributes  # type: ignore[assignment]
    template = SpanTemplate(span.name, span.kind)
    times = span.start_time, span.end_time
    origin = span.resource, scope
    return origin, template, attributes.copy(), context, span.parent, *times, status


def _template(template: SpanTemplate) -> tuple[bytes, bytes]:
    """Encode a template: return the bytes of its name and kind, and of its attributes.

    Raises:
        ValueError: They are left to the exporter's encoder.
    """
    attributes = [_attribute(key, value) for key, value in template.attributes.items()]
    encoded = _named(template.name) + _KINDS[template.kind], b"".join(attributes)
    template.encoded = encoded
    return encoded


def _end(status: Status, *, is_remote: bool) -> bytes:
    return _STATUSES[status.status_code] + _FLAGS[is_remote]


_UNSET_ENDS = {is_remote: _end(UNSET, is_remote=is_remote) for is_remote in (False, True)}


@lru_cache(maxsize=1024)
def _text_head(key: str, size: int) -> bytes:
    """Return what stands before a text of `size` bytes."""
    text = _STRING + _varint(size)
    value = _VALUE + _varint(len(text) + size) + text
    named = _KEY + _sized(key.encode())
    return _ATTRIBUTES + _varint(len(named) + len(value) + size) + named + value


# Few numbers are large. By type, as True and 1 are equal.
@lru_cache(maxsize=1024, typed=True)
def _attribute(key: str, value: object) -> bytes:
    """Return the bytes of an attribute.

    Raises:
        ValueError: It is left to the exporter's encoder.
    """
    return _ATTRIBUTES + _sized(_KEY + _sized(key.encode()) + _VALUE + _sized(_value(value)))


def _value(value: object) -> bytes:
    if isinstance(value, str):
        return _STRING + _sized(value.encode())
    if isinstance(value, bool):
        return _BOOL + bytes((value,))
    if isinstance(value, int) and 0 <= value <= _MOST_INT:
        return _INT + _varint(value)
    raise ValueError(value)


@lru_cache(maxsize=1024)
def _named(name: str) -> bytes:
    return _NAME + _sized(name.encode())


def _sized(data: bytes) -> bytes:
    size = len(data)
    return (_LAST[size] if size < len(_LAST) else _varint(size)) + data


def _varint(number: int) -> bytes:
    if number < len(_LAST):
        return _LAST[number]
    high = number >> 7
    return _CONTINUED[number & 0x7F] + (_LAST[high] if high < len(_LAST) else _varint(high))


_LAST = [bytes((number,)) for number in range(128)]
_CONTINUED = [bytes((number | 0x80,)) for number in range(128)]
"""Seven bits with another byte after them."""

_MANY = 2048
_HEADS = [_SPANS + _varint(size) for size in range(_MANY)]
"""What stands before a span, by its size."""
