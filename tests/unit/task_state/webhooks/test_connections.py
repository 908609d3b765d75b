"""Connections to receivers that hang: they are closed, and the next requests have their own."""

import asyncio
from collections.abc import AsyncIterator

import httpcore
import pytest

from headrace_task_state.webhooks.connections import Connections
from headrace_task_state.webhooks.network import AllowedDestinations, GuardedNetwork
from tests.support.receiver import receiving


@pytest.fixture
async def connections() -> AsyncIterator[Connections]:
    network = GuardedNetwork(AllowedDestinations.parse(["127.0.0.1"]), public=False)
    made = Connections({b"http": network, b"https": network})
    yield made
    await made.close()


async def post(connections: Connections, url: str) -> int:
    where = httpcore.URL(url)
    async with (
        connections.connection(where) as connection,
        connection.stream(
            "POST", where, headers=[("Host", "x"), ("Content-Length", "1")], content=b"x"
        ) as response,
    ):
        await response.aread()
        return response.status


async def test_a_connection_serves_one_request_after_the_other(connections: Connections) -> None:
    async with receiving() as receiver:
        assert [await post(connections, receiver.url()) for _ in range(3)] == [200] * 3
        assert receiver.connections == 1


async def test_requests_at_the_same_time_have_connections_of_their_own(
    connections: Connections,
) -> None:
    async with receiving() as receiver:
        answers = await asyncio.gather(*(post(connections, receiver.url()) for _ in range(5)))
        assert answers == [200] * 5
        assert receiver.connections <= 5


async def test_a_connection_that_the_receiver_closed_is_not_used_again(
    connections: Connections,
) -> None:
    async with receiving() as receiver:
        await post(connections, receiver.url())
        receiver.hang_up()
        await asyncio.sleep(0.05)
        assert await post(connections, receiver.url()) == 200


async def test_a_tls_handshake_that_is_given_up_leaves_no_socket_open(
    connections: Connections,
) -> None:
    begun, closed = asyncio.Event(), asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        begun.set()
        while await reader.read(65536):
            pass
        closed.set()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        asking = asyncio.create_task(post(connections, f"https://127.0.0.1:{port}/"))
        await begun.wait()
        asking.cancel()
        async with asyncio.timeout(30):
            await closed.wait()
