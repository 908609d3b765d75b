"""FastStream's telemetry of requests: Prometheus metrics, and spans if they are enabled."""

import sys
from typing import Any

from faststream.nats.prometheus import NatsPrometheusMiddleware
from prometheus_client import REGISTRY, CollectorRegistry


def telemetry(registry: CollectorRegistry = REGISTRY) -> tuple[Any, ...]:
    """Return FastStream's middlewares for requests about tasks.

    The subject is a label of the metrics; there are a few subjects per agent.
    """
    metrics = NatsPrometheusMiddleware(registry=registry, app_name="headrace_task_state")
    return metrics, *_spans()


def _spans() -> tuple[Any, ...]:
    """Return the middleware that creates spans, if OpenTelemetry tracing has been set up.

    Whatever set it up (such as ``opentelemetry-instrument``) has imported OpenTelemetry, so nothing
    is imported for processes without it.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return ()
    from faststream.nats.opentelemetry import NatsTelemetryMiddleware  # noqa: PLC0415 - see above
    from opentelemetry.metrics import NoOpMeterProvider  # noqa: PLC0415 - see above

    # Its metrics are labelled with inboxes, whose number is unbounded; Prometheus has the metrics.
    return (NatsTelemetryMiddleware(meter_provider=NoOpMeterProvider()),)
