"""Spans of this process, recorded for a test."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext

NUMBER = 471_108_154_711
"""What agents give to tools: too long to stand in the identifier of a span by chance."""


class RecordedSpans:
    """The spans of Headrace's own that have ended."""

    def __init__(self, patch: pytest.MonkeyPatch, provider: TracerProvider | None = None) -> None:
        """Record from now on, until `patch` is undone, by default every span."""
        self._exporter = InMemorySpanExporter()
        used = TracerProvider() if provider is None else provider
        used.add_span_processor(SimpleSpanProcessor(self._exporter))
        # A process' provider can be set only once.
        patch.setattr(trace, "get_tracer_provider", lambda: used)

    def ended(self) -> list[ReadableSpan]:
        """Return the spans of Headrace and of all libraries, in the order of their ends."""
        return list(self._exporter.get_finished_spans())

    def all(self) -> list[ReadableSpan]:
        """Return the spans in the order of their beginnings."""
        found = [
            span
            for span in self.ended()
            if span.instrumentation_scope and span.instrumentation_scope.name == "headrace"
        ]
        return sorted(found, key=lambda span: span.start_time or 0)

    def of_libraries(self, name: str) -> list[ReadableSpan]:
        """Return the spans with that name that are not Headrace's own."""
        own = self.all()
        return [span for span in self.ended() if span.name == name and span not in own]

    def named(self, name: str) -> list[ReadableSpan]:
        """Return the spans with that name, in the order of their beginnings."""
        return [span for span in self.all() if span.name == name]


def traceparent(span: ReadableSpan) -> str:
    """Return the W3C trace context of the span."""
    context = span.get_span_context()
    assert context is not None
    return _written(context)


def parent(span: ReadableSpan) -> str | None:
    """Return the W3C trace context of the span's parent, or None."""
    return None if span.parent is None else _written(span.parent)


def links(span: ReadableSpan) -> list[str]:
    """Return the W3C trace contexts of the spans that the span links to."""
    return [_written(link.context) for link in span.links]


def _written(context: SpanContext) -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
