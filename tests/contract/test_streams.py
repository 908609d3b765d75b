"""Streams: made once however many services start, and left as their operator shaped them."""

import asyncio
import logging
import secrets

import pytest
from nats.js import api

from headrace.bus import Bus
from headrace.settings import BusSettings
from headrace.streams import declarations, ensure_streams
from tests.contract.conftest import Connect
from tests.support.task_log import TaskLog
from tests.support.topology import Topology


async def config(bus: Bus, stream: str) -> api.StreamConfig:
    return (await bus.js.stream_info(stream)).config


def settings(bus: Bus, **changed: object) -> BusSettings:
    return BusSettings(**bus.settings.model_dump() | changed)


async def test_services_that_start_together_make_each_stream_once(connect: Connect) -> None:
    name = f"own{secrets.token_hex(4)}"
    buses = await asyncio.gather(
        *(connect(prefix=name, stream_prefix=name, event_streams=2) for _ in range(3))
    )
    log = TaskLog(buses[0])
    await log.begin()
    assert len(await log.read()) == 1
    for declared in declarations(buses[0].settings):
        found = await config(buses[1], str(declared.name))
        assert found.subjects == declared.subjects
        await buses[2].js.delete_stream(str(declared.name))


async def test_an_event_stream_is_as_the_promises_need_it(bus: Bus, topology: Topology) -> None:
    found = await config(bus, bus.streams.events(0))
    assert found.discard == api.DiscardPolicy.NEW
    assert found.max_age == 0
    assert found.allow_direct
    assert found.num_replicas == topology.replicas
    assert found.republish is not None
    assert found.republish.dest == f"{bus.subjects.prefix}.live.>"


async def test_a_second_run_of_a_leg_is_refused_while_the_first_one_waits(
    bus: Bus, log: TaskLog
) -> None:
    subject = bus.subjects.run(log.key, 1)
    first, second = [(await bus.request(subject, b"{}", 30.0)).data for _ in range(2)]
    assert b'"seq"' in first
    assert b"10077" in second
    await bus.js.purge_stream(bus.streams.runs, subject=subject)


async def test_replicas_and_size_limit_follow_the_settings_and_nothing_else_changes(
    own: Bus, topology: Topology
) -> None:
    stream = own.streams.events(0)
    before = await config(own, stream)
    await own.js.update_stream(before.evolve(description="the operator's"))
    await ensure_streams(own.js, settings(own, events_max_bytes=10_000_000, replicas=1))
    after = await config(own, stream)
    assert (after.max_bytes, after.num_replicas) == (10_000_000, 1)
    assert after.description == "the operator's"
    assert after.subjects == before.subjects
    await ensure_streams(own.js, settings(own, replicas=topology.replicas))
    assert (await config(own, stream)).num_replicas == topology.replicas


async def test_a_size_limit_of_what_has_none_in_the_settings_is_the_operator_s(own: Bus) -> None:
    dead = own.streams.dead
    await own.js.update_stream((await config(own, dead)).evolve(max_bytes=1_000_000))
    await ensure_streams(own.js, own.settings)
    assert (await config(own, dead)).max_bytes == 1_000_000


async def test_streams_that_are_as_declared_are_not_touched(
    own: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    await ensure_streams(own.js, own.settings)
    assert [r.getMessage() for r in caplog.records if r.name == "headrace.streams"] == []


async def test_a_stream_that_breaks_the_contract_is_left_and_warned_about(
    own: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    stream = own.streams.events(0)
    await own.js.update_stream((await config(own, stream)).evolve(discard=api.DiscardPolicy.OLD))
    await ensure_streams(own.js, own.settings)
    assert (await config(own, stream)).discard == api.DiscardPolicy.OLD
    (warning,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert stream in warning.getMessage()
    assert "'discard'" in warning.getMessage()
