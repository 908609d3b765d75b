"""Requests of an EventSource to a gateway that is starting wait for it: it would give up."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace_gateway.app import StartingApp

_LONG = 600.0


def named(name: str, served: list[str]) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001 - an application
        served.append(f"{name} {scope['path']}")

    return app


def request_to(
    app: ASGIApp,
    path: str = "/",
    method: str = "GET",
    accept: bytes = b"text/event-stream",
    kind: str = "http",
) -> Coroutine[Any, Any, None]:
    async def nothing(*_: object) -> Any:  # noqa: ANN401 - any message
        raise AssertionError("neither reads nor writes")

    headers = [(b"host", b"h"), (b"accept", accept)]
    scope = {"type": kind, "method": method, "path": path, "headers": headers}
    return app(scope, nothing, nothing)  # type: ignore[return-value]


async def test_a_request_is_served_once_the_gateway_has_started() -> None:
    served = list[str]()
    starting = StartingApp(named("refused", served), _LONG)
    waiting = [asyncio.create_task(request_to(starting, path)) for path in ("/a", "/b")]
    await asyncio.sleep(0)
    assert not served
    starting.end(named("served", served))
    await asyncio.wait_for(asyncio.gather(*waiting), 60)
    assert served == ["served /a", "served /b"]


async def test_a_request_is_refused_when_the_start_takes_too_long() -> None:
    served = list[str]()
    starting = StartingApp(named("refused", served), 0.01)
    await asyncio.wait_for(request_to(starting, "/a"), 60)
    assert served == ["refused /a"]


async def test_requests_are_refused_when_the_start_has_failed() -> None:
    served = list[str]()
    starting = StartingApp(named("refused", served), _LONG)
    waiting = asyncio.create_task(request_to(starting, "/a"))
    await asyncio.sleep(0)
    starting.end()
    await asyncio.wait_for(waiting, 60)
    assert served == ["refused /a"]


@pytest.mark.parametrize(
    ("method", "accept", "kind"),
    [
        ("POST", b"text/event-stream", "http"),
        ("GET", b"application/json", "http"),
        ("GET", b"*/*", "http"),
        ("GET", b"text/event-stream", "websocket"),
    ],
)
async def test_other_clients_are_refused_at_once(method: str, accept: bytes, kind: str) -> None:
    served = list[str]()
    starting = StartingApp(named("refused", served), _LONG)
    await asyncio.wait_for(request_to(starting, "/a", method, accept, kind), 60)
    assert served == ["refused /a"]
