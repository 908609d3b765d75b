"""The log is followed without a hole, whatever happens to replicas, NATS and Redis."""

import asyncio
import random
import signal
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import orjson
import pytest
from nats.aio.msg import Msg

from headrace.jetstream.streams import ensure_streams
from headrace.log import LogWriter
from headrace.model.entry import Stamp
from headrace.model.events import Json
from headrace.model.messages import DeadLetter, ListChanges
from headrace.model.task import COMPLETED, WORKING
from headrace_task_state.store import Range
from tests.support.cluster import NatsCluster
from tests.support.delete_stream import delete_stream
from tests.support.jetstream_api import leader_of
from tests.support.legal_logs import LegalLog
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.task_states import OWNER, TaskStates, folded, new_key, open_task_states
from tests.support.waiting import TIMEOUT, eventually

FIRST = Range(0)


def short_log(text: str = "hello", shard: int = 3, agent: str = "agent") -> LegalLog:
    log = LegalLog(new_key(shard, agent=agent))
    log.submit(text)
    log.begin_attempt()
    log.append([log.chunk("a", f"{text} "), log.chunk("a", "done")], state=WORKING)
    log.append([log.status(COMPLETED)], state=COMPLETED)
    return log


def long_log(entries: int) -> LegalLog:
    log = LegalLog(new_key())
    log.submit("hello")
    log.begin_attempt()
    for number in range(entries):
        log.append([log.chunk("a", f"{number} ")], state=WORKING)
    return log


async def lists_all(fleet: TaskStates, *logs: LegalLog) -> None:
    """Assert that the list is what the logs fold to, once the view answers again."""
    found = dict[str, Json]()

    async def listed() -> bool:
        found.clear()
        with suppress(Exception):  # Whatever it was, it must pass.
            found.update(await fleet.listed())
        return bool(found)

    await eventually(listed, "the list is answered")
    assert found == {log.key.task: folded(log) for log in logs}


async def letters(fleet: TaskStates) -> list[DeadLetter]:
    stream = fleet.bus.streams.dead
    state = (await fleet.bus.js.stream_info(stream)).state
    found = [
        await fleet.bus.js.get_msg(stream, sequence)
        for sequence in range(max(state.first_seq, 1), state.last_seq + 1)
    ]
    return [DeadLetter.decode(msg.subject or "", msg.data or b"") for msg in found]


async def test_what_is_appended_is_listed(fleet: TaskStates) -> None:
    logs = [short_log(str(shard), shard) for shard in range(16)]
    await fleet.start()
    for log in logs:
        await fleet.store(log)
    await lists_all(fleet, *logs)


async def test_what_lists_show_is_published_when_it_is_listed(fleet: TaskStates) -> None:
    arrived = asyncio.Queue[Msg]()
    subject = fleet.bus.subjects.changes()
    subscription = await fleet.bus.listen(subject, arrived.put_nowait)
    await fleet.start()
    await fleet.followed()
    log, published = short_log(), list[ListChanges]()
    await fleet.store(log)
    async with asyncio.timeout(TIMEOUT):
        while not published or not published[-1].tasks or published[-1].tasks[0].state != COMPLETED:
            msg = await arrived.get()
            published.append(ListChanges.decode(msg.subject, msg.data))
    await fleet.bus.unsubscribe(subscription)
    assert all(one.after == other.end for other, one in pairwise(published))
    [task] = published[-1].tasks
    [listed] = (await fleet.listed()).values()
    assert (task.task, task.context, task.owner) == (listed["id"], listed["contextId"], OWNER)


async def test_the_log_from_before_the_first_start_is_listed_too(fleet: TaskStates) -> None:
    log = long_log(3000)
    await fleet.store(log)
    await fleet.start()
    await lists_all(fleet, log)


async def test_a_replica_killed_in_mid_stream_is_replaced_and_nothing_is_lost(
    fleet: TaskStates, tmp_path: Path
) -> None:
    log = long_log(2500)
    replicas = [await fleet.spawn(tmp_path, name) for name in ("one", "two")]
    await fleet.followed()
    storing = asyncio.create_task(fleet.store(log))

    async def half() -> bool:
        return (await fleet.reader.positions([FIRST]))[0] > 800

    await eventually(half, "some of it is applied")
    holder = await one_holder(fleet)
    logs = [(tmp_path / f"{name}.log").read_text() for name in ("one", "two")]
    active = next(n for n, text in enumerate(logs) if f"replica {holder}" in text)
    replicas[active].send_signal(signal.SIGKILL)
    await storing
    await lists_all(fleet, log)

    async def is_replaced() -> bool:
        [other] = await fleet.redis.ask(["GET", fleet.keys.lease(FIRST)])
        return other is not None and other.decode().partition(".")[0] != holder

    await eventually(is_replaced, "the other replica has the range")


async def test_a_replica_that_leaves_hands_over_at_once(fleet: TaskStates, tmp_path: Path) -> None:
    replicas = [await fleet.spawn(tmp_path, name) for name in ("one", "two")]
    await fleet.followed()
    log = short_log()
    await fleet.store(log)
    holder = await one_holder(fleet)
    logs = [(tmp_path / f"{name}.log").read_text() for name in ("one", "two")]
    leaving, staying = replicas if f"replica {holder}" in logs[0] else replicas[::-1]
    leaving.terminate()
    assert await asyncio.to_thread(leaving.wait, 60) == 0
    assert holder not in await holders(fleet), "it does not let its lease run out"
    await fleet.followed()
    await lists_all(fleet, log)
    staying.terminate()
    assert await asyncio.to_thread(staying.wait, 60) == 0


async def one_holder(fleet: TaskStates) -> str:
    """Return the holder of the only range, which has none while it changes hands."""
    [holder] = await eventually(lambda: holders(fleet), "the range has a holder")
    return holder


async def holders(fleet: TaskStates) -> list[str]:
    leases = await fleet.redis.ask(*(["GET", fleet.keys.lease(place)] for place in fleet.ranges))
    return [lease.decode().partition(".")[0] for lease in leases if lease is not None]


async def test_replicas_share_the_ranges_evenly_as_they_come_and_go(
    nats_server: NatsProcess, valkey: ValkeyProcess
) -> None:
    async with open_task_states(nats_server.url, valkey.url, event_streams=4) as fleet:
        first = await fleet.start()
        logs = [short_log(str(shard), shard) for shard in range(0, 64, 4)]

        def shares(*expected: int) -> object:
            async def shared() -> bool:
                held = await holders(fleet)
                return sorted(map(held.count, set(held))) == sorted(expected)

            return eventually(shared, f"shares of {expected}")

        await shares(4)  # type: ignore[misc]
        for log in logs[:8]:
            await fleet.store(log)
        await fleet.start()
        await shares(2, 2)  # type: ignore[misc]
        await fleet.start()
        await shares(1, 1, 2)  # type: ignore[misc]
        for log in logs[8:]:
            await fleet.store(log)
        await first.stop()
        await shares(2, 2)  # type: ignore[misc]
        await lists_all(fleet, *logs)


async def test_after_flushall_the_list_is_the_same(fleet: TaskStates) -> None:
    logs = [short_log(str(shard), shard) for shard in range(4)]
    await fleet.start()
    for log in logs[:2]:
        await fleet.store(log)
    await lists_all(fleet, *logs[:2])
    await fleet.lose_view()
    for log in logs[2:]:
        await fleet.store(log)
    await lists_all(fleet, *logs)


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[tuple[TaskStates, NatsProcess, ValkeyProcess]]:
    """A fleet on servers of its own, which the test may break."""
    with NatsProcess(tmp_path / "nats") as nats, ValkeyProcess(tmp_path / "valkey") as valkey:
        async with open_task_states(nats.url, valkey.url) as fleet:
            yield fleet, nats, valkey


type Own = tuple[TaskStates, NatsProcess, ValkeyProcess]


async def test_redis_killed_with_its_data_kept_or_lost(own: Own) -> None:
    fleet, _, valkey = own
    log = short_log()
    await fleet.start()
    await fleet.store(log)
    await lists_all(fleet, log)
    await asyncio.to_thread(valkey.restart)
    other = short_log("other")
    await fleet.store(other)
    await lists_all(fleet, log, other)
    valkey.kill()
    for file in valkey.folder.glob("valkey-data/**/*"):
        if file.is_file():
            file.unlink()
    third = short_log("third")
    await fleet.store(third)
    await asyncio.to_thread(valkey.start)
    await lists_all(fleet, log, other, third)


async def test_nats_killed_and_started_again_is_followed_on(own: Own) -> None:
    fleet, nats, _ = own
    log = long_log(300)
    await fleet.start()
    await fleet.store(log)
    await asyncio.to_thread(nats.restart)

    async def back() -> bool:
        return fleet.bus.connected

    await eventually(back, "reconnected to NATS")
    more = short_log("more")
    await fleet.store(more)
    await lists_all(fleet, log, more)


async def test_a_stream_that_was_lost_takes_its_tasks_with_it(own: Own) -> None:
    fleet, _, _ = own
    lost = [short_log(str(number)) for number in range(5)]
    await fleet.start()
    for log in lost:
        await fleet.store(log)
    await lists_all(fleet, *lost)
    await delete_stream(fleet.bus.js, fleet.bus.streams.events(0))
    await ensure_streams(fleet.bus.js, fleet.settings)
    log = short_log("new")
    await fleet.store(log)

    async def only_the_new() -> bool:
        try:
            return set(await fleet.listed()) == {log.key.task}
        except Exception:  # noqa: BLE001 - whatever it was, it must pass
            return False

    await eventually(only_the_new, "only the new task is listed")
    assert await fleet.listed() == {log.key.task: folded(log)}
    left = [key async for key in fleet.redis._redis.scan_iter(f"{fleet.keys.view(0)}*")]
    assert left == []


async def test_a_deleted_consumer_is_replaced(fleet: TaskStates) -> None:
    await fleet.start()
    await fleet.followed()
    stream = fleet.bus.streams.events(0)
    for consumer in await fleet.bus.js.consumers_info(stream):
        await fleet.bus.js.delete_consumer(stream, consumer.name)
    log = short_log()
    await fleet.store(log)
    await lists_all(fleet, log)


async def test_what_is_no_entry_is_a_dead_letter_once_and_blocks_nothing(
    fleet: TaskStates,
) -> None:
    log = LegalLog(new_key())
    log.submit("hello")
    subject = fleet.bus.subjects.event(log.key)
    await fleet.start()
    await fleet.store(log)
    junk = [
        (subject, b"junk", None),
        (subject, b"not json", Stamp("abcdefgh", 9, "w", WORKING, 1).headers()),
        (subject, b'{"surprise":1}', Stamp("abcdefgh", 7, "w", WORKING, 1).headers()),
        (subject, b"x" * 500_000, {"Headrace-Version": "99"}),
        (subject.replace(".3.", ".4."), b"{}", None),
        (subject.rpartition(".")[0], b"{}", None),
    ]
    first = 0
    for where, body, headers in junk:
        ack = await fleet.bus.js.publish(where, body, headers=headers)
        first = first or ack.seq
    after = short_log("after")
    await fleet.store(after)

    async def all_there() -> bool:
        return len(await letters(fleet)) >= len(junk)

    await eventually(all_there, "all letters are there")
    assert after.key.task in await fleet.listed()
    found = await letters(fleet)
    assert [letter.sequence for letter in found] == list(range(first, first + len(junk)))
    assert b64decode(found[0].body) == b"junk"
    assert found[1].headers["Headrace-Generation"] == "9"
    assert "not JSON" in found[1].reason
    assert "event 7" in found[2].reason
    assert "500000" in found[3].reason
    assert "shard" in found[4].reason
    assert all(letter.subject.startswith(fleet.settings.prefix) for letter in found)

    await fleet.lose_view()
    await eventually(lambda: _position_is(fleet, first + len(junk)), "all is applied anew")
    assert len(await letters(fleet)) == len(junk)


async def _position_is(fleet: TaskStates, least: int) -> bool:
    return (await fleet.reader.positions([FIRST]))[0] >= least


async def test_many_tasks_at_once_fold_right(fleet: TaskStates) -> None:
    shuffle = random.Random(7)
    logs = [long_log(40) for _ in range(30)]
    await fleet.start()
    queues = [(log, list(log.entries)) for log in logs]
    while queues := [(log, entries) for log, entries in queues if entries]:
        log, entries = shuffle.choice(queues)
        stamp, body = entries.pop(0)
        subject = fleet.bus.subjects.event(log.key)
        await fleet.bus.connection.publish(subject, body, headers=stamp.headers())
    await fleet.bus.connection.flush()
    info = f"$JS.API.STREAM.INFO.{fleet.bus.streams.events(0)}"
    last = orjson.loads((await fleet.bus.request(info, b"", 30)).data)
    assert last["state"]["last_seq"] <= 30 * 42
    await eventually(lambda: _position_is(fleet, 30 * 42), "all is applied")
    await lists_all(fleet, *logs)


async def test_in_a_cluster_the_leaders_death_costs_time_and_no_event(
    nats_cluster: NatsCluster, valkey: ValkeyProcess
) -> None:
    log = long_log(400)
    async with open_task_states(nats_cluster.url, valkey.url, replicas=3) as fleet:
        await fleet.start()
        await fleet.followed()
        writer = LogWriter(fleet.bus, log.key)

        async def store() -> None:
            for stamp, drafts in log.messages:
                await writer.append(drafts, stamp)

        storing = asyncio.create_task(store())
        await eventually(lambda: _position_is(fleet, 100), "some of it is applied")
        stream = fleet.bus.streams.events(0)
        named = await leader_of(fleet.bus.connection, f"STREAM.INFO.{stream}")
        leader = nats_cluster.node(named)
        try:
            await asyncio.to_thread(leader.kill)
            await storing
            await lists_all(fleet, log)
        finally:
            await asyncio.to_thread(nats_cluster.heal)
        await lists_all(fleet, log)
