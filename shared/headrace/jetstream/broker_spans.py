"""FastStream's spans of the messages that a service handles, with few names and without content.

FastStream names them by subjects. Those of answers are inboxes, one for each request, and those of
events are the users'. Trace stores count spans by their names, so an unbounded number is costly.
An error's text, which the SDK would record, may quote the message that caused it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, override

from faststream.message import StreamMessage
from faststream.nats.opentelemetry.provider import NatsTelemetrySettingsProvider
from faststream.nats.response import NatsPublishCommand
from faststream.opentelemetry.middleware import TelemetryMiddleware
from faststream.response import PublishCommand
from nats.aio.msg import Msg
from opentelemetry import trace
from opentelemetry.metrics import NoOpMeterProvider

from headrace import tracing

TEMPORARY = "(temporary)"
"""What OpenTelemetry's conventions call a destination of which each request has its own."""


class _NamedSpans(NatsTelemetrySettingsProvider):
    """Names spans by kinds of subjects; the subject is an attribute."""

    __slots__ = ("_named",)

    def __init__(self, named: Callable[[str], str]) -> None:
        super().__init__()
        self._named = named

    @override
    def get_consume_destination_name(self, msg: StreamMessage[Msg]) -> str:
        return self._named(super().get_consume_destination_name(msg))

    @override
    def get_publish_destination_name(self, cmd: PublishCommand) -> str:
        # The services publish nothing through FastStream but answers.
        return TEMPORARY


class _ErrorsByClass(trace.Tracer):
    """A tracer that records only the class of an exception that ends a span, not its text."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    @override
    def start_span(self, *args: Any, **options: Any) -> trace.Span:
        return self._tracer.start_span(*args, **options)

    @contextmanager
    def start_as_current_span(  # type: ignore[override]  # it is no decorator
        self,
        *args: Any,  # noqa: ANN401  # handed on
        **options: Any,  # noqa: ANN401  # handed on
    ) -> Iterator[trace.Span]:
        options |= {"record_exception": False, "set_status_on_exception": False}
        with self._tracer.start_as_current_span(*args, **options) as span:
            try:
                yield span
            except Exception as error:
                tracing.note_error(span, type(error).__name__)
                raise


class _Tracers(trace.TracerProvider):
    """Makes tracers of the process's provider."""

    @override
    def get_tracer(self, *args: Any, **options: Any) -> trace.Tracer:
        return _ErrorsByClass(trace.get_tracer_provider().get_tracer(*args, **options))


def spans_of_messages(named: Callable[[str], str]) -> TelemetryMiddleware[NatsPublishCommand]:
    """Return the middleware that makes a span of each message, called after `named(subject)`."""
    provider: Any = _NamedSpans(named)
    # Its metrics are labelled with inboxes, whose number is unbounded; Prometheus has the metrics.
    return TelemetryMiddleware[NatsPublishCommand](
        settings_provider_factory=lambda _: provider,
        tracer_provider=_Tracers(),
        meter_provider=NoOpMeterProvider(),
    )
