"""Events begin tasks as their triggers say."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from headrace.directory import AgentCard, Announcer
from headrace.jetstream.connection import Bus
from headrace.jetstream.durables import consumer_differences
from headrace.jetstream.headers import TTL
from headrace.jetstream.kv import stream_of, subject_of
from headrace.model.events import Json
from headrace.tasks.dead_letters import Letter, LetterFilter, Letters
from headrace.trigger_firings import KEPT_FIRINGS, FiringHistory
from headrace.trigger_spec import TriggerSpec
from headrace.triggers import TooManyTriggers, TriggerStore
from headrace_triggers.main import TriggersReplica
from headrace_triggers.settings import TriggersSettings
from tests.support.spans import RecordedSpans
from tests.support.triggers import Orders, begun
from tests.support.waiting import eventually


@pytest.fixture
async def orders(settings: TriggersSettings, bus: Bus) -> Orders:
    """A stream of a user's own, and the agent ``shop``."""
    await Announcer(bus, "worker-1").announce(AgentCard(name="shop"))
    return await Orders.make(bus, settings.prefix)


@pytest.fixture
async def replicas(settings: TriggersSettings) -> AsyncIterator[list[TriggersReplica]]:
    """Two replicas that are running."""
    async with AsyncExitStack() as stack:
        made = [TriggersReplica(settings) for _ in range(2)]
        for one in made:
            stack.push_async_callback(one.stop)
            await one.start()
        yield made


async def letters(bus: Bus) -> list[Letter]:
    return [one async for one in Letters(bus).find(LetterFilter())]


async def until_begun(bus: Bus, count: int) -> list[Json]:
    """Return the tasks, once there are `count`."""

    async def are_there() -> bool:
        return len(await begun(bus)) >= count

    await eventually(are_there, f"{count} tasks have begun")
    return await begun(bus)


async def test_an_event_becomes_the_message_that_its_trigger_describes(
    bus: Bus, orders: Orders, replicas: list[TriggersReplica]
) -> None:
    assert len(replicas) == 2
    await orders.trigger(
        filter={"body.total": {"min": 100}, "headers.Region": ["eu", "us"]},
        text="Check order {body.id} on {subject.1}",
        data={"lines": "body.lines"},
        context="customer-{body.customer}",
        priority="high",
    )
    order = {"id": 7, "total": 250, "customer": "ann", "lines": [1, 2]}
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    for region, total in (("eu", 99), ("asia", 250), ("eu", 250)):
        await orders.publish(order | {"total": total}, Region=region, traceparent=trace)
    [task] = await until_begun(bus, 1)
    [message] = task["history"]
    assert task["contextId"] == "customer-ann"
    assert message["parts"] == [
        {"text": "Check order 7 on created"},
        {"data": {"lines": [1, 2]}},
    ]
    assert task["metadata"]["headrace.priority"] == "high"
    assert task["metadata"]["headrace.traceparent"] == trace
    await orders.settled()
    assert len(await begun(bus)) == 1


async def test_an_events_integers_are_exact_and_its_halves_of_characters_are_replaced(
    bus: Bus, orders: Orders, replicas: list[TriggersReplica]
) -> None:
    assert len(replicas) == 2
    await orders.trigger(text="Order {body.id}: {body.note}", data={"order": "body"})
    await orders.publish({"id": 2**64 + 1, "wei": [10**21], "note": "cut \ud83d"})
    [task] = await until_begun(bus, 1)
    whole = {"id": 2**64 + 1, "wei": [10**21], "note": "cut \ufffd"}
    assert task["history"][0]["parts"] == [
        {"text": f"Order {2**64 + 1}: cut \ufffd"},
        {"data": {"order": whole}},
    ]


async def test_with_traces_a_task_is_below_the_span_of_handling_its_event(
    bus: Bus, orders: Orders, settings: TriggersSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    RecordedSpans(monkeypatch)
    await orders.trigger()
    async with running(settings):
        await orders.publish({}, traceparent=f"00-{'a' * 32}-{'b' * 16}-01")
        [task] = await until_begun(bus, 1)
    _, trace, span, _ = task["metadata"]["headrace.traceparent"].split("-")
    assert trace == "a" * 32
    assert span != "b" * 16


async def test_the_last_firings_are_recorded_and_the_events_that_wait_are_counted(
    bus: Bus, orders: Orders, replicas: list[TriggersReplica]
) -> None:
    assert len(replicas) == 2
    history, trigger = FiringHistory(bus), await orders.trigger()
    assert await history.last(trigger) == []
    for number in range(KEPT_FIRINGS + 5):
        await orders.publish(number)
    tasks = {task["id"] for task in await until_begun(bus, KEPT_FIRINGS + 5)}
    await orders.settled()
    # What a replica has not written when it stops, it writes then.
    for one in replicas:
        await one.stop()
    last = await history.last(trigger)
    assert len({one.task for one in last}) == KEPT_FIRINGS
    assert {one.task for one in last} < tasks
    assert [one.at for one in last] == sorted(one.at for one in last)
    await orders.publish("later")
    assert await history.waiting(trigger) == 1
    assert await history.last(trigger.model_copy(update={"since": "2030-01-01T00:00:00Z"})) == []
    assert await history.waiting(trigger.model_copy(update={"stream": None})) is None
    assert [one.name for one in await TriggerStore(bus).all()] == ["orders"]


async def test_an_event_with_an_id_of_its_own_fires_once_however_often_it_is_stored(
    bus: Bus, orders: Orders, replicas: list[TriggersReplica]
) -> None:
    assert len(replicas) == 2
    await orders.trigger()
    mine = {"Nats-Msg-Id": "order-1"}
    await orders.publish({"n": 1}, **mine)
    await eventually(lambda: orders.publish({"n": 1}, **mine), "the stream has forgotten the id")
    await orders.publish({"n": 2})
    await until_begun(bus, 2)
    await orders.settled()
    assert len(await begun(bus)) == 2
    assert (await bus.js.stream_info(orders.stream)).state.messages == 3


async def test_an_event_that_lacks_what_the_trigger_needs_is_a_dead_letter(
    bus: Bus, orders: Orders, replicas: list[TriggersReplica]
) -> None:
    assert len(replicas) == 2
    await orders.trigger(text="Check order {body.id}")
    await orders.publish({"total": 1}, Region="eu")
    await orders.publish({"id": 2})
    [task] = await until_begun(bus, 1)
    assert task["history"][0]["parts"] == [{"text": "Check order 2"}]
    await orders.settled()
    [letter] = await letters(bus)
    assert (letter.kind, letter.agent, letter.body) == ("event", "shop", b'{"total": 1}')
    assert letter.content.reason == "trigger/ann/orders: the event has no 'body.id'"


@pytest.mark.parametrize(
    ("template", "depth"),
    [({"text": "{body}"}, 300), ({"data": {"of": "body"}}, 90), ({}, 300)],
)
async def test_an_event_that_is_nested_too_deep_is_a_dead_letter(
    bus: Bus,
    orders: Orders,
    replicas: list[TriggersReplica],
    template: dict[str, Any],
    depth: int,
) -> None:
    assert len(replicas) == 2
    await orders.trigger(**template)
    subject = f"{orders.stream}.created"
    await bus.js.publish(subject, b"[" * depth + b"]" * depth, timeout=60)
    await orders.settled()
    [letter] = await letters(bus)
    assert "must not be nested deeper than 90 levels" in letter.content.reason


async def test_an_owner_has_a_maximum_of_triggers(bus: Bus, orders: Orders) -> None:
    store, spec = TriggerStore(bus, most_per_owner=1), TriggerSpec.model_validate
    fields = {"agent": "shop", "subject": orders.stream}
    await store.put(spec({**fields, "name": "a"}), "default", "ann")
    with pytest.raises(TooManyTriggers, match="at most 1 triggers"):
        await store.put(spec({**fields, "name": "b"}), "default", "ann")
    await store.put(spec({**fields, "name": "a", "limit": 1}), "default", "ann")
    await store.put(spec({**fields, "name": "b"}), "default", "bob")


async def test_events_wait_for_a_paused_trigger_and_for_their_agent(
    bus: Bus, orders: Orders, replicas: list[TriggersReplica]
) -> None:
    assert len(replicas) == 2
    await orders.trigger(agent="later", paused=True)
    await orders.publish({"n": 1})
    await orders.trigger(agent="later", paused=False)
    await asyncio.sleep(0.2)
    assert await begun(bus) == []
    await Announcer(bus, "worker-1").announce(AgentCard(name="later"))
    [task] = await until_begun(bus, 1)
    assert task["history"][0]["parts"] == [{"data": {"n": 1}}]


async def test_events_of_core_nats_fire_once_for_all_replicas(
    bus: Bus, orders: Orders, replicas: list[TriggersReplica]
) -> None:
    assert len(replicas) == 2
    subject = f"{orders.stream}-core.created"
    await orders.trigger(subject=subject, stream=None, text="Order {body.id}")
    begun_before = 0
    async with asyncio.timeout(60):
        while not await begun(bus):  # until the replicas have subscribed
            await bus.publish(subject, b'{"id": 1}')
            begun_before += 1
            await asyncio.sleep(0.1)
    await asyncio.gather(*(bus.publish(subject, b'{"id": 2}') for _ in range(10)))
    await bus.publish(subject, b"{}")

    async def is_told() -> bool:
        return bool(await letters(bus))

    await eventually(is_told, "the event without an id is a dead letter")

    async def texts() -> list[str]:
        return [task["history"][0]["parts"][0]["text"] for task in await begun(bus)]

    async def are_there() -> bool:
        return (await texts()).count("Order 2") >= 10

    await eventually(are_there, "ten tasks of order 2 have begun")
    found = await texts()
    assert found.count("Order 2") == 10
    assert found.count("Order 1") <= begun_before


async def test_triggers_of_two_tenants_begin_tasks_of_their_own(
    bus: Bus, orders: Orders, replicas: list[TriggersReplica]
) -> None:
    assert len(replicas) == 2
    for tenant in ("acme", "other"):
        await orders.trigger(tenant, text=f"for {tenant}")
    await orders.publish({"n": 1})
    await until_begun(bus, 2)
    await orders.settled()
    stream, found = bus.streams.events(0), set[tuple[str, str]]()
    for tenant in ("acme", "other"):
        info = await bus.js.stream_info(stream, f"{bus.subjects.prefix}.event.*.{tenant}.>")
        [subject] = info.state.subjects or {}
        body = (await bus.js.get_last_msg(stream, subject)).data or b""
        found.add((tenant, json.loads(body)["task"]["history"][0]["parts"][0]["text"]))
    assert found == {("acme", "for acme"), ("other", "for other")}
    assert len(await begun(bus)) == 2


async def test_a_trigger_that_is_deleted_takes_its_consumer_along(
    bus: Bus, orders: Orders, replicas: list[TriggersReplica]
) -> None:
    assert len(replicas) == 2
    trigger = await orders.trigger()
    await orders.settled()
    await TriggerStore(bus).delete(trigger)
    # With a marker that expires, nats-server brings it back when it is killed later.
    subject = subject_of(bus.streams.triggers, trigger.key)
    marker = await bus.js.get_last_msg(stream_of(bus.streams.triggers), subject)
    assert TTL not in (marker.headers or {})

    async def is_gone() -> bool:
        return await bus.js.consumers_info(orders.stream) == []

    await eventually(is_gone, "the consumer is deleted")


async def test_the_consumers_of_what_the_clock_fires_are_those_of_the_contract(
    bus: Bus, replicas: list[TriggersReplica]
) -> None:
    assert len(replicas) == 2
    found = await bus.js.consumers_info(bus.streams.schedules)
    assert {one.name for one in found} == {"firings", "due-runs"}
    assert await consumer_differences(bus) == []


async def consumers_left(bus: Bus, orders: Orders) -> set[str]:
    return {one.name for one in await bus.js.consumers_info(orders.stream)}


async def test_a_trigger_that_is_deleted_while_no_service_runs_takes_its_consumer_along(
    bus: Bus, orders: Orders, settings: TriggersSettings
) -> None:
    kept = await orders.trigger(name="kept")
    deleted, unreadable = await orders.trigger(), await orders.trigger(name="newer")
    async with running(settings):
        await eventually(lambda: is_taken_by(bus, orders, 3), "each trigger has a consumer")
    await TriggerStore(bus).delete(deleted)
    subject = subject_of(bus.streams.triggers, unreadable.key)
    await bus.js.publish(subject, b'{"written": "by a later version"}', timeout=60)
    async with running(settings):
        await eventually(lambda: is_taken_by(bus, orders, 2), "the consumer is deleted")
    assert await consumers_left(bus, orders) == {kept.consumer, unreadable.consumer}


async def test_a_trigger_that_takes_events_of_another_stream_leaves_no_consumer(
    bus: Bus, orders: Orders, settings: TriggersSettings
) -> None:
    await orders.trigger()
    async with running(settings):
        await eventually(lambda: is_taken_by(bus, orders, 1), "the trigger has a consumer")
        await orders.trigger(stream="ANOTHER")
        await eventually(lambda: is_taken_by(bus, orders, 0), "the consumer is deleted")


@asynccontextmanager
async def running(settings: TriggersSettings) -> AsyncIterator[None]:
    """Run a replica for the length of the block."""
    replica = TriggersReplica(settings)
    try:
        await replica.start()
        yield
    finally:
        await replica.stop()


async def is_taken_by(bus: Bus, orders: Orders, count: int) -> bool:
    return len(await consumers_left(bus, orders)) == count
