"""The last sequences of many logs at once."""

import asyncio
import secrets
from contextlib import suppress

import pytest

from headrace.jetstream.connection import Bus
from headrace.log import tail_rule
from headrace.log.tail_rule import FEW, tails_of
from headrace.model.errors import BusUnavailable
from headrace.model.task import TaskKey, mint_task_id
from tests.integration.shared.conftest import Connect
from tests.support.nats_proxy import NatsProxy
from tests.support.task_log import TaskLog, confirmed_tails
from tests.support.topology import Topology
from tests.support.waiting import eventually


async def some_logs(bus: Bus, count: int) -> dict[TaskKey, int]:
    """Write `count` logs and name as many that nobody wrote; return their last sequences."""
    logs = [TaskLog(bus) for _ in range(count)]
    await asyncio.gather(*(log.begin() for log in logs))
    await asyncio.gather(*(log.grow(n % 4 + 1) for n, log in enumerate(logs)))
    await logs[1].purge()
    tails = {log.key: log.writer.sequence for log in logs}
    tails[logs[0].key] = await logs[0].junk()
    tails[logs[1].key] = 0
    return tails | {TaskKey("default", "agent", mint_task_id(5)): 0 for _ in range(count)}


async def test_one_question_for_many_logs_is_answered_like_many_questions(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    tails = await some_logs(bus, 30)
    found: list[dict[TaskKey, int]] = []

    async def is_believed() -> bool:
        # A copy that is behind the leader, or slow, is not.
        with suppress(BusUnavailable):
            answer = await tail_rule._multi_last(bus, bus.streams.events(0), tuple(tails))
            found.extend([] if answer is None else [answer.last])
        return bool(found)

    await eventually(is_believed, "a copy that has caught up answers")
    assert found == [tails]
    assert await confirmed_tails(bus, tails) == tails
    monkeypatch.setattr(tail_rule, "FEW", 1000)
    assert await confirmed_tails(bus, tails) == tails


async def test_only_logs_that_have_grown_are_in_the_answer_if_others_are_known(bus: Bus) -> None:
    logs = [TaskLog(bus) for _ in range(2 * FEW)]
    await asyncio.gather(*(log.begin() for log in logs))
    keys = [log.key for log in logs]

    async def known() -> int:
        return (await tails_of(bus, keys)).up_to

    await eventually(known, "a copy that has caught up answers")
    since = await known()
    await logs[3].grow(2)

    async def has_grown() -> bool:
        return bool((await tails_of(bus, keys, since)).last)

    await eventually(has_grown, "a copy has it")
    found = await tails_of(bus, keys, since)
    whole = await tails_of(bus, keys, since + 1_000_000)
    assert found.last[logs[3].key] == logs[3].writer.sequence
    assert len(found.last) == 1 or found.up_to == 0
    assert set(whole.last) == set(keys), "of a stream that has less than is known of it"


async def test_more_logs_than_one_question_takes_are_requested_in_several(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_rule, "_MULTI_MAX", FEW + 2)
    tails = await some_logs(bus, 20)
    assert await confirmed_tails(bus, tails) == tails


async def test_logs_of_several_streams_are_requested_at_each(connect: Connect) -> None:
    name = f"own{secrets.token_hex(4)}"
    bus = await connect(event_streams=2, prefix=name, stream_prefix=name)
    logs = [TaskLog(bus, TaskKey("default", "agent", mint_task_id(s))) for s in (0, 15, 16, 31)]
    for log in logs:
        await log.begin()
    assert [log.stream for log in logs][1:3] == [bus.streams.events(0), bus.streams.events(1)]
    tails = {log.key: log.writer.sequence for log in logs}
    assert await confirmed_tails(bus, tails) == tails


async def test_an_answer_with_a_lost_part_is_rejected(
    connect: Connect, topology: Topology, bus: Bus
) -> None:
    tails = await some_logs(bus, 20)
    async with NatsProxy(topology.nodes[0].port) as proxy:
        shaky = await connect(nats_url=proxy.url)
        proxy.lose_next(lambda frame: b"Nats-Num-Pending: 7" in frame)
        assert await confirmed_tails(shaky, tails) == tails
        assert proxy.lost


async def test_no_stream_no_answer(bus: Bus) -> None:
    nowhere = TaskKey("default", "agent", mint_task_id(16 * 50))
    with pytest.raises(BusUnavailable):
        await tails_of(bus, [nowhere])
