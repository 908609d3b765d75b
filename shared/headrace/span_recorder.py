"""Headrace's own spans, recorded for less processor time than by OpenTelemetry's SDK.

The SDK checks and copies each attribute under two locks, and builds a context and a sampling result
to find that a span is sampled, and copies the span when it ends. A span here keeps what it is
given, is checked when it ends, and is itself what is exported. It is sampled, limited and exported
as the SDK's spans are. Needs the extra `opentelemetry`.
"""

from collections.abc import Mapping, Sequence
from time import time_ns
from traceback import format_exception
from typing import override

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import Decision, ParentBased
from opentelemetry.sdk.util import BoundedList
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.semconv.attributes.exception_attributes import (
    EXCEPTION_ESCAPED,
    EXCEPTION_MESSAGE,
    EXCEPTION_STACKTRACE,
    EXCEPTION_TYPE,
)
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)
from opentelemetry.util.types import Attributes, AttributeValue

_ONLY_EXPORTING = (BatchSpanProcessor, SimpleSpanProcessor)
"""Processors that do nothing when a span starts."""

_NO_PARENT = Context()
_SAMPLED, _RANDOM = TraceFlags.SAMPLED, TraceFlags.RANDOM_TRACE_ID
_FLAGS = [TraceFlags(flags) for flags in range((_SAMPLED | _RANDOM) + 1)]
_UNSET = Status(StatusCode.UNSET)

_PLAIN = frozenset({str, bool, int, float})
_FEW = 32
"""Attributes that are within the limit, unless a lower one is set."""


class RecordingProvider(TracerProvider):
    """The SDK's provider, which records Headrace's own spans itself while that is the same."""

    def __init__(self, resource: Resource, scope: str, schema_url: str) -> None:
        """Record spans of `scope`, made by `resource`. The caller shuts the provider down."""
        self.limits, self.scope = SpanLimits(), InstrumentationScope(scope, "", schema_url)
        super().__init__(resource=resource, shutdown_on_exit=False, span_limits=self.limits)
        self._processors = list[SpanProcessor]()
        # Any other sampler decides for each span.
        self.can_record = isinstance(self.sampler, ParentBased)
        """Whether `record` says the same as the SDK's tracer."""

    @override
    def add_span_processor(self, span_processor: SpanProcessor) -> None:
        super().add_span_processor(span_processor)
        self._processors.append(span_processor)
        self.can_record = self.can_record and type(span_processor) in _ONLY_EXPORTING

    def record(
        self,
        name: str,
        kind: SpanKind,
        parent: SpanContext,
        attributes: Attributes,
        links: Sequence[Link],
    ) -> Span:
        """Start a span, which the caller ends. Without a valid `parent` it begins a trace."""
        ids = self.id_generator
        trace_id, _, _, stated, state, is_child = parent
        if is_child:
            flags = stated & (_SAMPLED | _RANDOM)
        else:
            trace_id = ids.generate_trace_id()
            flags = _RANDOM if ids.is_trace_id_random() else 0
            found = self.sampler.should_sample(_NO_PARENT, trace_id, name, kind, attributes, links)
            flags |= _SAMPLED if found.decision is Decision.RECORD_AND_SAMPLE else 0
        own = ids.generate_span_id()
        context = SpanContext(trace_id, own, False, _FLAGS[flags], state)  # noqa: FBT003
        if not flags & _SAMPLED:
            return NonRecordingSpan(context)
        above = parent if is_child else None
        return _RecordedSpan(self, name, kind, context, above, attributes, links)

    def end(self, span: ReadableSpan) -> None:
        """Export a span that has ended."""
        for processor in self._processors:
            processor.on_end(span)


class _RecordedSpan(ReadableSpan, Span):
    """A span. When it has ended, it is what the processors export: nothing is copied."""

    def __init__(  # noqa: PLR0913, PLR0917 - a span has that many
        self,
        provider: RecordingProvider,
        name: str,
        kind: SpanKind,
        context: SpanContext,
        parent: SpanContext | None,
        attributes: Attributes,
        links: Sequence[Link],
    ) -> None:
        self._provider, self._is_open = provider, True
        self._own_context, self._given = context, dict(attributes or {})
        # By position, which takes half the time.
        ReadableSpan.__init__(
            self,
            name,
            context,
            parent,
            provider.resource,
            self._given,
            (),
            links,
            kind,
            None,
            _UNSET,
            time_ns(),
            None,
            provider.scope,
        )

    @override
    def get_span_context(self) -> SpanContext:
        return self._own_context

    @override
    def is_recording(self) -> bool:
        return self._is_open

    @override
    def end(self, end_time: int | None = None) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self._end_time = end_time or time_ns()
        self._attributes = self._limited_attributes()
        self._provider.end(self)

    def _limited_attributes(self) -> Attributes:
        limits, attributes = self._provider.limits, self._given
        most, longest = limits.max_span_attributes, limits.max_span_attribute_length
        is_few = len(attributes) <= (_FEW if most is None else min(_FEW, most))
        if is_few and longest is None and _PLAIN.issuperset(map(type, attributes.values())):
            return attributes
        return BoundedAttributes(most, attributes, max_value_len=longest)

    @override
    def set_attributes(self, attributes: Mapping[str, AttributeValue]) -> None:
        if self._is_open:
            self._given.update(attributes)

    @override
    def set_attribute(self, key: str, value: AttributeValue) -> None:
        if self._is_open:
            self._given[key] = value

    @override
    def add_event(
        self, name: str, attributes: Attributes = None, timestamp: int | None = None
    ) -> None:
        if not self._is_open:
            return
        limits = self._provider.limits
        if not isinstance(self._events, BoundedList):
            self._events = BoundedList(limits.max_events)
        limited = BoundedAttributes(
            limits.max_event_attributes, attributes, max_value_len=limits.max_attribute_length
        )
        self._events.append(Event(name, limited, timestamp))

    @override
    def add_link(self, context: SpanContext, attributes: Attributes = None) -> None:
        if not self._is_open or not context.is_valid:
            return
        limits = self._provider.limits
        limited = BoundedAttributes(
            limits.max_link_attributes, attributes, max_value_len=limits.max_attribute_length
        )
        links = [*self._links, Link(context, limited)]
        self._links = BoundedList.from_seq(limits.max_links, links)

    @override
    def update_name(self, name: str) -> None:
        if self._is_open:
            self._name = name

    @override
    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        stated = status if isinstance(status, Status) else Status(status, description)
        if self._is_open and self._status.status_code is not StatusCode.OK and not stated.is_unset:
            self._status = stated

    @override
    def record_exception(
        self,
        exception: BaseException,
        attributes: Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        raised = type(exception)
        module = "" if raised.__module__ == "builtins" else f"{raised.__module__}."
        event = {
            EXCEPTION_TYPE: f"{module}{raised.__qualname__}",
            EXCEPTION_MESSAGE: str(exception),
            EXCEPTION_STACKTRACE: "".join(format_exception(exception)),
            EXCEPTION_ESCAPED: str(escaped),
            **(attributes or {}),
        }
        self.add_event("exception", event, timestamp)
