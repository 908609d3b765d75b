"""Incomplete heads are bounded together: nobody has said yet who sends them."""

import asyncio
from collections.abc import Iterator

import pytest
from starlette.types import Receive, Scope, Send

from headrace_gateway.server import incomplete_heads
from headrace_gateway.server.http_protocol import ServerConfig
from headrace_gateway.server.incomplete_heads import REFUSED as REFUSED_HEADS
from headrace_gateway.server.incomplete_heads import (
    IncompleteHead,
    IncompleteHeads,
    address_of,
)
from tests.support.http_connection import config_of, connection
from tests.support.waiting import TIMEOUT, soon

HALF = b"GET / HTTP/1.1\r\nHost: gateway\r\nX: " + b"x" * 60_000
REST = b"\r\n\r\n"
SERVED, REFUSED = b"HTTP/1.1 204 No Content\r\n", b"HTTP/1.1 503 Service Unavailable\r\n"


async def nothing(_: Scope, __: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> ServerConfig:
    """A server's that holds two halves of heads, but not three."""
    monkeypatch.setattr(incomplete_heads, "MOST_BYTES", 150_000)
    return config_of(nothing)


async def test_beyond_the_limit_the_oldest_head_is_refused_with_a_time_to_try_again(
    config: ServerConfig,
) -> None:
    (one, socket), (two, second), (three, third) = (connection(config) for _ in range(3))
    refused = REFUSED_HEADS._value.get()
    for protocol in (one, two, three):
        protocol.data_received(HALF)
    assert socket.written.startswith(REFUSED + b"Retry-After: 1\r\n")
    assert (socket.closed, second.closed, third.closed) == (True, False, False)
    assert config.incomplete_heads.size == 2 * len(HALF)
    assert REFUSED_HEADS._value.get() == refused + 1


@pytest.mark.parametrize(
    ("attacker", "other", "client"),
    [
        ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
        ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"),  # one network, and another
        ("::ffff:192.0.2.7", "192.0.2.7", "::ffff:192.0.2.8"),
    ],
)
async def test_a_client_that_holds_many_heads_has_no_other_refused(
    config: ServerConfig, attacker: str, other: str, client: str
) -> None:
    mine, socket = connection(config, client)
    mine.data_received(HALF)  # The oldest of all.
    attacks = [connection(config, host) for host in (attacker, other) * 5]
    for protocol, _ in attacks:
        protocol.data_received(HALF)
    assert [one.closed for _, one in attacks] == [True] * 9 + [False]
    late, _ = connection(config, client)
    late.data_received(HALF[:10_000])
    mine.data_received(REST)
    late.data_received(HALF[10_000:] + REST)
    await soon(lambda: socket.written.startswith(SERVED), "the request is served")
    assert late.transport.is_closing() is False


@pytest.mark.parametrize(
    ("network", "client"),
    [("2001:db8:1:{:x}::1", "2001:db8:2::1"), ("192.0.2.{}", "198.51.100.1")],
)
async def test_a_client_with_many_addresses_of_a_network_has_no_other_refused(
    config: ServerConfig, network: str, client: str
) -> None:
    attacks = [connection(config, network.format(number)) for number in range(4)]
    for protocol, _ in attacks[:2]:
        protocol.data_received(HALF[:50_000])
    honest, socket = connection(config, client)
    for piece in (HALF[:30_000], HALF[30_000:]):  # More than any one address of the others.
        honest.data_received(piece)
    for protocol, _ in attacks[2:]:
        protocol.data_received(HALF[:50_000])
    assert not socket.closed
    honest.data_received(REST)
    await soon(lambda: socket.written.startswith(SERVED), "the request is served")


async def test_the_largest_of_the_addresses_of_a_network_is_refused_first(
    config: ServerConfig,
) -> None:
    sizes = {1: 40_000, 2: 60_000, 3: 51_000}
    held = {number: connection(config, f"192.0.2.{number}") for number in sizes}
    for number, size in sizes.items():
        held[number][0].data_received(HALF[:size])
    assert [socket.closed for _, socket in held.values()] == [False, True, False]


class Head:
    """An incomplete head of one byte."""

    def __init__(self, heads: IncompleteHeads, host: str) -> None:
        self.heads, self.address, self.given_way = heads, address_of((host, 50_000)), False

    def give_way(self) -> None:
        """Be removed."""
        self.given_way = True
        self.heads.resize(self, self.address, 0)


def test_heads_are_chosen_once_for_an_eighth_of_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incomplete_heads, "MOST_BYTES", 800)
    choices = list[int]()

    class Counted(IncompleteHeads):
        def _largest_first(self) -> Iterator[IncompleteHead]:
            choices.append(self.size)
            return super()._largest_first()

    heads = Counted()
    held = [Head(heads, f"2001:db8:0:{number:x}::1") for number in range(1100)]
    for head in held:
        heads.resize(head, head.address, 1)
    assert choices == [801] * 3  # At the 801st, the 902nd and the 1003rd.
    assert heads.size == 800 - 3
    assert sum(head.given_way for head in held) == 303


async def test_a_head_that_gives_way_does_not_end_the_answer_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(incomplete_heads, "MOST_BYTES", 50_000)
    started, end = asyncio.Event(), asyncio.Event()

    async def slow(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        started.set()
        await end.wait()
        await send({"type": "http.response.body", "body": b"whole"})

    config = config_of(slow)
    protocol, socket = connection(config)
    protocol.data_received(HALF[:100] + REST)
    await asyncio.wait_for(started.wait(), TIMEOUT)
    protocol.data_received(HALF)
    assert (socket.closed, config.incomplete_heads.size) == (False, 0)
    protocol.data_received(REST + HALF + REST)  # Nobody reads this.
    end.set()
    await soon(lambda: socket.closed, "the connection ends")
    assert socket.written.endswith(b"5\r\nwhole\r\n0\r\n\r\n")
    assert socket.written.count(b"HTTP/1.1") == 1


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
        assert config.incomplete_heads.size == len(HALF)
        whole.data_received(REST)
        await soon(lambda: socket.written.startswith(SERVED), "the request is served")
        socket.written = b""
    refused.data_received(HALF)
    refused.data_received(HALF)
    assert refused.transport.is_closing()
    left.data_received(HALF)
    assert config.incomplete_heads.size == len(HALF)
    left.connection_lost(None)
    assert config.incomplete_heads.size == 0
