"""What a connection says of itself, and what it refuses to send."""

import asyncio

import pytest
from nats.aio.msg import Msg

from headrace.model.errors import EventTooLarge
from tests.support.memory_bus import memory_bus

SUBJECT = "headrace.event.0.t.a.x"


async def test_a_request_too_large_for_the_server_is_refused_here() -> None:
    """The server would close the connection."""
    async with memory_bus() as bus:
        payload = b"x" * bus.max_payload
        with pytest.raises(EventTooLarge, match="exceeds the limit"):
            await bus.ask(SUBJECT, payload, 1.0, {"Name": "value"})
        with pytest.raises(EventTooLarge, match="exceeds the limit"):
            await bus.request(SUBJECT, payload, 1.0, {"Name": "value"})
        block = b"NATS/1.0\r\n\r\n"
        assert not bus.connection.ask_directly(SUBJECT, payload, block, 1.0, lambda _: None)


async def test_a_request_that_is_asked_directly_is_answered_once_or_late() -> None:
    block = b"NATS/1.0\r\n\r\n"
    found = asyncio.Queue[Msg | None]()
    async with memory_bus() as bus:
        connection = bus.connection
        sent = connection.ask_directly(SUBJECT, b"x", block, 5.0, found.put_nowait)
        answer = await found.get()
        assert answer is not None
        assert answer.subject.endswith(f".{sent}")
        await connection.listen("nobody.answers", lambda _: None)
        connection.ask_directly("nobody.answers", b"x", block, 0.05, found.put_nowait)
        assert await found.get() is None
        connection.forget(connection.ask_directly(SUBJECT, b"x", block, 5.0, found.put_nowait))
        await bus.request(SUBJECT, b"x", 1.0)
        assert found.empty()
        assert connection._answers == {}


async def test_a_connection_answers_until_it_is_closed() -> None:
    async with memory_bus() as bus:
        assert bus.answers
    assert not bus.answers
