"""Disconnects are reported once, while somebody watches, and also if they have happened before."""

import asyncio

from starlette.types import Message

from headrace_gateway.server.long_responses import (
    DISCONNECTS,
    ConnectionDisconnects,
    ReceivedDisconnects,
    disconnects_of,
)


class Client:
    """A client that sends its body in two pieces, and disconnects when told to."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.reported = list[str]()
        self._more = [False, True]

    async def receive(self) -> Message:
        if self._more:
            return {"type": "http.request", "body": b"", "more_body": self._more.pop()}
        await self.left.wait()
        return {"type": "http.disconnect"}

    def one(self) -> None:
        self.reported.append("one")

    def other(self) -> None:
        self.reported.append("other")


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(5):
        await asyncio.sleep(0)


def nothing() -> None:
    """Resume nothing."""


def test_the_end_of_a_connection_is_reported_to_who_watches_it() -> None:
    client, connection = Client(), ConnectionDisconnects(nothing)
    connection.watch(client.one)
    stop = connection.watch(client.other)
    stop()
    assert client.reported == []
    connection.end()
    connection.end()
    stop()
    assert client.reported == ["one"]


def test_a_connection_that_has_ended_is_reported_at_once() -> None:
    client, connection = Client(), ConnectionDisconnects(nothing)
    connection.end()
    connection.watch(client.one)()
    assert client.reported == ["one"]


def test_a_watched_connection_reads_or_its_end_would_not_be_noticed() -> None:
    resumed = list[str]()
    ConnectionDisconnects(lambda: resumed.append("reads")).watch(nothing)
    assert resumed == ["reads"]


async def test_a_disconnect_that_must_be_received_is_reported_after_the_body() -> None:
    client = Client()
    ReceivedDisconnects(client.receive).watch(client.one)
    stop = ReceivedDisconnects(client.receive).watch(client.other)
    await settle()
    stop()
    assert client.reported == []
    client.left.set()
    await settle()
    assert client.reported == ["one"]


async def test_a_request_is_reported_by_its_connection_if_the_server_has_one() -> None:
    client, connection = Client(), ConnectionDisconnects(nothing)
    scope = {"type": "http", "extensions": {DISCONNECTS: connection}}
    assert disconnects_of(scope, client.receive) is connection
    alone = disconnects_of({"type": "http"}, client.receive)
    assert isinstance(alone, ReceivedDisconnects)
