"""The span of one call of an operation, from access control to the last byte of its answer."""

import asyncio
from contextvars import ContextVar

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind
from starlette.requests import HTTPConnection

from headrace import log_context, tracing
from headrace_gateway.server.deferred_response import deferred_of
from headrace_gateway.server.open_requests import open_request

_current: ContextVar[Span] = ContextVar("span", default=trace.INVALID_SPAN)


def begin_span(
    connection: HTTPConnection, operation: str, traceparent: str, attributes: dict[str, str]
) -> str:
    """Begin the span of a call, as a child of the client's `traceparent`; return its own.

    The protocol and binding are added to `attributes`. The span ends with the HTTP response, or
    with the asyncio task that serves the call.
    """
    # Instrumentation of the surrounding application has already continued the client's trace.
    is_inside = trace.get_current_span().get_span_context().is_valid
    if (request := open_request()) is not None:
        attributes["headrace.protocol"] = request.protocol
        attributes["headrace.binding"] = request.binding
    span = tracing.start_span(
        operation, SpanKind.SERVER, None if is_inside else traceparent, attributes
    )
    _current.set(span)
    _end_with(connection, span)
    return tracing.traceparent_of(span) or traceparent


def _end_with(connection: HTTPConnection, span: Span) -> None:
    deferred = deferred_of(connection.scope) if connection.scope["type"] == "http" else None
    if deferred is not None:
        deferred.at_end(span.end)
    elif (task := asyncio.current_task()) is not None:
        task.add_done_callback(lambda _: span.end())


def note_task(task: str, context: str) -> None:
    """Record the call's task and context, in its span and its log lines."""
    log_context.note_task(task)
    span = _current.get()
    if span.is_recording():
        span.set_attributes({"headrace.task.id": task, "gen_ai.conversation.id": context})


def note_refusal(reason: str, *, is_fault: bool) -> None:
    """Record why the call was refused; `is_fault`: whether it is the server's fault."""
    span = _current.get()
    if not span.is_recording():
        return
    if is_fault:
        tracing.note_error(span, reason)
    else:
        span.set_attribute("error.type", reason)
