"""Spans that Headrace records itself say the same as those of OpenTelemetry's SDK."""

import json
import random
import sys
from collections.abc import Callable, Mapping
from typing import Any, override

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace import Span as SdkSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)
from opentelemetry.trace.span import TraceState

from headrace import tracing
from headrace.span_recorder import RecordedSpan, RecordingProvider
from headrace.span_template import SpanTemplate, valid_context

SAMPLED, NOT_SAMPLED = f"00-{'a' * 32}-{'b' * 16}-01", f"00-{'a' * 32}-{'b' * 16}-00"
RANDOM = f"00-{'a' * 32}-{'b' * 16}-03"
INVALID = f"00-{'0' * 32}-{'b' * 16}-01"
LINKED = SpanContext(5, 6, is_remote=True, trace_flags=TraceFlags(1))
RESOURCE = Resource({"service.name": "headrace-gateway"})
MOST_CALLS = 22
TEMPLATE = SpanTemplate("one", SpanKind.SERVER, {"first": "x"})

LIMITS = {
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "2",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "3",
    "OTEL_SPAN_EVENT_COUNT_LIMIT": "1",
    "OTEL_SPAN_LINK_COUNT_LIMIT": "1",
}

NO_ROOM = {"OTEL_SPAN_EVENT_COUNT_LIMIT": "0", "OTEL_SPAN_LINK_COUNT_LIMIT": "0"}

type Use = Callable[[Span], object]


class _Ids(RandomIdGenerator):
    """Makes the same ids each time."""

    def __init__(self) -> None:
        self._random = random.Random(18)

    @override
    def generate_span_id(self) -> int:
        return self._random.getrandbits(64)

    @override
    def generate_trace_id(self) -> int:
        return self._random.getrandbits(128)


class _Exported:
    """What a provider exports while it is the process's."""

    def __init__(self, provider: TracerProvider, patch: pytest.MonkeyPatch) -> None:
        self._exporter = InMemorySpanExporter()
        provider.id_generator = _Ids()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        patch.setattr(trace, "get_tracer_provider", lambda: provider)

    def spans(self) -> list[dict[str, Any]]:
        """Return the spans without the times, which differ."""
        return [_without_times(span) for span in self._exporter.get_finished_spans()]


def _without_times(span: ReadableSpan) -> dict[str, Any]:
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.start_time <= span.end_time
    output: dict[str, Any] = json.loads(span.to_json())
    del output["start_time"], output["end_time"]
    for event in output["events"]:
        del event["timestamp"]
    dropped = span.dropped_attributes, span.dropped_events, span.dropped_links
    kept = span.instrumentation_scope, span.context, span.parent
    return {**output, "dropped": dropped, "kept": kept}


def _both(
    monkeypatch: pytest.MonkeyPatch, run: Callable[[], object]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return what is exported of `run`: recorded here, and by the SDK."""
    recording = RecordingProvider(RESOURCE, "headrace", tracing.SCHEMA_URL)
    theirs = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
    found = []
    for provider in (recording, theirs):
        exported = _Exported(provider, monkeypatch)
        run()
        found.append(exported.spans())
    assert recording.can_record
    return found[0], found[1]


def _raise_in(span: Span) -> None:
    with pytest.raises(KeyError), tracing.CurrentSpan(span):
        raise KeyError("x")


def _add_links(span: Span) -> None:
    for _ in range(3):
        span.add_link(LINKED, {"x": "long text"})


USES: dict[str, Use] = {
    "nothing": lambda _: None,
    "attributes": lambda span: span.set_attributes({"a": 1, "b": [1, 2], "c": 0.5}),
    "an attribute of no kind": lambda span: span.set_attribute("a", object()),  # type: ignore[arg-type]
    "attributes without a name": lambda span: span.set_attributes({"": 1, 5: "x", "a": 1}),  # type: ignore[dict-item]
    "an attribute again": lambda span: span.set_attribute("first", "y"),
    "a long attribute": lambda span: span.set_attribute("a", "long text"),
    "many attributes": lambda span: span.set_attributes({f"a{at}": at for at in range(200)}),
    "an event": lambda span: [span.add_event("e", {"x": "long text"}) for _ in range(3)],
    "an exception": lambda span: span.record_exception(ValueError("wrong"), {"x": 1}),
    "links": _add_links,
    "a link to nothing": lambda span: span.add_link(trace.INVALID_SPAN_CONTEXT),
    "a name": lambda span: span.update_name("two"),
    "a status": lambda span: span.set_status(StatusCode.ERROR, "why"),
    "a status after OK": lambda span: [
        span.set_status(Status(StatusCode.OK)),
        span.set_status(Status(StatusCode.ERROR)),
    ],
    "no status": lambda span: [
        span.set_status(StatusCode.ERROR),
        span.set_status(StatusCode.UNSET),
    ],
    "an error of ours": lambda span: tracing.note_error(span, "KeyError"),
    "an error in the block": _raise_in,
    "a child": lambda span: tracing.start_span(
        "child", SpanKind.CLIENT, tracing.traceparent_of(span), links=[SAMPLED, INVALID]
    ).end(),
}


@pytest.mark.parametrize("limits", [{}, LIMITS, NO_ROOM], ids=["default", "low", "no room"])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_span_is_exported_as_the_sdk_exports_it(
    monkeypatch: pytest.MonkeyPatch, use: Use, limits: Mapping[str, str]
) -> None:
    for name, value in limits.items():
        monkeypatch.setenv(name, value)

    def run() -> None:
        span = tracing.start_span_of(TEMPLATE, SAMPLED, {"n": 1})
        use(span)
        span.end()
        # What comes too late is not recorded.
        span.set_attribute("late", 1)
        span.set_attributes({"late": 1})
        span.add_event("late")
        span.add_link(LINKED)
        span.update_name("late")
        span.set_status(StatusCode.ERROR)
        span.end()
        assert not span.is_recording()

    ours, theirs = _both(monkeypatch, run)
    assert len(theirs) in (1, 2)
    assert ours == theirs


@pytest.mark.parametrize("parent", [None, SAMPLED, RANDOM, NOT_SAMPLED, INVALID])
@pytest.mark.parametrize(
    ("sampler", "argument"),
    [
        ("parentbased_always_on", ""),
        ("parentbased_always_off", ""),
        ("parentbased_traceidratio", "0"),
        ("parentbased_traceidratio", "0.5"),
        ("parentbased_traceidratio", "1"),
    ],
)
def test_a_trace_is_sampled_as_the_sdk_samples_it(
    monkeypatch: pytest.MonkeyPatch, sampler: str, argument: str, parent: str | None
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", argument)
    contexts = list[SpanContext]()

    def run() -> None:
        for _ in range(20):
            span = tracing.start_span("one", SpanKind.SERVER, parent)
            below = tracing.start_span("two", SpanKind.CLIENT, tracing.traceparent_of(span))
            contexts.extend(each.get_span_context() for each in (span, below))
            below.end()
            span.end()

    ours, theirs = _both(monkeypatch, run)
    assert ours == theirs
    assert len(contexts) == 80
    assert contexts[:40] == contexts[40:]


def test_a_span_takes_few_calls_from_start_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = RecordingProvider(RESOURCE, "headrace", tracing.SCHEMA_URL)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    calls = list[str]()

    def use() -> None:
        span = tracing.start_span_of(TEMPLATE, SAMPLED, {"a": 1, "b": "x"})
        tracing.traceparent_of(span)
        span.set_attribute("c", "y")
        span.end()

    use()
    before = sys.getprofile()
    sys.setprofile(lambda _, event, __: calls.append(event))
    try:
        use()
    finally:
        sys.setprofile(before)
    # The SDK's tracer takes 115. What is counted does not depend on the machine's load.
    assert sum(event in {"call", "c_call"} for event in calls) <= MOST_CALLS


def test_a_span_has_all_members_that_the_sdks_constructor_sets() -> None:
    provider = RecordingProvider(RESOURCE, "headrace", tracing.SCHEMA_URL)
    span = provider.record(TEMPLATE, trace.INVALID_SPAN_CONTEXT, {}, ())
    assert isinstance(span, RecordedSpan)
    members = vars(ReadableSpan("one"))
    assert len(members) >= 13
    assert [name for name in members if not hasattr(span, name)] == []


def test_a_context_that_is_known_to_be_valid_is_the_apis() -> None:
    flags, state = TraceFlags(3), TraceState([("vendor", "x")])
    made = valid_context(5, 6, True, flags, state)  # noqa: FBT003
    assert (made, type(made)) == (SpanContext(5, 6, True, flags, state), SpanContext)  # noqa: FBT003


def test_the_current_span_is_the_parent_with_its_trace_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_a_vendor = TraceState([("vendor", "x")])
    around = SpanContext(7, 8, is_remote=False, trace_flags=TraceFlags(1), trace_state=of_a_vendor)

    def run() -> None:
        with trace.use_span(NonRecordingSpan(around)):
            tracing.start_span("one", SpanKind.SERVER, None).end()

    ours, theirs = _both(monkeypatch, run)
    assert ours == theirs
    assert ours[0]["kept"][1].trace_state == of_a_vendor


def test_a_processor_that_reads_spans_when_they_start_is_called_by_the_sdk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = list[SdkSpan]()

    class Noting(SpanProcessor):
        @override
        def on_start(self, span: SdkSpan, parent_context: Context | None = None) -> None:
            started.append(span)

    provider = RecordingProvider(RESOURCE, "headrace", tracing.SCHEMA_URL)
    exported = _Exported(provider, monkeypatch)
    provider.add_span_processor(Noting())
    tracing.start_span("one", SpanKind.SERVER, None).end()
    assert [span.name for span in started] == ["one"]
    assert [span["name"] for span in exported.spans()] == ["one"]


def test_a_sampler_that_decides_for_each_span_is_queried_by_the_sdk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_on")
    exported = _Exported(RecordingProvider(RESOURCE, "headrace", tracing.SCHEMA_URL), monkeypatch)
    tracing.start_span("one", SpanKind.SERVER, NOT_SAMPLED).end()
    assert [span["name"] for span in exported.spans()] == ["one"]


@pytest.mark.parametrize("parent", [LINKED, trace.INVALID_SPAN_CONTEXT], ids=["valid", "invalid"])
def test_a_parent_may_be_a_spans_context(
    monkeypatch: pytest.MonkeyPatch, parent: SpanContext
) -> None:
    around = SpanContext(7, 8, is_remote=False, trace_flags=TraceFlags(1))

    def run() -> None:
        with trace.use_span(NonRecordingSpan(around)):
            tracing.start_span_of(TEMPLATE, parent, {}).end()

    ours, theirs = _both(monkeypatch, run)
    assert ours == theirs
    assert [one["kept"][2] for one in ours] == [parent if parent.is_valid else None]
