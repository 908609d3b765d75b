"""How delivered messages are settled."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from faststream import AckPolicy
from faststream.nats import JStream, NatsMessage, PullSub
from nats.aio.msg import Msg
from nats.js.api import StreamConfig

from headrace.directory import Directory
from headrace.jetstream.broker import FleetBroker
from headrace.jetstream.connection import Bus
from headrace.model.errors import BusUnavailable
from headrace.tasks.dead_letters import LetterFilter, Letters
from headrace_triggers import delivery
from headrace_triggers.delivery import Deliveries, EventOutcome, FiringSource
from headrace_triggers.firing import Firing, UndeliverableFiring
from headrace_triggers.settings import TriggersSettings
from tests.support.triggers import firings
from tests.support.waiting import eventually

SOURCE = FiringSource("trigger/orders", "default", "shop")


def firing(key: str) -> Firing:
    return Firing(SOURCE.name, key, SOURCE.tenant, "ann", "shop", [{"text": "x"}], 1)


@asynccontextmanager
async def delivering(
    settings: TriggersSettings,
    bus: Bus,
    directory: Directory,
    fire: list[Exception | Firing],
    **limits: int,
) -> AsyncIterator[asyncio.Queue[int]]:
    """Settle messages of a stream, each as the next of `fire` says; yield deliveries' numbers."""
    name = f"{settings.prefix}-orders"
    await bus.js.add_stream(StreamConfig(name=name, subjects=[f"{name}.>"]))
    broker = FleetBroker(settings, "test")
    deliveries = Deliveries(bus, firings(bus, directory), **limits)
    seen = asyncio.Queue[int]()

    async def firing_of() -> Firing:
        now = fire.pop(0)
        if isinstance(now, Exception):
            raise now
        return now

    @broker.subscriber(
        f"{name}.>",
        stream=JStream(name, declare=False),
        durable="orders",
        pull_sub=PullSub(batch_size=8, timeout=1),
        ack_policy=AckPolicy.MANUAL,
    )
    async def take(message: NatsMessage) -> None:
        await deliveries.settle(message, SOURCE, firing_of)
        seen.put_nowait(message.raw_message.metadata.num_delivered)

    async with broker:
        await broker.start()
        await bus.js.publish(f"{name}.created", b"{broken", headers={"Shop": "1"})
        yield seen


async def is_settled(bus: Bus, settings: TriggersSettings) -> bool:
    info = await bus.js.consumer_info(f"{settings.prefix}-orders", "orders")
    return (info.num_ack_pending, info.num_pending) == (0, 0)


async def test_an_event_that_makes_no_task_is_a_dead_letter_whole(
    settings: TriggersSettings, bus: Bus, directory: Directory
) -> None:
    async with delivering(settings, bus, directory, [UndeliverableFiring("not JSON")]) as seen:
        assert await seen.get() == 1
        await eventually(lambda: is_settled(bus, settings), "the message is acknowledged")
    wanted = LetterFilter(tenant="default", agent="shop")
    [letter] = [one async for one in Letters(bus).find(wanted)]
    assert (letter.kind, letter.content.reason, letter.body) == ("event", "not JSON", b"{broken")
    assert (letter.content.trigger, letter.content.headers["Shop"]) == ("trigger/orders", "1")


async def test_an_event_that_can_not_fire_now_is_delivered_again(
    settings: TriggersSettings, bus: Bus, directory: Directory
) -> None:
    later: list[Exception | Firing] = [BusUnavailable("NATS is away"), firing("1")]
    async with delivering(settings, bus, directory, later) as seen:
        assert [await seen.get(), await seen.get()] == [1, 2]
        await eventually(lambda: is_settled(bus, settings), "the message is acknowledged")
    assert not (await firings(bus, directory).begin(firing("1"))).is_new
    assert [one async for one in Letters(bus).find(LetterFilter())] == []


async def test_an_event_whose_handling_crashes_again_and_again_is_a_dead_letter(
    settings: TriggersSettings, bus: Bus, directory: Directory
) -> None:
    crashes: list[Exception | Firing] = [ZeroDivisionError("a defect"), ZeroDivisionError("again")]
    async with delivering(settings, bus, directory, crashes, most_crashes=2) as seen:
        assert [await seen.get(), await seen.get()] == [1, 2]
        await eventually(lambda: is_settled(bus, settings), "the message is acknowledged")
    [letter] = [one async for one in Letters(bus).find(LetterFilter())]
    assert (letter.kind, letter.body) == ("event", b"{broken")
    assert letter.content.reason == "trigger/orders: ZeroDivisionError('again')"


async def test_an_event_that_has_waited_may_crash_as_often_as_any_other(
    settings: TriggersSettings, bus: Bus, directory: Directory
) -> None:
    waits: list[Exception | Firing] = [BusUnavailable("NATS is away")] * 2
    steps = [*waits, ZeroDivisionError("a defect"), firing("1")]
    async with delivering(settings, bus, directory, steps, most_crashes=2) as seen:
        assert [await seen.get() for _ in range(4)] == [1, 2, 3, 4]
        await eventually(lambda: is_settled(bus, settings), "the message is acknowledged")
    assert [one async for one in Letters(bus).find(LetterFilter())] == []


async def test_an_event_that_no_stream_keeps_is_shown_as_dropped_whatever_keeps_its_letter_out(
    bus: Bus, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[EventOutcome] = []
    source = replace(SOURCE, note=outcomes.append)

    async def refuse() -> Firing:
        raise UndeliverableFiring("not JSON")

    async def fail(*_: object) -> bool:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(delivery, "write_letter", fail)
    message: Any = SimpleNamespace(raw_message=Msg(bus.connection, "orders", data=b"{broken"))
    assert (
        await Deliveries(bus, firings(bus, directory)).settle_unstored(message, source, refuse)
        is None
    )
    assert [(one.kind, one.reason) for one in outcomes] == [
        ("dropped", "not JSON; no dead letter: ZeroDivisionError('a defect')")
    ]
