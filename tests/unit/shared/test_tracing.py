"""Where spans are exported to, as the standard environment variables say."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from headrace import tracing
from tests.support.span_collector import SpanCollector, span_collector
from tests.support.spans import RecordedSpans

PROGRAM = """
import logging, os
from opentelemetry.trace import SpanKind
from headrace import tracing

logging.basicConfig(format="%(message)s")
with tracing.exporting(os.environ, "headrace-worker"):
    for _ in range(int(os.environ.get("TRACES", "1"))):
        tracing.start_span("one", SpanKind.INTERNAL, os.environ.get("PARENT")).end()
    print(tracing.is_enabled())
"""
"""A process's provider can be set only once, so each case has its own."""


STEPPING = """
import asyncio
import os

from headrace import RunContext, agent, tracing
from headrace.testing import TestFleet

@agent
async def buyer(ctx: RunContext) -> None:
    await ctx.step("reserve", lambda: 1)
    await ctx.memory.save("bought", 1)

async def buy() -> None:
    async with TestFleet([buyer]) as fleet:
        await fleet.send("buyer", "x")

with tracing.exporting(dict(os.environ), "headrace-worker"):
    asyncio.run(buy())
"""
"""An agent with a step, which remembers something."""

ALL = {"OTEL_TRACES_SAMPLER": "parentbased_always_on"}


@pytest.fixture
def collector() -> Iterator[SpanCollector]:
    """A collector on loopback."""
    with span_collector() as server:
        yield server


def run(program: str = PROGRAM, **variables: str) -> tuple[str, str]:
    """Return what the program prints and logs with these environment variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=kept | variables,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize(
    ("variables", "service"),
    [
        ({}, "headrace-worker"),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SERVICE_NAME": "mine"}, "mine"),
    ],
)
def test_spans_go_to_the_otlp_endpoint_and_are_flushed_at_the_end(
    collector: SpanCollector, variables: dict[str, str], service: str
) -> None:
    printed, _ = run(OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, **ALL, **variables)
    assert (printed, collector.spans()) == ("True", [(service, "one")])


def test_steps_and_writes_to_memory_are_exported_below_their_attempt(
    collector: SpanCollector,
) -> None:
    run(STEPPING, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, **ALL)
    spans = {
        span.name: span
        for request in collector.received
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }
    attempt = spans["invoke_agent buyer"]
    below = {name for name, span in spans.items() if span.parent_span_id == attempt.span_id}
    assert below == {"step reserve", "memory write"}


@pytest.mark.parametrize(
    ("variables", "least", "most"),
    [
        ({}, 5, 80),
        ({"PARENT": f"00-{'a' * 32}-{'b' * 16}-01"}, 300, 300),
        ({"PARENT": f"00-{'a' * 32}-{'b' * 16}-00"}, 0, 0),
        (ALL, 300, 300),
        ({"OTEL_TRACES_SAMPLER": "always_on", "PARENT": f"00-{'a' * 32}-{'b' * 16}-00"}, 300, 300),
    ],
)
def test_a_tenth_of_new_traces_is_recorded_unless_a_sampler_is_set(
    collector: SpanCollector, variables: dict[str, str], least: int, most: int
) -> None:
    run(OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, TRACES="300", **variables)
    assert least <= len(collector.spans()) <= most


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_SERVICE_NAME": "mine"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
    ],
)
def test_nothing_is_exported_where_the_variables_do_not_ask_for_it(
    variables: dict[str, str],
) -> None:
    assert run(**variables) == ("False", "")


def test_an_exporter_that_is_not_installed_is_a_warning_that_names_the_extra() -> None:
    printed, logged = run(OTEL_TRACES_EXPORTER="zipkin")
    assert printed == "False"
    assert "there is no exporter 'zipkin'; install 'headrace[opentelemetry]'" in logged


def test_without_a_provider_spans_are_invalid_and_have_no_trace_context() -> None:
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    span = tracing.start_span("one", SpanKind.SERVER, parent)
    assert span is trace.INVALID_SPAN
    assert tracing.traceparent_of(span) is None


@pytest.mark.parametrize(
    ("stated", "is_parent"),
    [
        (f"00-{'a' * 32}-{'b' * 16}-01", True),
        (f"cc-{'a' * 32}-{'b' * 16}-01", True),
        (f"00-{'0' * 32}-{'b' * 16}-01", False),
        (f"00-{'a' * 32}-{'0' * 16}-01", False),
        (f"ff-{'a' * 32}-{'b' * 16}-01", False),
        ("yesterday", False),
    ],
)
def test_a_span_has_the_parent_and_links_that_are_valid_as_the_propagator_reads_them(
    monkeypatch: pytest.MonkeyPatch, stated: str, *, is_parent: bool
) -> None:
    spans = RecordedSpans(monkeypatch)
    span = tracing.start_span("one", SpanKind.SERVER, stated, links=[stated])
    span.end()
    [ended] = spans.all()
    read = TraceContextTextMapPropagator().extract({"traceparent": stated})
    parent = trace.get_current_span(read).get_span_context()
    assert (ended.parent, parent.is_valid) == (parent if is_parent else None, is_parent)
    assert [link.context for link in ended.links] == ([parent] if is_parent else [])
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, trace.set_span_in_context(span))
    assert tracing.traceparent_of(span) == carrier["traceparent"]


def test_spans_below_one_that_is_not_sampled_are_not_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spans = RecordedSpans(monkeypatch)
    span = tracing.start_span("one", SpanKind.SERVER, f"00-{'a' * 32}-{'b' * 16}-00")
    assert (span.is_recording(), str(tracing.traceparent_of(span))[-3:]) == (False, "-00")
    span.end()
    assert spans.all() == []


def test_a_launchers_tracer_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        spans = RecordedSpans(monkeypatch, TracerProvider())
        provider, made = trace.get_tracer_provider(), list[str]()

        def get_tracer(
            name: str,
            made: list[str] = made,
            make: Callable[..., trace.Tracer] = provider.get_tracer,
            **more: str,
        ) -> trace.Tracer:
            made.append(name)
            return make(name, **more)

        monkeypatch.setattr(provider, "get_tracer", get_tracer)
        for name in ("one", "two"):
            tracing.start_span(name, SpanKind.SERVER, None).end()
        assert (made, [span.name for span in spans.all()]) == (["headrace"], ["one", "two"])
