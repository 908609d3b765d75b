"""What proxies state of a request's address is taken from those that are trusted, and checked."""

from typing import Any

import pytest
from pydantic import ValidationError
from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from headrace_gateway.server.forwarded import ForwardedApp, TrustedProxies
from headrace_gateway.server.public_url import mounted_at, public_url
from headrace_gateway.settings import GatewaySettings

DIRECT = "http://internal:8080"
PUBLIC = "https://agents.example"
SETTINGS = GatewaySettings(grpc_port=0)


async def seen(
    headers: list[tuple[str, str]], peer: str | None = "10.0.0.7", kind: str = "http"
) -> HTTPConnection:
    """Return the request behind the middleware."""
    found = list[Scope]()

    async def app(scope: Scope, _: Receive, __: Send) -> None:
        found.append(scope)

    named = [("host", "internal:8080"), *headers]
    scope: dict[str, Any] = {
        "type": kind,
        "scheme": "http" if kind == "http" else "ws",
        "path": "/",
        "headers": [(name.encode(), value.encode()) for name, value in named],
        "client": peer and (peer, 50_000),
    }
    nothing: Any = None
    trusted = TrustedProxies(["10.0.0.0/24", "2001:db8::1"])
    await ForwardedApp(app, trusted)(scope, nothing, nothing)
    return HTTPConnection(found[0])


X = [("x-forwarded-proto", "https"), ("x-forwarded-host", "agents.example")]
RFC = [("forwarded", "for=192.0.2.1;proto=https;host=agents.example")]


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    ("headers", "url"),
    [
        (X, PUBLIC),
        (RFC, PUBLIC),
        ([*X, ("x-forwarded-prefix", "/fleet/one/")], f"{PUBLIC}/fleet/one"),
        ([*RFC, ("x-forwarded-prefix", "/fleet")], f"{PUBLIC}/fleet"),
        ([("x-forwarded-proto", "HTTPS")], "https://internal:8080"),
        ([("forwarded", 'host="agents.example:8443";Proto=https')], f"{PUBLIC}:8443"),
        ([*RFC, ("x-forwarded-host", "other.example")], PUBLIC),
        # A chain: what the trusted proxy nearest to the client states.
        ([("forwarded", "for=192.0.2.1;host=agents.example;proto=https, for=10.0.0.9")], PUBLIC),
        (
            [("forwarded", 'for=192.0.2.1;host=evil.example, for="[2001:db8::1]:4"')],
            "http://evil.example",
        ),
        # What a client has sent itself stands left of what the proxy states.
        ([("forwarded", "for=10.0.0.9;host=evil.example"), *RFC], PUBLIC),
        ([("x-forwarded-host", "evil.example, agents.example"), X[0]], PUBLIC),
        ([("forwarded", 'for="x, for=y"; HOST=agents.example ;;proto="https";a.1_x=')], PUBLIC),
        ([("forwarded", 'host="agents\\.example";proto=https')], PUBLIC),
        ([("forwarded", ""), *RFC], PUBLIC),
    ],
)
async def test_a_trusted_proxy_names_the_address(
    headers: list[tuple[str, str]], url: str, kind: str
) -> None:
    assert public_url(await seen(headers, kind=kind), SETTINGS) == url


@pytest.mark.parametrize("peer", ["192.0.2.1", "10.0.1.1", None, "unix"])
@pytest.mark.parametrize("headers", [X, RFC, [*X, ("x-forwarded-prefix", "/a")]])
async def test_nobody_else_does(headers: list[tuple[str, str]], peer: str | None) -> None:
    assert public_url(await seen(headers, peer), SETTINGS) == DIRECT


@pytest.mark.parametrize(
    "begun", ['host=evil.example;for="', 'host="evil.example', "host=evil.example, x", 'a="b"c']
)
async def test_a_header_that_a_client_has_spoilt_states_nothing(begun: str) -> None:
    assert public_url(await seen([("forwarded", begun), *RFC]), SETTINGS) == DIRECT


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "begun",
    ["a" * 64_000, " " * 64_000, '"' + '\\"' * 32_000, 'a="' + '\\"' * 32_000, "a=b;" * 16_000],
)
async def test_a_long_header_takes_linear_time(begun: str) -> None:
    for _ in range(10):
        await seen([("forwarded", f"{begun}!")])
        await seen([("forwarded", begun)])


@pytest.mark.parametrize("peer", ["::ffff:10.0.0.7", "2001:db8::1"])
async def test_a_proxy_is_known_by_each_form_of_its_address(peer: str) -> None:
    assert public_url(await seen(X, peer), SETTINGS) == PUBLIC


@pytest.mark.parametrize(
    "prefix",
    [
        "//evil.example",
        "/a//b",
        "/../a",
        "/a/..",
        "https://evil",
        "/a?b",
        "/a#b",
        "/%2e",
        "a",
        "/" * 999,
    ],
)
async def test_a_prefix_that_is_no_plain_path_is_ignored(prefix: str) -> None:
    assert mounted_at(await seen([("x-forwarded-prefix", prefix)])) == ""


@pytest.mark.parametrize("scheme", ["javascript", "ftp", "https:", "", "http https"])
async def test_a_scheme_that_is_not_the_webs_is_ignored(scheme: str) -> None:
    assert (await seen([("x-forwarded-proto", scheme)])).scope["scheme"] == "http"


async def test_a_setting_takes_precedence() -> None:
    settings = GatewaySettings(public_url="https://stated.example", grpc_port=0)
    assert public_url(await seen(X), settings) == "https://stated.example"


@pytest.mark.parametrize("stated", ["proxy", "10.0.0.0/33", "10.0.0.1/24"])
def test_a_setting_that_is_no_network_is_refused(stated: str) -> None:
    with pytest.raises(ValidationError, match="trusted_proxies"):
        GatewaySettings.model_validate({"trusted_proxies": stated})
