"""Gateways and servers come and go in mid-stream; every client ends with the exact sequence."""

import asyncio
import signal
import time

import pytest

from tests.support.fleet import Fleet
from tests.support.pids import living
from tests.support.resuming_clients import ResumingClients
from tests.support.resuming_sizes import sized
from tests.support.waiting import eventually

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

_TASKS = sized(4, 66)
_GONE_WITHIN = float(sized(30, 5))
"""Seconds: what is promised to a machine of its own; others are given time."""


def resuming_clients(fleet: Fleet) -> ResumingClients:
    return ResumingClients(fleet.gateways, fleet.nats_url, _TASKS)


async def restart_in_good_order(fleet: Fleet, gateway: int) -> float:
    """Have a gateway restarted by SIGTERM; return how long it took to be gone, seconds."""
    begun = time.monotonic()
    pid = fleet.stack.kill("gateway", gateway, signal.SIGTERM)

    async def is_gone() -> bool:
        return not living([pid])

    await eventually(is_gone, "the gateway is gone")
    took = time.monotonic() - begun
    await asyncio.to_thread(fleet.stack.until_restarted, "gateway", gateway, pid)
    await fleet.until_whole()
    return took


async def test_gateways_are_restarted_one_after_the_other_and_one_is_killed(fleet: Fleet) -> None:
    async with resuming_clients(fleet) as clients:
        for gateway in range(2):
            assert await restart_in_good_order(fleet, gateway) < _GONE_WITHIN
            await clients.until_all_went_on()
        reasons = [reason for each in clients.clients for reason in each.interruptions]
        assert all(each.interruptions for each in clients.clients)
        assert any("restarting" in reason for reason in reasons), "streams are told why they end"
        await asyncio.to_thread(fleet.restart, "gateway", 0)
        await clients.until_all_went_on()
        await clients.end()


async def test_nats_is_killed_and_started_again(fleet: Fleet) -> None:
    async with resuming_clients(fleet) as clients:
        await asyncio.to_thread(fleet.restart, "nats")
        await clients.until_all_went_on()
        await clients.end()


async def test_redis_is_killed_and_started_again(fleet: Fleet) -> None:
    async with resuming_clients(fleet) as clients:
        await asyncio.to_thread(fleet.restart, "redis")
        for number in range(_TASKS):
            clients.join(clients.joiner(number))
        await clients.until_all_went_on()
        await clients.end()
