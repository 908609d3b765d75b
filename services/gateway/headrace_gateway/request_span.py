"""The span of one call of an operation, from access control to the last byte of its answer."""

import asyncio
from contextvars import ContextVar
from functools import lru_cache

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind
from starlette.requests import HTTPConnection

from headrace import log_context, tracing
from headrace.tracing import Plain, SpanTemplate
from headrace_gateway.server.long_responses import deferred_of
from headrace_gateway.server.open_requests import open_request

_current: ContextVar[Span] = ContextVar("span", default=trace.INVALID_SPAN)


def begin_span(
    connection: HTTPConnection, operation: str, agent: str, traceparent: str, task: str = ""
) -> str:
    """Begin the span of a call, as a child of the client's `traceparent`; return its own.

    `task` is the one that the call names. The span ends with the HTTP response, or with the
    asyncio task that serves the call.
    """
    # Instrumentation of the surrounding application has already continued the client's trace.
    current = tracing.current_context()
    parent = current if current.is_valid or not traceparent else traceparent
    request = open_request()
    binding = None if request is None else (request.protocol, request.binding)
    attributes: dict[str, Plain] = {"headrace.task.id": task} if task else {}
    span = tracing.start_span_of(_template(operation, agent, binding), parent, attributes)
    _current.set(span)
    _end_with(connection, span)
    return tracing.traceparent_of(span) or traceparent


@lru_cache(maxsize=1024)
def _template(operation: str, agent: str, binding: tuple[str, str] | None) -> SpanTemplate:
    attributes = {"rpc.method": operation, "gen_ai.agent.name": agent}
    if binding is not None:
        attributes["headrace.protocol"], attributes["headrace.binding"] = binding
    return SpanTemplate(operation, SpanKind.SERVER, attributes)


def _end_with(connection: HTTPConnection, span: Span) -> None:
    deferred = deferred_of(connection.scope) if connection.scope["type"] == "http" else None
    if deferred is not None:
        deferred.at_end(span.end)
    elif (task := asyncio.current_task()) is not None:
        task.add_done_callback(lambda _: span.end())


def note_named_task(task: str) -> None:
    """Record the task that the call names in its body, in its span and its log lines."""
    log_context.note_task(task)
    span = _current.get()
    if span.is_recording():
        span.set_attribute("headrace.task.id", task)


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
