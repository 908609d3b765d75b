"""Traces: OpenTelemetry spans, exported as the standard ``OTEL_*`` variables specify.

Only requests, attempts and other things with a beginning and an end are spans; tokens are not.
Spans hold no content unless `CAPTURE_CONTENT` asks for it. Names and attributes are those of
OpenTelemetry's semantic conventions 1.41.0, whose GenAI part is still in development; Headrace's
own begin with ``headrace.``.
"""

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Token
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import entry_points
from types import TracebackType
from typing import TYPE_CHECKING

from opentelemetry import context, trace
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
)

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

_log = logging.getLogger(__name__)

SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.0"
"""Version of the semantic conventions."""

TRACEPARENT = "traceparent"
"""Name of the header with a W3C trace context."""

CAPTURE_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Environment variable that asks for content, the same for all instrumentations of GenAI."""

_IN_SPANS = frozenset({"true", "span_only", "span_and_event"})
"""Its values that ask for content in spans, in lower case."""

type Plain = str | bool | int | float
"""Value of an attribute."""

OTHER = "_OTHER"
"""``error.type`` of failures without an exception, in the semantic conventions."""

SAMPLED_SHARE = 0.1
"""The share of traces that are recorded unless ``OTEL_TRACES_SAMPLER`` is set. A caller's sampled
`traceparent` is always followed."""

_SCOPE = "headrace"
"""Name of the scope of Headrace's own spans."""

_VALID = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")

_FLAGS_TEXT = [f"{flags:02x}" for flags in range(256)]
_FLAGS = {text: TraceFlags(flags) for flags, text in enumerate(_FLAGS_TEXT)}
"""By their text in a traceparent."""

_EMPTY = context.Context()

_NO_ATTRIBUTES: Mapping[str, Plain] = {}

_EXPORTERS = "opentelemetry_traces_exporter"
"""Entry point group of exporters, which the exporters' packages define."""

_OVER_HTTP = "otlp_proto_http"

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def is_enabled() -> bool:
    """Return whether this process has a tracer provider, set up here or by a launcher."""
    # By its type: the check of an abstract class costs more than a span's attributes.
    return type(trace.get_tracer_provider()) is not trace.ProxyTracerProvider


def captures_content() -> bool:
    """Return whether spans of this process contain what users, agents and tools write."""
    return _content.is_captured


class _Exporting:
    """The tracer provider that `exporting` has set up, if its sampler follows the parent."""

    follows_parents: "TracerProvider | None" = None


_exporting = _Exporting()


class _Content:
    """Whether content was asked for: of the whole process, as its tracer provider is.

    A process that is not one of Headrace's, in which `exporting` is not called, asks for it by the
    same variable.
    """

    def __init__(self) -> None:
        self._is_captured: bool | None = None

    @property
    def is_captured(self) -> bool:
        """Whether content is captured now."""
        if self._is_captured is None:
            return _asks_for_content(os.environ)
        return self._is_captured

    @contextmanager
    def captured_if(self, requested: bool) -> Iterator[None]:  # noqa: FBT001 - the block's only property
        """Capture content in the block if it is `requested`."""
        before, self._is_captured = self._is_captured, requested
        try:
            yield
        finally:
            self._is_captured = before


def _asks_for_content(variables: Mapping[str, str]) -> bool:
    return variables.get(CAPTURE_CONTENT, "").strip().lower() in _IN_SPANS


_content = _Content()


@dataclass(frozen=True, slots=True)
class SpanTemplate:
    """What the spans of one operation have in common."""

    name: str
    kind: SpanKind
    attributes: Mapping[str, Plain] = field(default_factory=dict)


def start_span(
    name: str,
    kind: SpanKind,
    parent: str | None,
    attributes: Mapping[str, Plain] = _NO_ATTRIBUTES,
    links: Sequence[str] = (),
) -> Span:
    """Start a span, which the caller ends. Without a tracer provider it is an invalid one.

    Args:
        name: The span's name.
        kind: The span's kind.
        parent: The traceparent of the parent. None: the current span, if there is one.
        attributes: The span's attributes.
        links: The traceparents of the spans to link to.
    """
    return start_span_of(SpanTemplate(name, kind), parent, dict(attributes), links)


def start_span_of(
    template: SpanTemplate,
    parent: str | SpanContext | None,
    attributes: dict[str, Plain],
    links: Sequence[str] = (),
) -> Span:
    """Start a span as `start_span` does, with what `template` states.

    `attributes` are added to the template's. `parent` may also be a span's context; with an invalid
    one the span begins a trace. Below a span that is not sampled there is nothing to record.
    """
    provider = trace.get_tracer_provider()
    if type(provider) is trace.ProxyTracerProvider:
        return trace.INVALID_SPAN
    above = _parent(parent)
    if provider is _exporting.follows_parents and above.is_valid and not above.trace_flags.sampled:
        return NonRecordingSpan(above)
    around = None
    if parent:
        around = trace.set_span_in_context(NonRecordingSpan(above), _EMPTY)
    return _tracer_of(provider).start_span(
        template.name,
        around,
        template.kind,
        {**template.attributes, **attributes},
        _links(links) if links else (),
    )


def _parent(stated: str | SpanContext | None) -> SpanContext:
    if not stated:
        return current_context()
    return stated if isinstance(stated, SpanContext) else _span_context(stated)


def _links(traceparents: Sequence[str]) -> list[Link]:
    contexts = map(_span_context, traceparents)
    return [Link(context, {}) for context in contexts if context.is_valid]


@lru_cache(maxsize=1)
def _tracer_of(provider: trace.TracerProvider) -> Tracer:
    """Return the provider's tracer; it makes a new one, in 8 µs, each time it is asked."""
    return provider.get_tracer(_SCOPE, schema_url=SCHEMA_URL)


def stated_traceparent(headers: Mapping[str, str]) -> str | None:
    """Return the W3C trace context in headers; None if they have none that is valid."""
    stated = headers.get(TRACEPARENT, "")
    return stated if _VALID.fullmatch(stated) else None


class CurrentSpan:
    """Makes a span the current one in the block, and ends it with the block.

    What the block raises is recorded by its class. An invalid span changes nothing.
    """

    __slots__ = "_before_end", "_span", "_token"

    def __init__(self, span: Span, before_end: Callable[[], None] | None = None) -> None:
        """Call `before_end` at the end of the block, to record what is known then."""
        self._span, self._before_end = span, before_end
        self._token: Token[context.Context] | None = None

    def __enter__(self) -> None:
        """Make the span the current one."""
        if self._span.get_span_context().is_valid:
            self._token = context.attach(trace.set_span_in_context(self._span))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the span."""
        if self._token is None:
            return
        try:
            if self._before_end is not None:
                self._before_end()
        finally:
            if kind is not None:
                note_error(self._span, kind.__name__)
            context.detach(self._token)
            self._span.end()


def traceparent_of(span: Span) -> str | None:
    """Return the span's W3C trace context; None for an invalid span."""
    # It is a tuple, and each of its properties a call.
    trace_id, span_id, _, flags, _, is_valid = span.get_span_context()
    if not is_valid:
        return None
    # OpenTelemetry's propagators read and write headers, with contexts in between: five times
    # the cost, several times a run.
    return f"00-{trace_id:032x}-{span_id:016x}-{_FLAGS_TEXT[flags]}"


def current_traceparent() -> str | None:
    """Return the W3C trace context of the current span; None if there is none."""
    return traceparent_of(trace.get_current_span())


def note_error(span: Span, error_type: str) -> None:
    """Record that the span's operation has failed. The error's text is not recorded."""
    span.set_attribute("error.type", error_type)
    span.set_status(Status(StatusCode.ERROR))


def current_context() -> SpanContext:
    """Return the context of the current span; an invalid one if there is none."""
    return trace.get_current_span().get_span_context()


def _span_context(traceparent: str) -> SpanContext:
    if not _VALID.fullmatch(traceparent):
        return trace.INVALID_SPAN_CONTEXT
    trace_id, span_id = int(traceparent[3:35], 16), int(traceparent[36:52], 16)
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=_FLAGS[traceparent[53:]])


@contextmanager
def exporting(variables: Mapping[str, str], service_name: str) -> Iterator[None]:
    """Export the process's spans in the block, if the environment `variables` ask for it.

    They do if ``OTEL_TRACES_EXPORTER`` or an OTLP endpoint is set; `CAPTURE_CONTENT` decides
    whether spans hold content. The SDK reads the other ``OTEL_*`` variables itself. `service_name`
    is used if the variables have none. A tracer provider that a launcher has set up is left alone.
    Spans are flushed at the end of the block.
    """
    exporters = _exporter_names(variables)
    provider = _provider(exporters, variables, service_name) if exporters else None
    with _content.captured_if(_asks_for_content(variables)):
        if provider is None or is_enabled():
            yield
            return
        trace.set_tracer_provider(provider)
        _exporting.follows_parents = _if_it_follows_parents(provider)
        try:
            yield
        finally:
            provider.shutdown()


def _exporter_names(variables: Mapping[str, str]) -> list[str]:
    """Return the entry points of the exporters that `variables` name."""
    if variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    stated = variables.get("OTEL_TRACES_EXPORTER", "").strip()
    if not stated and any(variables.get(name) for name in _ENDPOINTS):
        stated = "otlp"
    names = [name.strip() for name in stated.split(",")]
    return [
        _otlp(variables) if name == "otlp" else name for name in names if name not in ("", "none")
    ]


def _otlp(variables: Mapping[str, str]) -> str:
    stated = next((variables[name] for name in _PROTOCOLS if variables.get(name)), "")
    return "otlp_proto_grpc" if stated == "grpc" else _OVER_HTTP


def _provider(
    exporters: Sequence[str], variables: Mapping[str, str], service_name: str
) -> "TracerProvider | None":
    try:
        # Imported here, because they come with an extra.
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio  # noqa: PLC0415

        made = [_exporter(name) for name in exporters]
    except (ImportError, LookupError) as missing:
        _log.warning(
            "no traces are exported: %s; install 'headrace[opentelemetry]', or the package of the"
            " exporter in OTEL_TRACES_EXPORTER",
            missing,
        )
        return None
    stated = variables.get("OTEL_SERVICE_NAME") or "service.name=" in variables.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    resource = Resource.create({} if stated else {SERVICE_NAME: service_name})
    chosen = variables.get("OTEL_TRACES_SAMPLER", "").strip()
    sampler = None if chosen else ParentBasedTraceIdRatio(SAMPLED_SHARE)
    if sampler is not None:
        _log.info(
            "%d %% of new traces are recorded; set OTEL_TRACES_SAMPLER to record others",
            SAMPLED_SHARE * 100,
        )
    provider = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
    for exporter in made:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _if_it_follows_parents(provider: "TracerProvider") -> "TracerProvider | None":
    from opentelemetry.sdk.trace.sampling import ParentBased  # noqa: PLC0415

    return provider if isinstance(provider.sampler, ParentBased) else None


def _exporter(name: str) -> "SpanExporter":
    found = entry_points(group=_EXPORTERS, name=name)
    if not found:
        raise LookupError(f"there is no exporter {name!r}")
    exporter: SpanExporter = next(iter(found)).load()()
    return exporter
