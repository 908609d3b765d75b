"""FastStream's spans of the messages that a service handles, under names of which there are few.

FastStream names them by subjects. Those of answers are inboxes, one for each request, and those of
events are the users'. Trace stores count spans by their names, so an unbounded number is costly.
"""

from collections.abc import Callable
from typing import Any, override

from faststream.message import StreamMessage
from faststream.nats.opentelemetry.provider import NatsTelemetrySettingsProvider
from faststream.nats.response import NatsPublishCommand
from faststream.opentelemetry.middleware import TelemetryMiddleware
from faststream.response import PublishCommand
from nats.aio.msg import Msg
from opentelemetry.metrics import NoOpMeterProvider

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


def spans_of_messages(named: Callable[[str], str]) -> TelemetryMiddleware[NatsPublishCommand]:
    """Return the middleware that makes a span of each message, called after `named(subject)`."""
    provider: Any = _NamedSpans(named)
    # Its metrics are labelled with inboxes, whose number is unbounded; Prometheus has the metrics.
    return TelemetryMiddleware[NatsPublishCommand](
        settings_provider_factory=lambda _: provider, meter_provider=NoOpMeterProvider()
    )
