"""The bucket behind Idempotency-Key: whoever asks is shown the same record, alone and on three."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from headrace.jetstream.connection import Bus
from headrace.settings import BusSettings
from headrace_gateway.tasks.idempotency import IdempotencyRecord, IdempotencyRecords
from tests.support.delete_stream import delete_stream
from tests.support.waiting import eventually

GATEWAYS = 3


def sent(task: str = "", run: int = 1) -> IdempotencyRecord:
    return IdempotencyRecord(
        fingerprint="f", task=task or secrets.token_hex(4), context="c", run=run
    )


@pytest_asyncio.fixture(params=["one node", "three nodes"], loop_scope="module")
async def buses(request: pytest.FixtureRequest) -> AsyncIterator[list[Bus]]:
    """The connections of three gateways."""
    alone = request.param == "one node"
    server = request.getfixturevalue("nats_server" if alone else "nats_cluster")
    name = f"records{secrets.token_hex(4)}"
    settings = BusSettings(
        nats_url=server.url, prefix=name, stream_prefix=name, replicas=1 if alone else 3
    )
    buses = [Bus(settings) for _ in range(GATEWAYS)]
    for bus in buses:
        await bus.connect("gateway")
    yield buses
    streams = buses[0].streams
    for stream in (streams.events(0), streams.runs, streams.dead):
        await delete_stream(buses[0].js, stream)
    for bucket in (streams.agents, streams.idempotency):
        await delete_stream(buses[0].js, f"KV_{bucket}")
    for bus in buses:
        await bus.close()


async def test_of_many_claims_at_once_one_is_kept_and_all_are_shown_it(buses: list[Bus]) -> None:
    records = [IdempotencyRecords(bus, 60, time.time) for bus in buses]
    for _ in range(5):
        name, claims = secrets.token_hex(8), [sent() for _ in range(30)]
        kept = await asyncio.gather(
            *(records[n % GATEWAYS].claim(name, one) for n, one in enumerate(claims))
        )
        assert len(set(kept)) == 1
        assert kept[0].record in claims
        assert [await one.find(name) for one in records] == [kept[0]] * GATEWAYS


async def test_what_expired_is_forgotten_and_may_be_claimed(buses: list[Bus]) -> None:
    records, name = IdempotencyRecords(buses[0], 1, time.time), secrets.token_hex(8)
    await records.claim(name, sent())

    async def is_gone() -> bool:
        return await records.find(name) is None

    await eventually(is_gone, "the record expired")
    another = sent()
    assert (await records.claim(name, another)).record == another
