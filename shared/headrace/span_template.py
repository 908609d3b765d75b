"""What spans of one operation have in common, and what a span is made of."""

from collections.abc import Mapping
from typing import Any

from opentelemetry.trace import (
    DEFAULT_TRACE_STATE,
    SpanContext,
    SpanKind,
    TraceFlags,
    TraceState,
)

type Plain = str | bool | int | float
"""Value of an attribute that nothing has to check or copy."""

_NO_ATTRIBUTES: Mapping[str, Plain] = {}


class SpanTemplate:
    """What the spans of one operation have in common. If it is kept, it is encoded only once."""

    __slots__ = "attributes", "encoded", "kind", "name"

    def __init__(
        self, name: str, kind: SpanKind, attributes: Mapping[str, Plain] = _NO_ATTRIBUTES
    ) -> None:
        """Have this name, kind and attributes."""
        self.name, self.kind, self.attributes = name, kind, attributes
        self.encoded: Any = None
        """What the encoder keeps of it."""


def valid_context(
    trace_id: int,
    span_id: int,
    is_remote: bool,  # noqa: FBT001 - a span context's order
    flags: TraceFlags,
    state: TraceState = DEFAULT_TRACE_STATE,
) -> SpanContext:
    """Return a span context whose ids are known to be valid: its class checks them in 1 us."""
    return tuple.__new__(SpanContext, (trace_id, span_id, is_remote, flags, state, True))
