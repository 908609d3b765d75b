"""What FastStream tells of questions: metrics for Prometheus, and spans where they are wanted."""

import sys
from typing import Any

from faststream.nats.prometheus import NatsPrometheusMiddleware
from prometheus_client import REGISTRY, CollectorRegistry


def telemetry(registry: CollectorRegistry = REGISTRY) -> tuple[Any, ...]:
    """Return FastStream's middlewares for what is asked about tasks.

    A label of the metrics is the subject, of which there are a few per agent.
    """
    metrics = NatsPrometheusMiddleware(registry=registry, app_name="headrace_task_state")
    return metrics, *_spans()


def _spans() -> tuple[Any, ...]:
    """Return what makes a span of each question, if something has set up OpenTelemetry's traces.

    That something (``opentelemetry-instrument``, for one) has imported them: who wants none has
    nothing imported for them.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return ()
    from faststream.nats.opentelemetry import NatsTelemetryMiddleware  # noqa: PLC0415 - see above
    from opentelemetry.metrics import NoOpMeterProvider  # noqa: PLC0415 - see above

    # Its metrics are labelled with inboxes, of which there is no end; Prometheus has them.
    return (NatsTelemetryMiddleware(meter_provider=NoOpMeterProvider()),)
