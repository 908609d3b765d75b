"""How requests to the services that anybody may call are received."""

import asyncio
from typing import cast

import pytest

from headrace_gateway.protocols.a2a.grpc.public_services import _MOST_RECEIVED, _Receptions
from headrace_gateway.streaming.grpc import Context

LONG = 600.0
"""Seconds after which no test waits any longer."""


class SlowRpc:
    """An RPC whose request comes when it is said to."""

    def __init__(self) -> None:
        self.asked, self.arrived = asyncio.Event(), asyncio.Event()

    async def read(self) -> bytes:
        self.asked.set()
        await self.arrived.wait()
        return b"x"


class Received:
    """A request that is being received."""

    def __init__(self, receptions: _Receptions) -> None:
        self.rpc = SlowRpc()
        self.result = asyncio.create_task(receptions.receive(cast("Context", self.rpc)))

    async def arrives(self) -> None:
        """Let it arrive, and see that it was received."""
        self.rpc.arrived.set()
        assert await self.result == b"x"


async def begun(receptions: _Receptions) -> Received:
    received = Received(receptions)
    await received.rpc.asked.wait()
    return received


async def test_few_requests_are_received_at_a_time_and_the_latest_first() -> None:
    receptions = _Receptions(slow=LONG)
    first = [await begun(receptions) for _ in range(_MOST_RECEIVED)]
    waiting, latest = Received(receptions), Received(receptions)
    await asyncio.sleep(0)
    assert not latest.rpc.asked.is_set()
    await first[0].arrives()
    await latest.rpc.asked.wait()
    assert not waiting.rpc.asked.is_set()
    for received in (latest, waiting, *first[1:]):
        await received.arrives()


async def test_requests_that_never_arrive_are_given_up_for_the_next() -> None:
    receptions = _Receptions(slow=0.01)
    silent = [await begun(receptions) for _ in range(_MOST_RECEIVED)]
    health_check = await begun(receptions)
    await health_check.arrives()
    with pytest.raises(TimeoutError):
        await silent[0].result
    for received in silent[1:]:
        await received.arrives()


async def test_a_call_that_ends_while_it_waits_takes_no_turn() -> None:
    receptions = _Receptions(slow=LONG)
    first = [await begun(receptions) for _ in range(_MOST_RECEIVED)]
    waiting, gone, going = (Received(receptions) for _ in range(3))
    await asyncio.sleep(0)
    gone.result.cancel()
    await asyncio.wait([gone.result])
    going.result.cancel()
    await asyncio.gather(*(received.arrives() for received in first))
    await waiting.arrives()
    again = [await begun(receptions) for _ in range(_MOST_RECEIVED)]
    extra = Received(receptions)
    await asyncio.sleep(0)
    assert not extra.rpc.asked.is_set()
    for received in (*again, extra):
        await received.arrives()
