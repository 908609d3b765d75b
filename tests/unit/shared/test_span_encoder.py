"""Our encoder of spans says the same as that of OpenTelemetry's exporter."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common import trace_encoder
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)

from headrace import span_encoder, tracing
from headrace.span_encoder import encode
from headrace.span_recorder import RecordingProvider
from headrace.span_template import SpanTemplate

REMOTE = SpanContext(
    0xAF7651916CD43DD8448EB211C80319C,
    0xB7AD6B7169203331,
    is_remote=True,
    trace_flags=TraceFlags(TraceFlags.SAMPLED),
)
LOCAL = SpanContext(1, 2, is_remote=False, trace_flags=REMOTE.trace_flags)
OF_A_VENDOR = SpanContext(
    1,
    2,
    is_remote=True,
    trace_flags=REMOTE.trace_flags,
    trace_state=trace.TraceState([("vendor", "x")]),
)
USUAL = {"gen_ai.agent.name": "écho", "headrace.run": 1, "flag": True, "empty": ""}


class Spans:
    """Ended spans of one resource."""

    def __init__(self, name: str = "headrace-gateway") -> None:
        self._exporter = InMemorySpanExporter()
        self._provider = TracerProvider(
            resource=Resource({"service.name": name}, "https://schema"), shutdown_on_exit=False
        )
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def add(
        self,
        *,
        parent: SpanContext | None = None,
        scope: str = "headrace",
        change: Callable[[trace.Span], object] | None = None,
        **options: object,
    ) -> None:
        """Start a span, change it and end it."""
        context = trace.set_span_in_context(NonRecordingSpan(parent)) if parent else None
        tracer = self._provider.get_tracer(scope, "1", schema_url="https://conventions")
        options = {"name": "one", "kind": SpanKind.SERVER, "attributes": USUAL} | options
        span = tracer.start_span(context=context, **options)  # type: ignore[arg-type]
        if change is not None:
            change(span)
        span.end()

    def ended(self) -> Sequence[ReadableSpan]:
        """Return the spans."""
        return self._exporter.get_finished_spans()


def decoded(spans: Sequence[ReadableSpan]) -> ExportTraceServiceRequest:
    return ExportTraceServiceRequest.FromString(encode(spans).SerializePartialToString())


def by_encoder(spans: Sequence[ReadableSpan]) -> ExportTraceServiceRequest:
    return trace_encoder.encode_spans(spans)


def is_left_to_the_library(spans: Sequence[ReadableSpan], patch: pytest.MonkeyPatch) -> bool:
    """Return whether our encoder passes spans on, with more than the head of a group."""
    passed = list[Sequence[ReadableSpan]]()
    original = trace_encoder.encode_spans

    def noting(some: Sequence[ReadableSpan]) -> ExportTraceServiceRequest:
        passed.append(some)
        return original(some)

    with patch.context() as patched:
        patched.setattr(span_encoder, "encode_spans", noting)
        patched.setattr(span_encoder, "_of_resource", lambda _: b"")
        encode(spans)
    return bool(passed)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"attributes": None},
        {"parent": REMOTE},
        {"parent": LOCAL},
        {"name": "invoke_agent " + "long" * 5000},
        {"attributes": {"text": "x" * 130, "long": "é" * 20_000, "most": 2**63 - 1, "much": 16384}},
        *({"kind": kind} for kind in SpanKind),
        *({"change": lambda span, code=code: span.set_status(Status(code))} for code in StatusCode),
    ],
)
def test_a_usual_span_is_written_as_the_library_writes_it(
    options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Spans()
    made.add(**options)  # type: ignore[arg-type]
    spans = made.ended()
    assert not is_left_to_the_library(spans, monkeypatch)
    assert decoded(spans) == by_encoder(spans)
    [span] = by_encoder(spans).resource_spans[0].scope_spans[0].spans
    usual = span_encoder._usual_parts(spans[0])
    assert usual is not None
    assert span_encoder._encoded(usual) == span.SerializeToString()


@pytest.mark.parametrize(
    "options",
    [
        {"attributes": {"share": 0.5}},
        {"attributes": {"several": ("one", "two")}},
        {"attributes": {"below": -1}},
        {"links": [Link(REMOTE)]},
        {"change": lambda span: span.add_event("happened", {"what": "this"})},
        {"change": lambda span: span.set_status(Status(StatusCode.ERROR, "it broke"))},
        {"attributes": {f"n{number}": number for number in range(200)}},
        {"parent": OF_A_VENDOR},
    ],
)
def test_an_unusual_span_is_left_to_the_library(
    options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Spans()
    made.add(**options)  # type: ignore[arg-type]
    assert is_left_to_the_library(made.ended(), monkeypatch)
    assert decoded(made.ended()) == by_encoder(made.ended())


def test_spans_keep_their_resource_and_scope() -> None:
    gateway, worker = Spans(), Spans("headrace-worker")
    for made in (gateway, worker):
        made.add()
        made.add(scope="library")
        made.add(parent=REMOTE)
    spans = [*gateway.ended(), *worker.ended()]
    assert len(spans) == 6
    assert decoded(spans) == by_encoder(spans)


def test_usual_and_unusual_spans_go_together() -> None:
    made = Spans()
    made.add(name="usual")
    made.add(name="unusual", links=[Link(REMOTE)])
    made.add(name="usual, too")
    groups = [group for each in decoded(made.ended()).resource_spans for group in each.scope_spans]
    assert [[span.name for span in group.spans] for group in groups] == [
        ["usual", "usual, too"],
        ["unusual"],
    ]


RECORDED: dict[str, Callable[[trace.Span], object]] = {
    "nothing": lambda _: None,
    "attributes": lambda span: span.set_attributes({"long": "é" * 200, "n": 300}),
    "an attribute of the template": lambda span: span.set_attribute("agent", "other"),
    "an attribute without a name": lambda span: span.set_attribute(5, "x"),  # type: ignore[arg-type]
    "an unusual attribute": lambda span: span.set_attribute("several", [0.5]),
    "many attributes": lambda span: span.set_attributes({f"a{at}": at for at in range(200)}),
    "a name": lambda span: span.update_name("two"),
    "an error": lambda span: tracing.note_error(span, "KeyError"),
    "an error with a text": lambda span: span.set_status(StatusCode.ERROR, "why"),
    "an event": lambda span: span.add_event("happened"),
    "a link": lambda span: span.add_link(REMOTE),
}


@pytest.mark.parametrize("room", ["128", "0"])
@pytest.mark.parametrize("parent", [trace.INVALID_SPAN_CONTEXT, REMOTE, LOCAL, OF_A_VENDOR])
@pytest.mark.parametrize("change", RECORDED.values(), ids=RECORDED)
def test_a_recorded_span_of_a_template_is_decoded_alike(
    change: Callable[[trace.Span], object],
    parent: SpanContext,
    room: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for kind in ("EVENT", "LINK"):
        monkeypatch.setenv(f"OTEL_SPAN_{kind}_COUNT_LIMIT", room)
    exporter = InMemorySpanExporter()
    provider = RecordingProvider(Resource({"service.name": "x"}), "headrace", tracing.SCHEMA_URL)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    template = SpanTemplate("one", SpanKind.CLIENT, {"agent": "écho", "flag": True})
    for _ in range(2):
        span = provider.record(template, parent, {"task": "x" * 36, "run": 1}, ())
        change(span)
        span.end()
    spans = exporter.get_finished_spans()
    assert len(spans) == 2
    assert decoded(spans) == by_encoder(spans)


def test_a_value_that_can_not_be_hashed_is_left_to_the_exporters_encoder() -> None:
    exporter = InMemorySpanExporter()
    provider = RecordingProvider(Resource({"service.name": "x"}), "headrace", tracing.SCHEMA_URL)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    attributes: dict[str, Any] = {"gen_ai.tool.call.id": {"not": "plain"}}
    provider.record(SpanTemplate("one", SpanKind.CLIENT), REMOTE, attributes, ()).end()
    spans = exporter.get_finished_spans()
    assert decoded(spans) == by_encoder(spans)


def test_a_template_is_encoded_once() -> None:
    exporter = InMemorySpanExporter()
    provider = RecordingProvider(Resource({"service.name": "x"}), "headrace", tracing.SCHEMA_URL)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    template = SpanTemplate("one", SpanKind.CLIENT, {"agent": "echo"})
    for task in ("a", "b"):
        provider.record(template, REMOTE, {"task": task}, ()).end()
    spans = exporter.get_finished_spans()
    first = encode(spans)
    # What is kept of it is all that is used of it.
    template.name, template.attributes = "two", {}
    assert encode(spans) == first


VALUES = st.one_of(
    st.text(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False)
)


@given(st.dictionaries(st.text(min_size=1), VALUES, max_size=8), st.text(min_size=1))
def test_any_name_and_attributes_are_decoded_alike(
    attributes: dict[str, str | int | float], name: str
) -> None:
    made = Spans()
    made.add(name=name, attributes=attributes)
    assert decoded(made.ended()) == by_encoder(made.ended())


def test_the_exporter_of_a_service_sends_what_our_encoder_wrote(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = list[bytes]()

    def post(_: object, serialized_data: bytes, *__: object) -> object:
        sent.append(serialized_data)
        return SimpleNamespace(ok=True)

    monkeypatch.setattr(trace_exporter, "encode_spans", trace_encoder.encode_spans)
    monkeypatch.setattr(trace_exporter.OTLPSpanExporter, "_export", post)
    made = Spans()
    made.add()
    tracing._exporter("otlp_proto_http").export(made.ended())
    assert sent == [encode(made.ended()).data]
    assert sent != [by_encoder(made.ended()).SerializeToString()]
