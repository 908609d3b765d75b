"""How the request message of an RPC is received."""

import asyncio
from typing import cast

import pytest

from headrace.model.errors import HeadraceError
from headrace_gateway.protocols.a2a.grpc.request_message import RequestMessage
from headrace_gateway.refusals import TooManyBytes, TooManyBytesOfOwner
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.body import HeldBodies, RequestNotWhole
from headrace_gateway.streaming.grpc import Context
from headrace_gateway.timing import GatewayTiming
from tests.support.waiting import eventually

LARGEST = 1000
ANN, BOB = Caller(tenant="acme", owner="ann"), Caller(tenant="acme", owner="bob")


class SlowRpc:
    """An RPC whose message comes when it is said to."""

    def __init__(self, connection: str = "ipv4:127.0.0.1:1") -> None:
        self.peer = lambda: connection
        self.asked, self.arrived = asyncio.Event(), asyncio.Event()
        self.is_cancelled = False

    async def read(self) -> bytes:
        self.asked.set()
        try:
            await self.arrived.wait()
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise
        return b"x"


def receiving(
    bodies: HeldBodies, requests: SlowRpc, caller: Caller = ANN, **timing: float
) -> asyncio.Task[bytes]:
    held, turns = bodies.hold(caller), bodies.turns(caller)
    message = RequestMessage(held, turns, LARGEST, GatewayTiming(**timing))
    return asyncio.create_task(message.received(cast("Context", requests)))


async def counts(bodies: HeldBodies) -> bool:
    """Whether a message counts as one of the largest size."""
    return len(bodies) == LARGEST


async def test_the_wait_for_a_message_that_is_given_up_ends_with_the_rpc() -> None:
    # After a cancelled wait, grpcio would keep a message of 9 MB for ever.
    requests = SlowRpc()
    with pytest.raises(RequestNotWhole):
        await receiving(HeldBodies(-1, -1, LARGEST), requests, rpc_message=0.01)
    given_up = SlowRpc()
    rpc = receiving(HeldBodies(-1, -1, LARGEST), given_up)
    await given_up.asked.wait()
    rpc.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rpc
    assert not requests.is_cancelled
    assert not given_up.is_cancelled
    requests.arrived.set()
    given_up.arrived.set()


async def test_no_more_messages_of_unknown_size_are_received_than_fit() -> None:
    bodies = HeldBodies(-1, 2 * LARGEST, LARGEST)
    slow = [SlowRpc() for _ in range(3)]
    rpcs = [receiving(bodies, requests) for requests in slow]
    other = SlowRpc()
    of_other = receiving(bodies, other, BOB)
    await other.asked.wait()
    assert [requests.asked.is_set() for requests in slow] == [True, True, False]
    slow[0].arrived.set()
    assert await rpcs[0] == b"x"
    await slow[2].asked.wait()
    for requests in (*slow, other):
        requests.arrived.set()
    assert await asyncio.gather(*rpcs, of_other) == [b"x"] * 4


async def test_rpcs_that_send_nothing_do_not_delay_those_of_another_connection() -> None:
    bodies = HeldBodies(-1, LARGEST, LARGEST)
    silent = [SlowRpc("ipv4:127.0.0.1:1") for _ in range(20)]
    rpcs = [receiving(bodies, requests) for requests in silent]
    await silent[0].asked.wait()
    prompt = SlowRpc("ipv4:127.0.0.1:2")
    prompt.arrived.set()
    asked = receiving(bodies, prompt)
    rpcs[0].cancel()
    await silent[1].asked.wait()
    rpcs[1].cancel()
    assert await asked == b"x"
    assert not any(requests.asked.is_set() for requests in silent[3:])
    for rpc in rpcs:
        rpc.cancel()
    for requests in silent:
        requests.arrived.set()
    await asyncio.wait(rpcs)


@pytest.mark.parametrize(
    ("most", "most_per_owner", "caller", "refusal"),
    [(-1, LARGEST, ANN, TooManyBytesOfOwner), (LARGEST, -1, BOB, TooManyBytes)],
)
async def test_a_message_that_counts_as_the_largest_lets_the_next_one_in(
    most: int, most_per_owner: int, caller: Caller, refusal: type[HeadraceError]
) -> None:
    bodies = HeldBodies(most, most_per_owner, LARGEST)
    first, second = SlowRpc(), SlowRpc()
    one = receiving(bodies, first, usual_rpc_message=0.01)
    await eventually(lambda: counts(bodies), "the late message counts as the largest")
    with pytest.raises(refusal):
        await receiving(bodies, second, caller, usual_rpc_message=0.01)
    assert len(bodies) == LARGEST
    assert second.asked.is_set()
    first.arrived.set()
    assert await one == b"x"
    assert len(bodies) == 1
    second.arrived.set()
