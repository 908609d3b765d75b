"""A gateway that is not sent every live copy: streams are whole all the same, and end."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.nats_proxy import Frame, NatsProxy
from tests.support.resuming import Client, Step
from tests.support.resuming_bindings import Binding
from tests.support.resuming_gateway import OwnGateway
from tests.support.resuming_log import whole_log
from tests.support.resuming_protocols import A2A
from tests.support.resuming_sizes import SEED
from tests.support.stack import Stack

_TIMEOUT = 60.0


def is_live(frame: Frame) -> bool:
    return b".live." in frame.partition(b"\r\n")[0]


@pytest.fixture
async def proxy(stack: Stack) -> AsyncIterator[NatsProxy]:
    async with NatsProxy(int(stack.dev()["nats_url"].rpartition(":")[2])) as proxy:
        yield proxy


@pytest.fixture
async def gateway(proxy: NatsProxy, tmp_path: Path) -> AsyncIterator[OwnGateway]:
    """A gateway whose way to NATS is the proxy."""
    gateway = OwnGateway(tmp_path, proxy.url)
    await asyncio.to_thread(gateway.start)
    yield gateway
    await asyncio.to_thread(gateway.stop)


async def followed(stack: Stack, gateway: str, text: str, binding: Binding) -> Client:
    client = Client("counter", text)
    async with asyncio.timeout(_TIMEOUT):
        await client.follow([Step(gateway, binding)])
    client.assert_exact(await whole_log(stack.dev()["nats_url"], "counter", client.task))
    assert client.over
    return client


async def test_no_stream_hangs_on_a_lost_last_event(
    stack: Stack, gateway: OwnGateway, proxy: NatsProxy
) -> None:
    proxy.loses = lambda frame: is_live(frame) and b"TASK_STATE_COMPLETED" in frame
    await asyncio.gather(*(followed(stack, gateway.url, "5 10", binding) for binding in A2A))
    assert len(proxy.lost) >= len(A2A)


async def test_no_stream_lacks_a_lost_event(
    stack: Stack, gateway: OwnGateway, proxy: NatsProxy
) -> None:
    chance = random.Random(SEED)
    proxy.loses = lambda frame: is_live(frame) and chance.random() < 0.3
    streams = (followed(stack, gateway.url, "60 5", binding) for binding in A2A * 3)
    await asyncio.gather(*streams)
    assert proxy.lost


async def test_no_stream_needs_live_copies_at_all(
    stack: Stack, gateway: OwnGateway, proxy: NatsProxy
) -> None:
    proxy.loses = is_live
    await asyncio.gather(*(followed(stack, gateway.url, "20 5", binding) for binding in A2A))
    assert proxy.lost
