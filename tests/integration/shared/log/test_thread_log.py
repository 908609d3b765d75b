"""All logs of a thread, read as one: those of its owner, and what becomes of erased ones."""

import secrets

from headrace.jetstream.connection import Bus
from headrace.log.read import last_entry
from headrace.log.thread_log import ThreadEntry, ThreadName, open_thread
from headrace.log.tombstone import put_tombstone
from headrace.model.task import COMPLETED, WORKING, TaskKey, thread_token
from tests.integration.shared.conftest import Connect
from tests.integration.shared.log.test_threads import log_in, new_thread


async def read(bus: Bus, name: ThreadName, cursor: str = "") -> list[ThreadEntry]:
    """Return all that the thread has after a cursor."""
    log, found = await open_thread(bus, name, cursor), list[ThreadEntry]()
    while some := await log.read():
        found += some
    return found


def keys_in(found: list[ThreadEntry]) -> list[TaskKey]:
    return list(dict.fromkeys(one.key for one in found))


async def test_a_thread_has_the_logs_of_its_owner_alone(bus: Bus) -> None:
    of = new_thread()
    logs = [await log_in(bus, of, WORKING, COMPLETED) for _ in range(2)]
    # Another owner's context has other digits; one who chose the same ones is told apart, too.
    await log_in(bus, of, WORKING, token=thread_token("somebody", "context"))
    mine = ThreadName(of.tenant, "owner", "context", of.agent)
    assert keys_in(await read(bus, mine)) == [one.key for one in logs]
    for other in (
        ThreadName(of.tenant, "somebody", "context", of.agent),
        ThreadName(of.tenant, "owner", "another", of.agent),
        ThreadName("other", "owner", "context", of.agent),
    ):
        assert await read(bus, other) == []
        assert not await (await open_thread(bus, other)).exists()
    assert await (await open_thread(bus, mine)).exists()


async def test_an_erased_task_is_named_once_and_the_others_stay(bus: Bus) -> None:
    of = new_thread()
    first, second = [await log_in(bus, of, WORKING, COMPLETED) for _ in range(2)]
    last = await last_entry(bus, first.key)
    assert last is not None
    await put_tombstone(bus, first.key, "owner", "deleted", 600, last.sequence)
    found = await read(bus, ThreadName(of.tenant, "owner", "context", of.agent))
    assert [one.key for one in found if one.entry is None] == [first.key]
    assert keys_in([one for one in found if one.entry is not None])[-1] == second.key


async def test_a_cursor_names_what_was_read_of_a_message_in_each_event_stream(
    connect: Connect,
) -> None:
    name = f"own{secrets.token_hex(4)}"
    bus, of = await connect(event_streams=2, prefix=name, stream_prefix=name), new_thread()
    first = await log_in(bus, of, shard=0)
    second = await log_in(bus, of, shard=16)
    await second.append("one", "two", "three")
    thread = ThreadName(of.tenant, "owner", "context", of.agent)
    *_, last = await read(bus, thread)
    assert (last.key, last.stream) == (second.key, 1)
    whole = await open_thread(bus, thread)
    while await whole.read():
        pass
    within = whole.cursor(last, 1)
    await first.append("meanwhile")
    # The first stream's message is read first: the place within the second one's stays.
    log = await open_thread(bus, thread, within)
    [meanwhile] = await log.read()
    [rest] = await read(bus, thread, log.cursor(meanwhile, 0))
    assert (meanwhile.key, rest.key, rest.skip) == (first.key, second.key, 1)
