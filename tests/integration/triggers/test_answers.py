"""The tasks of events are begun with the answers that their triggers declare."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from nats.aio.msg import Msg

from headrace.directory import AgentCard, Announcer
from headrace.jetstream.connection import Bus
from headrace.jetstream.headers import STATUS
from headrace.model.answers import CHAIN, DEPTH, TRIGGER, TaskAnswers
from headrace.model.events import Json
from headrace.model.task import TaskKey
from headrace.tasks.dead_letters import LetterFilter, Letters
from headrace.webhooks import ANSWERS, Webhooks
from headrace_triggers.main import TriggersReplica
from headrace_triggers.settings import TriggersSettings
from tests.support.triggers import Orders, begun
from tests.support.waiting import eventually

MOST = 3
_TURN = 0.2
"""Seconds in which what is published arrives."""

RULE = {"subject": "orders.done", "stream": "ORDERS", "what": "artifacts", "mode": "binary"}


@pytest.fixture
async def orders(settings: TriggersSettings, bus: Bus) -> AsyncIterator[Orders]:
    """A stream of a user's own and the agent ``shop``, while a replica runs."""
    await Announcer(bus, "worker-1").announce(AgentCard(name="shop"))
    orders = await Orders.make(bus, settings.prefix)
    replica = TriggersReplica(settings.model_copy(update={"chain_depth": MOST}))
    try:
        await replica.start()
        yield orders
    finally:
        await replica.stop()


async def the_task(bus: Bus) -> Json:
    """Return the first task, once it has begun."""

    async def look() -> Json | None:
        return next(iter(await begun(bus)), None)

    return await eventually(look, "a task has begun")


async def answers_of(bus: Bus, task: Json) -> TaskAnswers | None:
    kept = await Webhooks(bus).get(TaskKey("default", "shop", task["id"]), ANSWERS)
    return None if kept is None else kept.webhook.answers


async def letter_reasons(bus: Bus) -> list[str]:
    return [one.content.reason async for one in Letters(bus).find(LetterFilter())]


async def test_an_answer_knows_how_many_answers_came_before(bus: Bus, orders: Orders) -> None:
    await orders.trigger(answers=RULE)
    await orders.publish({}, **{DEPTH: "2", CHAIN: "3-first"})
    answers = await answers_of(bus, await the_task(bus))
    assert answers is not None
    assert answers.trigger
    rule = {**RULE, "depth": 3, "trigger": answers.trigger, "chain": "3-first"}
    assert answers == TaskAnswers.model_validate(rule)


async def test_a_trigger_takes_no_answers_of_its_own_tasks(bus: Bus, orders: Orders) -> None:
    await orders.trigger(answers=RULE)
    await orders.trigger(name="next", text="taken by another")
    await orders.publish({})

    async def two() -> bool:
        return len(await begun(bus)) == 2

    await eventually(two, "each trigger has begun a task")
    own = [found for task in await begun(bus) if (found := await answers_of(bus, task)) is not None]
    [answers] = own
    await orders.publish({}, **{DEPTH: "1", TRIGGER: answers.trigger})
    await orders.settled()
    assert len(await begun(bus)) == 3
    assert await letter_reasons(bus) == []


@pytest.mark.parametrize("depth", [str(MOST), "-1", "9" * 5000, "x"])
async def test_agents_whose_answers_begin_one_another_come_to_an_end(
    bus: Bus, orders: Orders, depth: str
) -> None:
    await orders.trigger()
    await orders.publish({}, **{DEPTH: depth})
    [reason] = await eventually(lambda: letter_reasons(bus), "the event is a dead letter")
    assert f"more than {MOST} tasks have begun one another through their answers" in reason
    assert await begun(bus) == []


async def test_the_caller_over_core_nats_is_answered(bus: Bus, orders: Orders) -> None:
    request, inbox = f"{orders.stream}-asked", "_INBOX.Zk3.1"
    await orders.trigger(stream=None, subject=request, answers={"reply": True})

    async def is_taken() -> bool:
        await bus.publish(request, b"{}", reply=inbox)
        return bool(await begun(bus))

    await eventually(is_taken, "a task has begun")
    answers = await answers_of(bus, await the_task(bus))
    assert answers is not None
    assert (answers.subject, answers.what, answers.depth) == (inbox, "end", 1)


@pytest.mark.parametrize("is_stored", [True, False])
async def test_an_event_that_names_a_subject_has_nothing_published_there(
    bus: Bus,
    orders: Orders,
    *,
    is_stored: bool,
) -> None:
    """Whoever publishes events could have JetStream purge a stream otherwise."""
    request, named = f"{orders.stream}-asked", f"{orders.stream}-named"
    received = list[bytes]()

    async def note(msg: Msg) -> None:
        # The server says itself if nobody takes events yet.
        if STATUS not in (msg.headers or {}):
            received.append(msg.data)

    listening = await bus.subscribe(named, note)
    place: dict[str, Any] = {} if is_stored else {"stream": None, "subject": request}
    await orders.trigger(**place)

    async def are_taken() -> bool:
        if is_stored:
            await orders.publish({}, reply_to=named)
        else:
            await bus.publish(request, b"{}", reply=named)
        return len(await begun(bus)) > 1

    await eventually(are_taken, "two events have begun tasks")
    await asyncio.sleep(_TURN)
    await bus.unsubscribe(listening)
    assert received == []


async def test_nothing_is_published_on_a_reply_subject_of_the_servers(
    bus: Bus, orders: Orders
) -> None:
    request = f"{orders.stream}-asked"
    await orders.trigger(stream=None, subject=request, answers={"reply": True})

    async def refused() -> list[str]:
        await bus.publish(request, b"{}", reply="$JS.API.STREAM.DELETE.x")
        return await letter_reasons(bus)

    first, *_ = await eventually(refused, "the event is a dead letter")
    assert "reply subject is not an inbox" in first
    assert await begun(bus) == []
