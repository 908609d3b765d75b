"""Who may call: WebSockets, and gateways that are not on loopback."""

from collections.abc import MutableMapping
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from headrace_gateway.protocol_table import ERRORS
from headrace_gateway.server.endpoints import IndexedHeaders
from headrace_gateway.server.origin import OriginGuard, Origins, is_loopback
from headrace_gateway.settings import GatewaySettings

type Json = MutableMapping[str, Any]


async def nothing() -> Json:
    return {"type": "websocket.connect"}


async def app(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001 - ASGI's signature
    await send({"type": "websocket.accept"})


def sent(headers: dict[str, str]) -> IndexedHeaders:
    return IndexedHeaders([(name.encode(), value.encode()) for name, value in headers.items()])


async def answered(guard: OriginGuard, headers: dict[str, str]) -> list[str]:
    sent: list[str] = []

    async def send(message: Json) -> None:
        sent.append(message["type"])

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await guard({"type": "websocket", "headers": raw}, nothing, send)
    return sent


async def test_a_foreign_pages_websocket_is_closed_before_it_opens() -> None:
    guard = OriginGuard(app, GatewaySettings(), ERRORS.forbidden)
    foreign = {"host": "127.0.0.1:8080", "origin": "https://evil.example"}
    assert await answered(guard, foreign) == ["websocket.close"]
    own = {"host": "127.0.0.1:8080", "origin": "http://127.0.0.1:8080"}
    assert await answered(guard, own) == ["websocket.accept"]


def test_a_gateway_for_others_goes_by_any_host_but_not_for_any_page() -> None:
    origins = Origins(GatewaySettings(http_host="0.0.0.0"))  # noqa: S104 - not listened on
    assert origins.refusal(sent({"host": "agents.example"})) == ""
    foreign = sent({"host": "agents.example", "origin": "https://evil.example"})
    assert "HEADRACE_CORS_ORIGINS" in origins.refusal(foreign)


def test_a_gateway_for_others_goes_by_its_own_hosts_once_they_are_named() -> None:
    origins = Origins(
        GatewaySettings(
            http_host="0.0.0.0",  # noqa: S104 - not listened on
            public_url="https://agents.example",
            allowed_hosts=["gateway"],
        ),
    )
    for host in ("gateway:8080", "agents.example", "127.0.0.1:8080"):
        assert origins.refusal(sent({"host": host})) == ""
    assert "HEADRACE_ALLOWED_HOSTS" in origins.refusal(sent({"host": "evil.example:8080"}))


@pytest.mark.parametrize("host", ["10.1.2.3:8080", "192.0.2.7", "[2001:db8::7]:8080"])
def test_a_request_by_address_needs_no_name_but_a_page_of_its_own(host: str) -> None:
    origins = Origins(GatewaySettings(allowed_hosts=["gateway"]))
    assert origins.refusal(sent({"host": host})) == ""
    assert origins.refusal(sent({"host": host, "origin": f"http://{host}"})) == ""
    for foreign in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert "HEADRACE_CORS_ORIGINS" in origins.refusal(sent({"host": host, **foreign}))


@pytest.mark.parametrize("host", ["10.1.2.3.evil.example", "10.1.2.3.4", "10.1.2", "0x7f000001"])
def test_what_only_looks_like_an_address_is_a_name(host: str) -> None:
    origins = Origins(GatewaySettings(allowed_hosts=["gateway"]))
    assert "HEADRACE_ALLOWED_HOSTS" in origins.refusal(sent({"host": host}))


def test_a_star_lets_all_pages_call() -> None:
    origins = Origins(GatewaySettings(cors_origins=["*"]))
    assert origins.refusal(sent({"host": "localhost", "origin": "https://any.example"})) == ""


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


HOST = {"host": "127.0.0.1:8080"}
CHROME = {"user-agent": "Mozilla/5.0 (X11; Linux x86_64)"}


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
        {"sec-fetch-site": "none", "sec-fetch-mode": "navigate"},
        CHROME,
        CHROME | {"referer": "https://evil.example/page"},
        CHROME | {"referer": "http://127.0.0.1:3000/"},
    ],
)
def test_a_page_that_is_not_allowed_starts_nothing_by_a_get(headers: dict[str, str]) -> None:
    origins = Origins(GatewaySettings(cors_origins=["loopback", "https://app.example"]))
    assert "POST" in origins.refusal_of_effect(sent(HOST | headers))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"user-agent": "curl/8.5.0"},
        CHROME | {"sec-fetch-site": "same-origin"},
        CHROME | {"referer": "http://127.0.0.1:8080/page"},
        CHROME | {"referer": "https://app.example/page"},
        CHROME | {"origin": "https://app.example", "sec-fetch-site": "cross-site"},
    ],
)
def test_programs_and_allowed_pages_start_work_by_a_get(headers: dict[str, str]) -> None:
    origins = Origins(GatewaySettings(cors_origins=["https://app.example"]))
    assert origins.refusal(sent(HOST | headers)) == ""
    assert origins.refusal_of_effect(sent(HOST | headers)) == ""


@pytest.mark.parametrize(
    ("origin", "mode", "allowed"),
    [
        ("http://localhost:3000", "cors", True),
        ("http://127.0.0.1:5173", "cors", True),
        ("http://app.localhost", "cors", True),
        ("http://[::1]:3000", "cors", True),
        ("http://localhost:3000", "navigate", False),
        ("http://localhost:3000", "websocket", False),
        ("http://localhost:3000", "", False),
        ("http://localhost.evil.example", "cors", False),
        ("http://127.0.0.1.evil.example", "cors", False),
        ("https://evil.example", "cors", False),
        ("null", "cors", False),
    ],
)
def test_loopback_names_the_pages_of_this_machine_that_ask_by_cors(
    origin: str,
    mode: str,
    allowed: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    origins = Origins(GatewaySettings(cors_origins=["loopback"]))
    headers = HOST | {"origin": origin} | ({"sec-fetch-mode": mode} if mode else {})
    assert (origins.refusal(sent(headers)) == "") is allowed
    assert origins.refusal(sent(HOST | {"origin": "http://127.0.0.1:8080"})) == ""


MALFORMED = (
    "[::1",
    "::1]",
    "[v1.x]",
    "a b",
    "a/b",
    "a?b",
    "user@a",
    "a:b",
    "[::1]x",
    "\u00e4",
    "a\\b",
)


@pytest.mark.parametrize("host", MALFORMED)
@pytest.mark.parametrize("listens_on", ["127.0.0.1", "0.0.0.0"])  # noqa: S104 - not listened on
def test_a_host_that_is_none_is_refused(host: str, listens_on: str) -> None:
    origins = Origins(GatewaySettings(http_host=listens_on))
    assert "is not a host name or address" in origins.refusal(
        IndexedHeaders([(b"host", host.encode())])
    )


@pytest.mark.parametrize("page", ["http://[::1", "//[", "null", "http://[v1.x]/"])
def test_a_page_that_is_nowhere_may_not_call(page: str) -> None:
    origins = Origins(GatewaySettings())
    assert origins.refusal(sent({"host": "localhost", "origin": page}))
    browser = {"host": "localhost", "user-agent": "Mozilla/5.0", "referer": page}
    assert origins.refusal_of_effect(sent(browser))
