"""A tombstone in place of a log: no late writer gets past it, and no reader is left waiting."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from headrace.jetstream.purge import erase, purge
from headrace.jetstream.streams import ensure_streams
from headrace.log import TailRule, last_entry, replay
from headrace.log.read import LogMessage, Tombstone, last_stored, next_stored, read_on
from headrace.log.tombstone import is_forgotten, put_tombstone
from headrace.model.errors import Fenced, LogFull, LogLost, TaskForgotten
from headrace.model.task import COMPLETED, SUBMITTED
from headrace.settings import BusSettings
from headrace.tasks.forget import clear_away, delete_unended, mark_deleted
from tests.integration.shared.conftest import Connect
from tests.support.delete_stream import delete_stream
from tests.support.jetstream_api import answered
from tests.support.task_log import TaskLog, following
from tests.support.waiting import eventually

LONG = 600.0


async def put(log: TaskLog, seconds: float = LONG) -> None:
    """Replace the log by a tombstone, as retention does."""
    await put_tombstone(log.bus, log.key, "owner", "retention", seconds, log.writer.sequence)
    last = await last_stored(log.bus, log.key)
    assert last is not None
    await purge(log.bus, log.stream, log.subject, last.sequence)


async def put_once_there_is_room(log: TaskLog) -> None:
    """Do it again while others have taken the room: as retention does, which purges theirs."""

    async def is_put() -> bool:
        with suppress(LogFull):
            await put(log)
            return True
        return False

    await eventually(is_put, "a tombstone stands in place of the log")


async def until_received(read: Callable[[], Awaitable[object]]) -> None:
    """Return once `read` says that the task is gone; a copy may answer as it was a moment ago."""

    async def is_told() -> bool:
        with suppress(TaskForgotten):
            await read()
            return False
        return True

    await eventually(is_told, "the reader is told that the task is gone")


async def ended(log: TaskLog) -> None:
    await log.append("the end", state=COMPLETED)


async def test_nothing_but_the_tombstone_is_left(log: TaskLog) -> None:
    await ended(log)
    await put(log)
    [message] = await messages(log)
    assert message.is_tombstone
    assert message.entry is None
    assert await is_forgotten(log.bus, log.key)
    assert await last_entry(log.bus, log.key) is None


async def messages(log: TaskLog) -> list[LogMessage]:
    found: list[LogMessage] = []
    after = 0
    while (stored := await next_stored(log.bus, log.key, after)) is not None:
        found.append(stored)
        after = stored.sequence
    return found


async def test_no_late_writer_of_the_log_appends_behind_it(log: TaskLog) -> None:
    late = log.behind((await log.read())[-1], writer="late")
    await ended(log)
    await put(log)
    with pytest.raises(TaskForgotten):
        await late.append("too late")
    with pytest.raises(TaskForgotten):
        await log.append("too late as well")
    assert len(await messages(log)) == 1


async def test_a_frozen_gateway_does_not_begin_the_log_anew(log: TaskLog) -> None:
    await ended(log)
    await put(log)
    again = TaskLog(log.bus, log.key, writer="gateway")
    with pytest.raises(TaskForgotten):
        await again.begin()
    assert len(await messages(log)) == 1


async def test_it_goes_by_itself_and_even_then_no_late_writer_appends(log: TaskLog) -> None:
    await ended(log)
    await put(log, seconds=1.0)

    async def gone() -> bool:
        return await messages(log) == []

    await eventually(gone, "the tombstone has expired")
    with pytest.raises(LogLost, match="ends before"):
        await log.append("too late")
    assert await messages(log) == []


async def test_a_log_that_goes_on_is_not_buried(log: TaskLog) -> None:
    with pytest.raises(Fenced):
        await put_tombstone(log.bus, log.key, "owner", "retention", LONG, log.writer.sequence + 1)
    assert [entry.stamp.state for entry in await log.read()] == [SUBMITTED]


async def test_burying_again_changes_nothing(log: TaskLog) -> None:
    await ended(log)
    await put(log)
    before = await messages(log)
    await put(log)
    assert await messages(log) == before


async def test_followers_of_a_log_are_informed_that_it_is_gone(
    log: TaskLog, rule: TailRule
) -> None:
    async with following(log.bus, rule, log.key) as reading:
        await reading.until(1)
        await ended(log)
        await reading.until(2)
        await put(log)
        assert isinstance(await reading.until_lost(), TaskForgotten)


async def test_readers_of_lost_events_are_informed_at_once(log: TaskLog) -> None:
    await log.grow(20)
    await ended(log)
    head = log.writer.sequence
    await put(log)

    async def replayed() -> None:
        async for _ in replay(log.bus, log.key, 0, head):
            pass

    await until_received(lambda: read_on(log.bus, log.key, 0, head))
    await until_received(replayed)


async def test_what_is_erased_is_gone_with_all_its_messages(log: TaskLog) -> None:
    await log.grow(30)
    await ended(log)
    await put_tombstone(log.bus, log.key, "owner", "deleted", LONG, log.writer.sequence)
    last = await last_stored(log.bus, log.key)
    assert last is not None
    await erase(log.bus, log.stream, log.subject, last.sequence)
    [message] = await messages(log)
    assert message == last


async def test_a_full_stream_takes_tombstones_and_so_drains(connect: Connect) -> None:
    name = f"full{secrets.token_hex(4)}"
    bus = await connect(prefix=name, stream_prefix=name, events_max_bytes=32 * 1024)
    logs: list[TaskLog] = []
    # The last ones so small that there is no room left for anything else.
    for size in (500, 0):
        while b"error" not in await _store(log := TaskLog(bus), b'{"x":"%b"}' % (b"x" * size)):
            logs.append(log)
    with pytest.raises(LogFull):
        await TaskLog(bus).begin()
    await asyncio.gather(*map(put_once_there_is_room, logs))
    assert all([await is_forgotten(bus, log.key) for log in logs])
    for log in logs:
        await put(log)
    await TaskLog(bus).begin()
    await delete_stream(bus.js, bus.streams.events(0))


async def test_a_task_may_be_deleted_though_a_full_stream_refuses_its_end(connect: Connect) -> None:
    name = f"full{secrets.token_hex(4)}"
    bus = await connect(prefix=name, stream_prefix=name, events_max_bytes=32 * 1024)
    log = TaskLog(bus)
    await log.begin()
    for size in (500, 0):
        while b"error" not in await _store(TaskLog(bus), b'{"x":"%b"}' % (b"x" * size)):
            pass
    await mark_deleted(bus, log.key)
    assert await is_forgotten(bus, log.key)
    await delete_stream(bus.js, bus.streams.events(0))


async def _store(log: TaskLog, body: bytes) -> bytes:
    return (await log.bus.request(log.subject, body, 30.0, log.stamp(COMPLETED).headers())).data


async def test_a_task_deleted_without_an_end_keeps_its_owner(log: TaskLog) -> None:
    last = await last_entry(log.bus, log.key)
    assert last is not None
    await delete_unended(log.bus, log.key, last, LogFull("full"))
    stored = await last_stored(log.bus, log.key)
    assert stored is not None
    assert stored.tombstone == Tombstone("retention", "owner")


async def test_streams_let_messages_expire(connect: Connect) -> None:
    bus = await connect()
    await ensure_streams(bus.js, BusSettings(**bus.settings.model_dump()))
    info = await answered(lambda: bus.js.stream_info(bus.streams.events(0)))
    assert info.config.allow_msg_ttl


async def test_a_tombstone_that_expired_too_soon_leaves_no_log_behind(log: TaskLog) -> None:
    await ended(log)
    await put_tombstone(log.bus, log.key, "owner", "retention", 1.0, log.writer.sequence)

    async def expired() -> bool:
        return not await is_forgotten(log.bus, log.key)

    await eventually(expired, "the tombstone has expired")
    await clear_away(log.bus, log.key)
    assert [message.is_tombstone for message in await messages(log)] == [True]
