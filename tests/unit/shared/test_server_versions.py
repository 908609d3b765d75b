"""Servers that are too old are named with the earliest version that works."""

from pathlib import Path

import pytest

from headrace.jetstream import connection
from headrace.jetstream.connection import Bus
from headrace.jetstream.memory import server as memory
from headrace.jetstream.memory import wire
from headrace.jetstream.memory.server import MemoryServer
from headrace.jetstream.memory.transport import MemoryTransport
from headrace.server_versions import (
    NATS_MINIMUM,
    REDIS_MINIMUM,
    ServerTooOld,
    check_server_version,
)
from headrace.settings import BusSettings


@pytest.mark.parametrize("version", ["2.14.0", "2.14", "2.15.0-RC.1", "3.0.1", "10.2", "none", ""])
def test_a_server_of_the_minimum_or_later_is_accepted(version: str) -> None:
    check_server_version("NATS", version, (2, 14))


@pytest.mark.parametrize("version", ["2.13.9", "1.99", "2.9.0"])
def test_an_earlier_server_is_refused_with_both_versions(version: str) -> None:
    with pytest.raises(ServerTooOld, match=f"NATS {version} is too old: use 2[.]14 or later"):
        check_server_version("NATS", version, (2, 14))


async def test_no_service_starts_with_a_server_that_is_too_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "NATS_MINIMUM", (99, 0))
    server = MemoryServer()
    bus = Bus(BusSettings(), lambda: MemoryTransport(server))
    try:
        with pytest.raises(ServerTooOld, match=r"use 99\.0 or later"):
            await bus.connect("test")
    finally:
        await bus.close()


@pytest.mark.parametrize("stated", ["v2.15.0", "2.15", "2.15.0-beta.01", "unknown", ""])
async def test_a_service_starts_with_a_server_whose_version_can_not_be_compared(
    monkeypatch: pytest.MonkeyPatch, stated: str
) -> None:
    monkeypatch.setattr(
        memory, "info", lambda client: wire.info(client).replace(b"2.15.0", stated.encode())
    )
    server = MemoryServer()
    bus = Bus(BusSettings(), lambda: MemoryTransport(server))
    try:
        await bus.connect("test")
        assert bus.connection.server_version == stated
    finally:
        await bus.close()


def test_the_documents_name_the_minimum() -> None:
    page = Path("docs/run/nats-and-redis.md").read_text()
    nats, redis = (".".join(map(str, one)) for one in (NATS_MINIMUM, REDIS_MINIMUM))
    assert f"**NATS:** {nats} or later" in page
    assert f"**Redis:** {redis} or later" in page
