"""SubscribeToContext: the events of all tasks of a context, those that begin later included.

An operation of an extension (`CONTEXTS`), over server-sent events and WebSocket.
"""

from collections.abc import Callable
from functools import partial

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp

from headrace.log.thread_log import ThreadName
from headrace.model import json_text
from headrace.model.errors import TaskUnknown
from headrace.model.events import Json
from headrace_gateway.call import Call, check_unchanged
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.services import Services
from headrace_gateway.streaming.renderer import Interruption, Messages
from headrace_gateway.streaming.sse import HttpStream, frame
from headrace_gateway.thread_feed import ThreadEvent, ThreadFeed, ThreadRenderer, open_feed

FOLLOW = "SubscribeToContext"

CONTEXT = "contextId"


async def context_feed(services: Services, call: Call, params: Json) -> ThreadFeed:
    """Return the feed of the caller's context with the agent, after the call's cursor.

    Raises:
        Malformed: the parameters name no context.
        TaskUnknown: the caller has no task in the context with this agent.
        LogLost: the cursor is of other logs.
        BusUnavailable: try again.
    """
    context = params.get(CONTEXT)
    if not isinstance(context, str) or not context:
        raise Malformed([Violation(CONTEXT, "must be a context's id")])
    caller = call.caller
    name = ThreadName(caller.tenant, caller.owner, context, call.agent)
    feed = await open_feed(services.bus, services.links, name, call.cursor)
    if feed is None:
        raise TaskUnknown("the context has no tasks with this agent")
    return feed


def context_renderer(
    services: Services,
    call: Call,
    render: Callable[[ThreadEvent], bytes],
    interrupted: Callable[[Interruption], Messages] | None = None,
    connection: HTTPConnection | None = None,
) -> ThreadRenderer:
    """Return what renders a context's events for the call's client, without erasures."""

    def shown(event: ThreadEvent) -> bytes:
        return render(event) if event.line else b""

    headers = (connection or call.connection).headers
    check = partial(check_unchanged, services, headers, call.caller, call.card)
    return ThreadRenderer(shown, lambda _: True, check, interrupted)


async def rest_follow(services: Services, call: Call, params: Json) -> ASGIApp:
    """Return a stream of StreamResponses; raises as `context_feed`."""
    return await _sse(services, call, params, lambda line: line)


async def rpc_follow(services: Services, call: Call, params: Json, request_id: object) -> ASGIApp:
    """Return a stream of JSON-RPC responses; raises as `context_feed`."""
    head = b'{"jsonrpc":"2.0","id":%b,"result":' % json_text.encode(request_id)
    return await _sse(services, call, params, lambda line: b"%b%b}" % (head, line))


async def _sse(
    services: Services, call: Call, params: Json, around: Callable[[bytes], bytes]
) -> ASGIApp:
    async def opening() -> ASGIApp:
        feed = await context_feed(services, call, params)
        renderer = context_renderer(
            services, call, lambda event: frame(event.cursor, around(event.line))
        )
        return HttpStream(services.subscriptions, feed.held(), 0, renderer, headers=call.headers)

    return await services.stream_limits.with_permit(call.caller, opening)
