"""What a connection says of itself, and what it refuses to send."""

import pytest
from nats.errors import MaxPayloadError

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
        with pytest.raises(MaxPayloadError):
            bus.connection.ask(SUBJECT, payload, b"NATS/1.0\r\n\r\n", 1.0)


async def test_a_connection_answers_until_it_is_closed() -> None:
    async with memory_bus() as bus:
        assert bus.answers
    assert not bus.answers
