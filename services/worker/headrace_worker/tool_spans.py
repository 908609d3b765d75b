"""The spans of an attempt's tool calls, whichever framework runs them."""

from opentelemetry.trace import Span, SpanKind

from headrace import tracing

OTHER = "_OTHER"
"""``error.type`` of failures without an exception, in the semantic conventions."""


class ToolSpans:
    """Spans from a call's complete arguments to its result, as the agent emits them.

    A call whose result the attempt does not emit has no span: the client executes it, or the
    attempt ended before.
    """

    def __init__(self, traceparent: str) -> None:
        """Begin without calls; spans are children of `traceparent`."""
        self._traceparent = traceparent
        self._open: dict[str, Span] = {}

    def begin(self, call_id: str, name: str) -> None:
        """Start the span of the tool's call; its arguments are not recorded."""
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call_id,
        }
        self._open[call_id] = tracing.start_span(
            f"execute_tool {name}", SpanKind.INTERNAL, self._traceparent, attributes
        )

    def end(self, call_id: str, *, has_failed: bool) -> None:
        """End the call's span, if it has one."""
        if (span := self._open.pop(call_id, None)) is None:
            return
        if has_failed:
            tracing.note_error(span, OTHER)
        span.end()
