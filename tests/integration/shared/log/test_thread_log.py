"""All logs of a thread, read as one: those of its owner, and what becomes of erased ones."""

from headrace.jetstream.connection import Bus
from headrace.log.read import last_entry
from headrace.log.thread_log import ThreadEntry, ThreadName, open_thread
from headrace.log.tombstone import put_tombstone
from headrace.model.task import COMPLETED, WORKING, TaskKey, thread_token
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
