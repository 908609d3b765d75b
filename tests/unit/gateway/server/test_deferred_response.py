"""What a request leaves behind is served when routing and middleware have returned."""

import asyncio
from collections.abc import Callable

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace_gateway.server.long_responses import DeferringApp, deferred_of
from headrace_gateway.server.open_requests import OpenRequests


async def nothing() -> Message:
    raise AssertionError("nobody asks")


async def nowhere(message: Message) -> None:
    raise AssertionError(f"nobody is told {message}")


def leaving(output: list[str], rest: Callable[[], None]) -> ASGIApp:
    """Return an application in a middleware that leaves `rest`."""

    async def left(receive: Receive, send: Send) -> None:
        assert (receive, send) == (nothing, nowhere)
        rest()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001 - ASGI
        deferred = deferred_of(scope)
        assert deferred is not None
        deferred.at_end(lambda: output.append("end"))
        deferred.defer(left)

    async def middleware(scope: Scope, receive: Receive, send: Send) -> None:
        scope["grown"] = True
        await app(scope, receive, send)
        output.append("returned")

    return middleware


async def serve(app: ASGIApp) -> Scope:
    scope: Scope = {"type": "http"}
    await DeferringApp(OpenRequests(), app)(scope, nothing, nowhere)
    return scope


async def test_the_rest_is_served_when_the_stack_has_gone_and_then_it_ends() -> None:
    output = list[str]()
    await serve(leaving(output, lambda: output.append("rest")))
    assert output == ["returned", "rest", "end"]


async def test_what_the_stack_adds_to_the_scope_goes_with_it() -> None:
    assert await serve(leaving([], lambda: None)) == {"type": "http"}


async def test_the_end_comes_also_when_the_rest_fails() -> None:
    output = list[str]()

    def fail() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await serve(leaving(output, fail))
    assert output == ["returned", "end"]


async def test_the_end_comes_also_when_the_stack_is_cancelled() -> None:
    output, begun = list[str](), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001 - ASGI
        deferred = deferred_of(scope)
        assert deferred is not None
        deferred.at_end(lambda: output.append("end"))
        begun.set()
        await asyncio.Event().wait()

    serving = asyncio.create_task(serve(app))
    await begun.wait()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert output == ["end"]


def test_without_it_there_is_nowhere_to_leave_anything() -> None:
    assert deferred_of({"type": "http"}) is None
