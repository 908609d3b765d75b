"""Who may call: WebSockets, and gateways that are not on loopback."""

from collections.abc import MutableMapping
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from headrace_gateway.origin import OriginGuard, is_loopback
from headrace_gateway.settings import GatewaySettings

type Json = MutableMapping[str, Any]


async def nothing() -> Json:
    return {"type": "websocket.connect"}


async def app(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001 - ASGI's signature
    await send({"type": "websocket.accept"})


async def answered(guard: OriginGuard, headers: dict[str, str]) -> list[str]:
    sent: list[str] = []

    async def send(message: Json) -> None:
        sent.append(message["type"])

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await guard({"type": "websocket", "headers": raw}, nothing, send)
    return sent


async def test_a_foreign_pages_websocket_is_closed_before_it_opens() -> None:
    guard = OriginGuard(app, GatewaySettings())
    foreign = {"host": "127.0.0.1:8080", "origin": "https://evil.example"}
    assert await answered(guard, foreign) == ["websocket.close"]
    own = {"host": "127.0.0.1:8080", "origin": "http://127.0.0.1:8080"}
    assert await answered(guard, own) == ["websocket.accept"]


def test_a_gateway_for_others_goes_by_any_host_but_not_for_any_page() -> None:
    guard = OriginGuard(app, GatewaySettings(http_host="0.0.0.0"))  # noqa: S104 - not listened on
    assert guard.refusal(Headers({"host": "agents.example"})) == ""
    foreign = Headers({"host": "agents.example", "origin": "https://evil.example"})
    assert "HEADRACE_CORS_ORIGINS" in guard.refusal(foreign)


def test_a_gateway_for_others_goes_by_its_own_hosts_once_they_are_named() -> None:
    guard = OriginGuard(
        app,
        GatewaySettings(
            http_host="0.0.0.0",  # noqa: S104 - not listened on
            public_url="https://agents.example",
            allowed_hosts=["gateway"],
        ),
    )
    for host in ("gateway:8080", "agents.example", "127.0.0.1:8080"):
        assert guard.refusal(Headers({"host": host})) == ""
    assert "HEADRACE_ALLOWED_HOSTS" in guard.refusal(Headers({"host": "evil.example:8080"}))


@pytest.mark.parametrize("host", ["10.1.2.3:8080", "192.0.2.7", "[2001:db8::7]:8080"])
def test_who_asks_by_address_needs_no_name_but_a_page_of_its_own(host: str) -> None:
    guard = OriginGuard(app, GatewaySettings(allowed_hosts=["gateway"]))
    assert guard.refusal(Headers({"host": host})) == ""
    assert guard.refusal(Headers({"host": host, "origin": f"http://{host}"})) == ""
    for foreign in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert "HEADRACE_CORS_ORIGINS" in guard.refusal(Headers({"host": host, **foreign}))


@pytest.mark.parametrize("host", ["10.1.2.3.evil.example", "10.1.2.3.4", "10.1.2", "0x7f000001"])
def test_what_only_looks_like_an_address_is_a_name(host: str) -> None:
    guard = OriginGuard(app, GatewaySettings(allowed_hosts=["gateway"]))
    assert "HEADRACE_ALLOWED_HOSTS" in guard.refusal(Headers({"host": host}))


def test_a_star_lets_all_pages_call() -> None:
    guard = OriginGuard(app, GatewaySettings(cors_origins=["*"]))
    assert guard.refusal(Headers({"host": "localhost", "origin": "https://any.example"})) == ""


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("agents.localhost", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("0.0.0.0", False),  # noqa: S104 - not listened on
        ("10.0.0.1", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_loopback_is_this_machine_for_itself(host: str, loopback: bool) -> None:  # noqa: FBT001 - a parameter of the test
    assert is_loopback(host) is loopback
