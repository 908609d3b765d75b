"""What is open in a thread, from its logs."""

import asyncio
import secrets

import pytest
from nats.js.api import StreamConfig, StreamSource

from headrace.jetstream.connection import Bus
from headrace.log import thread
from headrace.log.thread import LogEnd, ThreadKey, open_logs
from headrace.log.tombstone import put_tombstone
from headrace.model.errors import LogTooNew
from headrace.model.task import (
    AUTH_REQUIRED,
    COMPLETED,
    INPUT_REQUIRED,
    SUBMITTED,
    WORKING,
    TaskKey,
    mint_task_id,
    thread_token,
)
from tests.integration.shared.conftest import Connect
from tests.support.task_log import TaskLog
from tests.support.waiting import eventually

TOKEN = thread_token("owner", "context")


def new_thread() -> ThreadKey:
    """Return a thread of its own; `TaskLog` writes for this owner, and in this context."""
    return ThreadKey("default", f"agent-{secrets.token_hex(4)}", "owner", "context")


async def log_in(
    bus: Bus, of: ThreadKey, *states: str, shard: int = 3, tenant: str = "", token: str = TOKEN
) -> TaskLog:
    """Write the log of a task that has been in `states`, after SUBMITTED."""
    key = TaskKey(tenant or of.tenant, of.agent, mint_task_id(shard, token))
    log = TaskLog(bus, key)
    await log.begin()
    for state in states:
        await log.append("said", state=state)
    return log


async def open_in(bus: Bus, of: ThreadKey) -> dict[TaskKey, str]:
    """Return the states of the open tasks; a replica that is behind is asked again."""
    found: list[LogEnd] = []

    async def is_answered() -> bool:
        ends = await open_logs(bus, of)
        found.extend(ends or ())
        return ends is not None

    await eventually(is_answered, "a replica has caught up")
    return {end.key: end.last.stamp.state for end in found}


async def test_open_logs_are_those_that_wait_for_a_worker_or_are_at_work(bus: Bus) -> None:
    of = new_thread()
    assert await open_in(bus, of) == {}
    states = [(), (WORKING,), (INPUT_REQUIRED,), (AUTH_REQUIRED,), (WORKING, COMPLETED)]
    logs = [await log_in(bus, of, *one) for one in states]
    again = await log_in(bus, of, INPUT_REQUIRED, SUBMITTED)
    waiting, at_work = logs[0].key, logs[1].key
    expected = {waiting: SUBMITTED, at_work: WORKING, again.key: SUBMITTED}
    assert await open_in(bus, of) == expected
    await logs[1].append("done", state=COMPLETED)
    await logs[2].append("answered", state=SUBMITTED)
    del expected[at_work]
    assert await open_in(bus, of) == expected | {logs[2].key: SUBMITTED}


async def test_a_thread_has_neither_others_logs_nor_deleted_ones(bus: Bus) -> None:
    of, another = new_thread(), new_thread()
    own = await log_in(bus, of, WORKING)
    await log_in(bus, another, WORKING)
    await log_in(bus, of, WORKING, tenant="acme")
    # Of another owner or context, whose digits are the same ones.
    assert await open_in(bus, of) == {own.key: WORKING}
    for foreign in (ThreadKey(*of[:2], "bob", "context"), ThreadKey(*of[:2], "owner", "another")):
        assert await open_in(bus, foreign) == {}
    forged = thread_token("bob", "context")
    await log_in(bus, of, WORKING, token=forged)
    assert await open_in(bus, ThreadKey(*of[:2], "bob", "context")) == {}
    end = own.writer.sequence
    await put_tombstone(bus, own.key, "owner", "deleted", 60, end)
    assert await open_in(bus, of) == {}


async def test_what_is_no_entry_hides_no_log(bus: Bus) -> None:
    of = new_thread()
    log = await log_in(bus, of, WORKING)
    await log.junk()
    assert await open_in(bus, of) == {log.key: WORKING}
    ended = await log_in(bus, of, COMPLETED)
    await ended.junk()
    assert await open_in(bus, of) == {log.key: WORKING}
    await log.junk({"Headrace-Version": "99"})
    with pytest.raises(LogTooNew):
        await open_in(bus, of)


async def test_logs_of_all_streams_are_found_and_of_too_many_none(connect: Connect) -> None:
    name = f"own{secrets.token_hex(4)}"
    bus = await connect(event_streams=2, prefix=name, stream_prefix=name)
    of = new_thread()
    shards = [0, 15, 16, 31]
    logs = [await log_in(bus, of, WORKING, shard=shard) for shard in shards]
    assert await open_in(bus, of) == {log.key: WORKING for log in logs}
    more = [log_in(bus, of, COMPLETED) for _ in range(thread._MOST)]
    await asyncio.gather(*more)
    assert await open_logs(bus, of) is None


async def test_a_mirror_beside_a_stream_ends_the_belief_in_only_copies(own: Bus) -> None:
    of = new_thread()
    log = await log_in(own, of, WORKING)
    if not own.has_only_copies:
        pytest.skip("its leader is always asked")
    mirror = StreamConfig(name=f"{log.stream}-COPY", mirror=StreamSource(name=log.stream))
    await own.js.add_stream(mirror)  # NATS has it answer direct gets, since its origin does.

    async def is_noticed() -> bool:
        ends = await open_logs(own, of)
        return ends is None and not own.has_only_copies

    try:
        await eventually(is_noticed, "the mirror has answered, and was not believed")
        for _ in range(20):
            await log.append("said", state=WORKING)
            assert await open_in(own, of) == {log.key: WORKING}
    finally:
        await own.js.delete_stream(str(mirror.name))
