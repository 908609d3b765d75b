"""Incomplete heads are bounded together: nobody has said yet who sends them."""

import pytest
from starlette.types import Receive, Scope, Send

from headrace_gateway.server import http_protocol
from headrace_gateway.server.http_protocol import ServerConfig
from tests.support.http_connection import config_of, connection
from tests.support.waiting import soon

HALF = b"GET / HTTP/1.1\r\nHost: gateway\r\nX: " + b"x" * 60_000
REST = b"\r\n\r\n"
SERVED, REFUSED = b"HTTP/1.1 204 No Content\r\n", b"HTTP/1.1 503 Service Unavailable\r\n"


async def nothing(_: Scope, __: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> ServerConfig:
    """A server's that holds two halves of heads, but not three."""
    monkeypatch.setattr(http_protocol, "INCOMPLETE_HEADS", 150_000)
    return config_of(nothing)


async def test_a_head_beyond_the_limit_is_refused_with_a_time_to_try_again(
    config: ServerConfig,
) -> None:
    (one, _), (two, _), (three, socket) = (connection(config) for _ in range(3))
    for protocol in (one, two, three):
        protocol.data_received(HALF)
    assert socket.written.startswith(REFUSED + b"Retry-After: 1\r\n")
    assert socket.closed
    assert config.incomplete_heads == 2 * len(HALF)


async def test_a_head_in_one_piece_is_served_at_the_limit(config: ServerConfig) -> None:
    (one, _), (two, _), (three, socket) = (connection(config) for _ in range(3))
    for protocol in (one, two):
        protocol.data_received(HALF)
    three.data_received(HALF + REST)
    await soon(lambda: socket.written.startswith(SERVED), "the request is served")


async def test_heads_that_are_whole_refused_or_given_up_count_no_longer(
    config: ServerConfig,
) -> None:
    (whole, socket), (refused, _), (left, _) = (connection(config) for _ in range(3))
    for _ in range(3):
        whole.data_received(HALF)
        assert config.incomplete_heads == len(HALF)
        whole.data_received(REST)
        await soon(lambda: socket.written.startswith(SERVED), "the request is served")
        socket.written = b""
    refused.data_received(HALF)
    refused.data_received(HALF)
    assert refused.transport.is_closing()
    left.data_received(HALF)
    assert config.incomplete_heads == len(HALF)
    left.connection_lost(None)
    assert config.incomplete_heads == 0
