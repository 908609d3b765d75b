"""A client that receives nothing of the last answer is disconnected; a slow one is not."""

import asyncio
from typing import Any

import pytest

from headrace.metrics import CONNECTIONS_TIMED_OUT
from headrace_gateway.server.client_pace import Awaited, ReceiveTime
from headrace_gateway.timing import GatewayTiming
from tests.support.waiting import soon

PAUSE = 0.02


class Sizes:
    """A backlog with these sizes, one at a time; the last one stays."""

    def __init__(self, *sizes: int) -> None:
        self._sizes = list(sizes)
        self.dropped = self.closed = False

    def size(self) -> int:
        return self._sizes.pop(0) if len(self._sizes) > 1 else self._sizes[0]

    def buffered(self) -> int:
        return self._sizes[0]

    def drop(self) -> None:
        self.dropped = True

    def close(self) -> None:
        self.closed = True


class Failing:
    """A protocol that can't refuse anything."""

    def delays_client(self) -> bool:
        return False

    def refuse_late(self, awaited: Awaited) -> None:
        raise RuntimeError(awaited)


def time_of(backlog: Any) -> ReceiveTime:  # noqa: ANN401 - a stand-in
    timing = GatewayTiming(silence=PAUSE, body=2 * PAUSE)
    return ReceiveTime(Failing(), backlog, asyncio.get_running_loop(), timing)


def counted(awaited: Awaited) -> float:
    count: float = CONNECTIONS_TIMED_OUT.labels(awaited.value)._value.get()
    return count


async def test_a_client_that_receives_nothing_is_disconnected_and_counted() -> None:
    backlog, before = Sizes(9, 9), counted(Awaited.RECEIVED)
    time_of(backlog).close_by_force()
    assert not backlog.dropped
    await soon(lambda: backlog.dropped, "it is disconnected")
    assert counted(Awaited.RECEIVED) == before + 1


@pytest.mark.parametrize("sizes", [(9, 6, 3, 0), (0,)], ids=["slowly", "at once"])
async def test_a_client_that_receives_everything_is_not(sizes: tuple[int, ...]) -> None:
    backlog = Sizes(*sizes)
    time_of(backlog).close_by_force()
    await asyncio.sleep(6 * PAUSE)
    assert not backlog.dropped


async def test_the_connection_ends_also_if_its_protocol_fails() -> None:
    backlog, before = Sizes(0), counted(Awaited.HANDSHAKE)
    time = time_of(backlog)
    time.expect(Awaited.HANDSHAKE)
    time.watch()
    await soon(lambda: backlog.closed, "the connection ends")
    assert counted(Awaited.HANDSHAKE) == before + 1
