"""What a gateway has done before it serves."""

import asyncio
import math

import pytest

from headrace.jetstream.server_clock import ServerClock
from headrace.metrics import CLOCK_OFFSET, MAX_CLOCK_OFFSET
from headrace_gateway.server.open_requests import OpenRequests
from headrace_gateway.settings import GatewaySettings
from tests.support.memory_gateway import memory_services


async def _never(_: ServerClock) -> None:
    await asyncio.Event().wait()


async def test_a_gateway_knows_nats_time_before_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ServerClock, "run", _never)
    offset = CLOCK_OFFSET.labels("nats")
    offset.set(math.inf)
    async with memory_services(OpenRequests(), GatewaySettings()):
        assert abs(offset._value.get()) < MAX_CLOCK_OFFSET  # as the endpoint reads it
