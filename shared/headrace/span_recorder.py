"""Headrace's own spans, recorded for less processor time than by OpenTelemetry's SDK.

The SDK checks and copies each attribute under two locks, and builds a context and a sampling result
to find that a span is sampled, and copies the span when it ends. A span here keeps what it is
given, is checked when it ends, and is itself what is exported. It is sampled, limited and exported
as the SDK's spans are. Needs the extra `opentelemetry`.
"""

from collections.abc import Mapping, Sequence
from time import time_ns
from traceback import format_exception
from typing import Any, override

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import DEFAULT_ON, Decision, ParentBased
from opentelemetry.sdk.util import BoundedList
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.semconv.attributes.exception_attributes import (
    EXCEPTION_ESCAPED,
    EXCEPTION_MESSAGE,
    EXCEPTION_STACKTRACE,
    EXCEPTION_TYPE,
)
from opentelemetry.trace import (
    DEFAULT_TRACE_STATE,
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
)
from opentelemetry.util.types import Attributes, AttributeValue

from headrace.span_template import Plain, SpanTemplate, valid_context

_ONLY_EXPORTING = (BatchSpanProcessor, SimpleSpanProcessor)
"""Processors that do nothing when a span starts."""

_NO_PARENT = Context()
_SAMPLED, _RANDOM = TraceFlags.SAMPLED, TraceFlags.RANDOM_TRACE_ID
_FLAGS = [TraceFlags(flags) for flags in range((_SAMPLED | _RANDOM) + 1)]
UNSET = Status(StatusCode.UNSET)
"""The status of a span that did not fail."""

_PLAIN = frozenset({str, bool, int, float})
_FEW = 32
"""Attributes, of a template or beside it, that are within the limit unless a lower one is set."""

_NONE: Sequence[Any] = ()
"""The events and links of most spans."""

type Origin = tuple[Resource, InstrumentationScope]
"""What spans are of: the same tuple for all of a provider."""

type UsualParts = tuple[
    Origin, SpanTemplate, dict[str, Any], SpanContext, SpanContext | None, int, int, Status
]
"""Origin, template, attributes beside the template's, context, parent, start and end in
nanoseconds, and status. Not a named tuple, which takes longer to make."""


class RecordingProvider(TracerProvider):
    """The SDK's provider, which records Headrace's own spans itself while that is the same."""

    def __init__(self, resource: Resource, scope: str, schema_url: str) -> None:
        """Record spans of `scope`, made by `resource`. The caller shuts the provider down."""
        limits = self.limits = SpanLimits()
        self.origin: Origin = resource, InstrumentationScope(scope, "", schema_url)
        super().__init__(resource=resource, shutdown_on_exit=False, span_limits=limits)
        self.processors = list[SpanProcessor]()
        """What exports a span that has ended."""
        self.has_usual_limits = limits.max_span_attribute_length is None and (
            limits.max_span_attributes is None or limits.max_span_attributes >= 2 * _FEW
        )
        """Whether a few plain attributes are within the limits."""
        # Any other sampler decides for each span.
        self.can_record = isinstance(self.sampler, ParentBased)
        """Whether `record` says the same as the SDK's tracer."""

    @override
    def add_span_processor(self, span_processor: SpanProcessor) -> None:
        super().add_span_processor(span_processor)
        self.processors.append(span_processor)
        self.can_record = self.can_record and type(span_processor) in _ONLY_EXPORTING

    def record(
        self,
        template: SpanTemplate,
        parent: SpanContext,
        attributes: dict[str, Plain],
        links: Sequence[Link],
    ) -> Span:
        """Start a span, which the caller ends. Without a valid `parent` it begins a trace."""
        trace_id, _, _, stated, state, is_child = parent
        if is_child:
            flags = stated & (_SAMPLED | _RANDOM)
        else:
            trace_id = self.id_generator.generate_trace_id()
            flags = self._flags_of_root(trace_id, template, attributes, links)
        own = self.id_generator.generate_span_id()
        context = valid_context(trace_id, own, False, _FLAGS[flags], state)  # noqa: FBT003
        if not flags & _SAMPLED:
            return NonRecordingSpan(context)
        above = parent if is_child else None
        return RecordedSpan(self, template, context, above, attributes, links)

    def _flags_of_root(
        self,
        trace_id: int,
        template: SpanTemplate,
        attributes: Mapping[str, Plain],
        links: Sequence[Link],
    ) -> int:
        random = _RANDOM if self.id_generator.is_trace_id_random() else 0
        if self.sampler is DEFAULT_ON:
            return random | _SAMPLED
        found = self.sampler.should_sample(
            _NO_PARENT,
            trace_id,
            template.name,
            template.kind,
            {**template.attributes, **attributes},
            links,
        )
        return random | (_SAMPLED if found.decision is Decision.RECORD_AND_SAMPLE else 0)


class RecordedSpan(ReadableSpan, Span):
    """A span. When it has ended, it is what the processors export: nothing is copied."""

    # What most spans have stands here, and the SDK's constructor, which takes as long as all of
    # `record`, is not called.
    _instrumentation_info = None
    _events: Sequence[Event] = _NONE
    _status = UNSET
    _end_time: int | None = None
    _bounded: BoundedAttributes | None = None
    _is_open = _is_plain = True

    def __init__(  # noqa: PLR0917 - a span has that many
        self,
        provider: RecordingProvider,
        template: SpanTemplate,
        context: SpanContext,
        parent: SpanContext | None,
        attributes: dict[str, Plain],
        links: Sequence[Link],
    ) -> None:
        """Begin now."""
        self._provider, self._template = provider, template
        self._name, self._kind = template.name, template.kind
        self._context = self._own_context = context
        self._parent = parent
        self._given: dict[str, Any] = attributes
        self._links = BoundedList.from_seq(provider.limits.max_links, links) if links else _NONE
        self._resource, self._instrumentation_scope = provider.origin
        self._start_time = self._began = time_ns()

    @property
    def _attributes(self) -> Mapping[str, Any]:  # type: ignore[override]
        """What the SDK's properties and exporters read."""
        return self._all_attributes() if self._bounded is None else self._bounded

    def _all_attributes(self) -> dict[str, Any]:
        return {**self._template.attributes, **self._given}

    def usual_parts(self) -> UsualParts | None:
        """Return what a span that has ended consists of; None if it is not a usual one.

        A usual span has no events, links or trace state, no description of its status, and only
        plain attributes within the limits.
        """
        if self._bounded is not None:
            return None
        # A list that a limit has emptied counts what was dropped.
        if self._events is not _NONE or self._links is not _NONE:
            return None
        context, status, end = self._own_context, self._status, self._end_time
        if end is None or context[4] is not DEFAULT_TRACE_STATE:
            return None
        if status is not UNSET and status.description:
            return None
        origin, own = self._provider.origin, self._given
        return origin, self._template, own, context, self._parent, self._began, end, status

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
        provider, count = self._provider, len(self._given)
        if not (self._is_plain and provider.has_usual_limits and count <= _FEW):
            self._bounded = self._limited_attributes()
        for processor in provider.processors:
            processor.on_end(self)

    def _limited_attributes(self) -> BoundedAttributes:
        limits, attributes = self._provider.limits, self._all_attributes()
        most, longest = limits.max_span_attributes, limits.max_span_attribute_length
        return BoundedAttributes(most, attributes, max_value_len=longest)

    @override
    def set_attributes(self, attributes: Mapping[str, AttributeValue]) -> None:
        for key, value in attributes.items():
            self.set_attribute(key, value)

    @override
    def set_attribute(self, key: str, value: AttributeValue) -> None:
        if self._is_open:
            self._given[key] = value
            is_usual = type(key) is str and key and key not in self._template.attributes
            if not is_usual or type(value) not in _PLAIN:
                self._is_plain = False

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
        if not isinstance(self._links, BoundedList):
            self._links = BoundedList(limits.max_links)
        self._links.append(Link(context, limited))

    @override
    def update_name(self, name: str) -> None:
        if self._is_open:
            self._name = name
            self._template = SpanTemplate(name, self._kind, self._template.attributes)

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
