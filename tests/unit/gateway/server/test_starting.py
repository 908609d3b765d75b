"""Requests to a gateway that is starting wait for it, so that no EventSource gives up."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace_gateway.server.starting import StartingApp

_LONG = 600.0


def named(name: str, served: list[str]) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001 - an application
        served.append(f"{name} {scope['path']}")

    return app


def request_to(app: ASGIApp, path: str = "/", kind: str = "http") -> Coroutine[Any, Any, None]:
    async def nothing(*_: object) -> Any:  # noqa: ANN401 - any message
        raise AssertionError("neither reads nor writes")

    return app({"type": kind, "path": path}, nothing, nothing)  # type: ignore[return-value]


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
    ("path", "kind"),
    [("/healthz", "http"), ("/readyz", "http"), ("/metrics", "http"), ("/a", "websocket")],
)
async def test_probes_and_websockets_are_answered_at_once(path: str, kind: str) -> None:
    served = list[str]()
    starting = StartingApp(named("refused", served), _LONG)
    await asyncio.wait_for(request_to(starting, path, kind), 60)
    assert served == [f"refused {path}"]
