"""Bodies that a gateway holds are counted."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from headrace_gateway.protocols.a2a.grpc import service
from headrace_gateway.refusals import TooManyBytes, TooManyBytesOfOwner
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.body import HeldBodies
from headrace_gateway.timing import GatewayTiming
from tests.support.waiting import eventually

ANN, BOB = Caller(owner="ann"), Caller(owner="bob")


def test_an_owner_and_a_gateway_have_a_limit_each() -> None:
    bodies = HeldBodies(15, 10, 5)
    first = bodies.hold(ANN, 6)
    with pytest.raises(TooManyBytesOfOwner):
        bodies.hold(ANN, 5)
    second = bodies.hold(BOB, 9)
    with pytest.raises(TooManyBytes):
        second.resize(10)
    assert len(bodies) == 15
    first.release()
    first.release()
    assert len(bodies) == 9
    second.resize(10)
    second.release()
    assert len(bodies) == 0


def test_a_body_of_the_largest_size_is_taken_whatever_the_limits() -> None:
    bodies = HeldBodies(1, 1, 5)
    bodies.hold(ANN, 5).release()
    with pytest.raises(TooManyBytes):
        bodies.hold(ANN, 6)


def test_without_limits_everything_is_taken() -> None:
    assert len(HeldBodies(-1, -1, 5)) == 0
    bodies = HeldBodies(-1, -1, 5)
    bodies.hold(ANN, 10**9)
    assert len(bodies) == 10**9


async def test_an_rpc_whose_message_is_late_counts_as_the_largest() -> None:
    timing = GatewayTiming(usual_rpc_message=0.01)
    bodies, go = HeldBodies(100, 100, 100), asyncio.Event()

    async def late() -> AsyncIterator[bytes]:
        await go.wait()
        yield b"x" * 7

    async def all_are_held() -> bool:
        return len(bodies) == 100

    received = asyncio.create_task(service._received(late(), bodies.hold(ANN), 100, timing))
    async with asyncio.timeout(60):
        await eventually(all_are_held, "the late message counts as the largest")
        with pytest.raises(TooManyBytes):
            await service._received(late(), bodies.hold(BOB), 100, timing)
        go.set()
        assert await received == b"x" * 7
    assert len(bodies) == 7
