"""A lost view is built from the last entry of each log, and completed from the logs afterwards."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.log import last_entry
from headrace.model.delegation import DELEGATION, Lineage
from headrace.model.errors import StateUnavailable
from headrace.model.task import CANCELED, COMPLETED, INPUT_REQUIRED, WORKING, TaskKey
from headrace.tasks.end import end_task
from headrace_task_state.maintenance.summary_completion import SummaryCompletion
from headrace_task_state.maintenance.timing import MaintenanceTiming
from headrace_task_state.projector import last_entries
from headrace_task_state.projector.batches import StoreBatch
from headrace_task_state.projector.consumer import Arrival
from headrace_task_state.projector.last_entries import LastEntries
from headrace_task_state.projector.summaries import Summaries
from headrace_task_state.store import Progress
from headrace_task_state.store_redis.encoding import fields_of
from tests.integration.task_state.projector.test_rebuild import pages
from tests.support.legal_logs import LegalLog, legal_logs
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.task_states import TaskStates, folded, new_key, open_task_states
from tests.support.waiting import TIMEOUT, eventually

HALF_A_BATCH = "x" * (last_entries.MOST_BYTES * 6 // 10)
HASTY = MaintenanceTiming(summary_interval=0.05)


@pytest.fixture
async def fleet(nats_server: NatsProcess, valkey: ValkeyProcess) -> AsyncIterator[TaskStates]:
    async with open_task_states(nats_server.url, valkey.url, HASTY) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_entries, "LEAST_MESSAGES", 0)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Holds up completion until it is set."""
    opened, progress = asyncio.Event(), SummaryCompletion.look

    async def look(self: SummaryCompletion) -> int:
        await opened.wait()
        return await progress(self)

    monkeypatch.setattr(SummaryCompletion, "look", look)
    return opened


def ended(key: TaskKey | None = None, state: str = COMPLETED, **about: str) -> LegalLog:
    log = LegalLog(key or new_key())
    for name, value in about.items():
        setattr(log, name, value)
    log.submit("hello")
    log.begin_attempt()
    log.append([log.chunk("a", "some "), log.chunk("a", "text")], state=WORKING)
    log.append([log.status(state)], state=state)
    return log


async def summaries(fleet: TaskStates, logs: list[LegalLog]) -> set[str]:
    """Return which tasks there are summaries of."""
    stored = [await fleet.reader.task(log.key.tenant, log.key.task) for log in logs]
    return {one.task for one in stored if one is not None and one.is_summary}


async def until_complete(fleet: TaskStates, logs: list[LegalLog]) -> None:
    async def is_complete() -> bool:
        return not await summaries(fleet, logs)

    await eventually(is_complete, "every task is complete")


async def view(fleet: TaskStates) -> dict[bytes, object]:
    """Return all that the view in use holds but histories, which are compared as they fold.

    Owners are numbered as they come, so their numbers are replaced by their names.
    """
    redis, found = fleet.redis._redis, dict[bytes, object]()
    root = fleet.keys.view(int(await redis.get(fleet.keys.projection_number) or 0))
    numbers = await redis.hgetall(f"{root}u:default")
    owners: dict[bytes, object] = {
        int(number).to_bytes(4): owner for owner, number in numbers.items() if owner
    }
    async for key in redis.scan_iter(f"{root}*"):
        match await redis.type(key):
            case b"hash" if key.startswith(f"{root}u:".encode()):
                found[key] = set(owners.values())
            case b"zset" if key.startswith(f"{root}c:".encode()):
                [listed] = await fleet.redis.ask(["ZRANGE", key, 0, -1])
                found[key] = {(owners[one[:4]], one[4:]) for one in listed}
            case b"string":
                [text] = await fleet.redis.ask(["GET", key])
                found[key] = fields_of(text)
            case b"hash":
                found[key] = await redis.hgetall(key)
            case b"zset":
                # When a parent is looked at counts from when the view was built.
                begins_child = key.startswith(f"{root}d:".encode())
                members = await redis.zrange(key, 0, -1, withscores=True)
                found[key] = [one[0] for one in members] if begins_child else members
            case b"set":
                found[key] = await redis.smembers(key)
    return found


def asking(parent: LegalLog, number: int) -> dict[str, object]:
    """Return the metadata by which a log says that `parent` has asked for it."""
    lineage = Lineage(
        parent=parent.key.task,
        agent=parent.key.agent,
        run=1,
        name=f"child-{number}",
        path=("agent",),
    )
    return {DELEGATION: lineage.to_json()}


@settings(
    deadline=None,
    max_examples=2,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
async def test_a_view_built_from_last_entries_becomes_the_one_that_was(
    nats_server: NatsProcess, valkey: ValkeyProcess, gate: asyncio.Event, data: st.DataObject
) -> None:
    gate.clear()
    # No sweep: it requests what waits for long again, and moves when that is due.
    timing = replace(HASTY, sweep_interval=3600)
    async with open_task_states(nats_server.url, valkey.url, timing) as fleet:
        logs = [ended(new_key(n), context=f"context {n % 3}") for n in range(12)]
        for number in range(8):
            log = data.draw(legal_logs(new_key(number)))
            log.owner = log.messages[0][0].owner or ""
            logs.append(log)
        await fleet.start()
        # Up to here the log is empty: the view is built from every entry.
        await fleet.followed()
        await asyncio.gather(*(fleet.store(log) for log in logs))
        listed, was = await pages(fleet), await view(fleet)
        assert not await summaries(fleet, logs)
        await fleet.lose_view()
        await fleet.followed()
        assert await pages(fleet) == listed
        assert len(await summaries(fleet, logs)) >= 12
        for log in logs:
            assert (await fleet.get(log.key)).task == folded(log)
        gate.set()
        await until_complete(fleet, logs)
        assert await view(fleet) == was
        assert await pages(fleet) == listed
        for log in logs:
            assert (await fleet.get(log.key)).task == folded(log)


async def rebuilt(fleet: TaskStates, logs: list[LegalLog]) -> None:
    """Store logs where no task state is, and have a view built of them."""
    for log in logs:
        await fleet.store(log)
    await fleet.start()
    await fleet.followed()


async def test_one_message_of_each_idle_log_is_read_before_lists_work_again(
    fleet: TaskStates, gate: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes a rebuild several times as fast as reading all, on any machine."""
    read, build = list[str](), Summaries.build

    async def counted(self: Summaries, arrivals: Sequence[Arrival], at: Progress) -> StoreBatch:
        read.extend(arrival.msg.subject for arrival in arrivals)
        return await build(self, arrivals, at)

    monkeypatch.setattr(Summaries, "build", counted)
    logs = [ended() for _ in range(12)]
    await rebuilt(fleet, logs)

    async def are_listed() -> bool:
        return await summaries(fleet, logs) == {log.key.task for log in logs}

    await eventually(are_listed, "lists have every task")
    assert not gate.is_set()
    assert sorted(read) == sorted(fleet.bus.subjects.event(log.key) for log in logs)
    assert 3 * len(read) < sum(len(log.messages) for log in logs)


async def test_an_end_without_the_holder_names_the_owner_of_the_task(fleet: TaskStates) -> None:
    canceled = ended()
    canceled.messages.pop()
    await fleet.store(canceled)
    await end_task(fleet.bus, canceled.key, CANCELED, "gateway-1")
    last = await last_entry(fleet.bus, canceled.key)
    assert last is not None
    assert (last.stamp.state, last.stamp.owner) == (CANCELED, canceled.owner)


async def test_a_last_entry_does_not_give_a_task_to_another_owner(
    fleet: TaskStates, gate: asyncio.Event
) -> None:
    forged = ended()
    stamp, drafts = forged.messages[-1]
    forged.messages[-1] = (stamp._replace(owner="other"), drafts)
    await rebuilt(fleet, [forged, ended()])
    with pytest.raises(StateUnavailable):
        await fleet.list_now(owner="other")
    gate.set()
    assert (await fleet.list(owner="other")).total_size == 0
    assert (await fleet.listed())[forged.key.task] == folded(forged)


async def test_a_log_that_has_lost_its_beginning_is_on_no_list(
    fleet: TaskStates, gate: asyncio.Event
) -> None:
    trimmed, whole = ended(), ended()
    await fleet.store(trimmed, 1)
    await fleet.store(whole)
    await rebuilt(fleet, [ended()])
    with pytest.raises(StateUnavailable):
        await fleet.list_now()
    gate.set()
    listed = await fleet.listed()
    assert len(listed) == 2
    assert trimmed.key.task not in listed


@pytest.mark.parametrize("comes_first", [True, False])
async def test_the_log_that_began_first_is_the_tasks_wherever_last_entries_lie(
    fleet: TaskStates, gate: asyncio.Event, *, comes_first: bool
) -> None:
    victim = ended()
    forged = ended(victim.key._replace(agent="hostile"), log="forged00")
    first, *rest = victim.entries
    await fleet.bus.js.publish(
        fleet.bus.subjects.event(victim.key), first[1], timeout=TIMEOUT, headers=first[0].headers()
    )
    assert rest
    if not comes_first:
        await fleet.store(victim, 1)
    await fleet.store(forged)
    if comes_first:
        await fleet.store(victim, 1)
    await rebuilt(fleet, [ended()])
    assert (await fleet.listed(agents=[victim.key.agent]))[victim.key.task] == folded(victim)
    assert await fleet.listed(agents=["hostile"]) == {}
    gate.set()
    await until_complete(fleet, [victim])
    assert (await fleet.listed(agents=[victim.key.agent]))[victim.key.task] == folded(victim)


async def test_entries_of_older_versions_are_read_whole(
    fleet: TaskStates, gate: asyncio.Event
) -> None:
    new = [ended() for _ in range(6)]
    old = [LegalLog(new_key(), tells_owner=False) for _ in range(3)]
    for log in old:
        log.submit("hello")
        log.begin_attempt()
        log.append([log.status(CANCELED)], state=CANCELED)
    await rebuilt(fleet, new + old)
    assert await fleet.listed() == {log.key.task: folded(log) for log in new + old}
    assert await summaries(fleet, new + old) == {log.key.task for log in new}
    gate.set()


async def test_a_fleet_of_older_entries_is_read_message_by_message(
    fleet: TaskStates, gate: asyncio.Event, caplog: pytest.LogCaptureFixture
) -> None:
    old = [LegalLog(new_key(), tells_owner=False) for _ in range(6)]
    for log in old:
        log.submit("hello")
        log.begin_attempt()
        log.append([log.status(COMPLETED)], state=COMPLETED)
    caplog.set_level("INFO")
    await rebuilt(fleet, [*old, ended()])
    assert len(await fleet.listed()) == len(old) + 1
    assert not await summaries(fleet, old)
    assert "following from sequence 0" in caplog.text
    gate.set()


async def test_a_task_goes_on_before_it_is_complete(fleet: TaskStates, gate: asyncio.Event) -> None:
    waiting, others = ended(state=INPUT_REQUIRED), [ended() for _ in range(3)]
    await rebuilt(fleet, [waiting, *others])
    assert waiting.key.task in await fleet.listed(states=[INPUT_REQUIRED])
    stored = len(waiting.entries)
    waiting.submit("more")
    waiting.begin_attempt()
    waiting.append([waiting.chunk("b", "and "), waiting.chunk("b", "on")], state=WORKING)
    await fleet.store(waiting, stored)
    assert (await fleet.listed(states=[WORKING]))[waiting.key.task] == folded(waiting)
    assert await fleet.listed(states=[INPUT_REQUIRED]) == {}
    gate.set()
    await until_complete(fleet, [waiting])
    stored = len(waiting.entries)
    waiting.append([waiting.chunk("b", " and on")], state=WORKING)
    waiting.append([waiting.status(COMPLETED)], state=COMPLETED)
    await fleet.store(waiting, stored)
    assert (await fleet.listed())[waiting.key.task] == folded(waiting)
    assert (await fleet.get(waiting.key)).task == folded(waiting)


async def test_unreadable_messages_get_their_dead_letters_after_a_loss(
    fleet: TaskStates, gate: asyncio.Event
) -> None:
    early, late = ended(), ended()
    for log, first in ((early, 1), (late, len(late.entries))):
        whole, log.messages = log.messages, log.messages[:first]
        await fleet.store(log)
        await fleet.bus.js.publish(fleet.bus.subjects.event(log.key), b"?", timeout=TIMEOUT)
        log.messages = whole
        await fleet.store(log, first)
    await rebuilt(fleet, [ended(), ended()])
    listed = await fleet.listed()
    assert (listed[early.key.task], listed[late.key.task]) == (folded(early), folded(late))
    gate.set()

    async def has_letters() -> bool:
        info = await fleet.bus.js.stream_info(fleet.bus.streams.dead)
        return info.state.messages == 2

    await eventually(has_letters, "each is a dead letter")


async def test_a_child_that_waits_is_looked_after_once_it_is_complete(
    fleet: TaskStates, gate: asyncio.Event
) -> None:
    parent, child = ended(), LegalLog(new_key())
    child.submit("hello", asking(parent, 1))
    child.begin_attempt()
    child.append([child.status(INPUT_REQUIRED)], state=INPUT_REQUIRED)
    await rebuilt(fleet, [parent, child])
    assert (await fleet.listed(states=[INPUT_REQUIRED])).keys() == {child.key.task}
    gate.set()
    await until_complete(fleet, [child])
    [names] = await fleet.redis.ask(["ZRANGE", f"{fleet.keys.view(0)}d:0", 0, -1])
    assert names == [f"{child.key.tenant}:{child.key.task}".encode()]


@asynccontextmanager
async def held(monkeypatch: pytest.MonkeyPatch, after: int) -> AsyncIterator[Callable[[], bool]]:
    """Hold a rebuild after so many batches; yields whether it is held."""
    build, built, opened = Summaries.build, 0, asyncio.Event()

    async def build_or_wait(self: Summaries, *given: object) -> object:
        nonlocal built
        built += 1
        if built > after:
            await opened.wait()
        return await build(self, *given)  # type: ignore[arg-type]  # as they were given

    monkeypatch.setattr(Summaries, "build", build_or_wait)
    try:
        yield lambda: built > after
    finally:
        opened.set()


async def test_who_takes_over_in_the_middle_of_a_rebuild_begins_it_again(
    fleet: TaskStates, gate: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_entries, "MOST", 2)
    gate.set()
    logs = [ended(new_key(n % 16)) for n in range(20)]
    waiting = ended(state=INPUT_REQUIRED)
    async with held(monkeypatch, 3) as is_held:
        await rebuilt(fleet, [waiting, *logs])
        await eventually(lambda: asyncio.sleep(0, is_held()), "the rebuild is held")
        [place] = fleet.ranges
        assert await fleet.reader.positions([place]) == [0]
        assert await summaries(fleet, [waiting, *logs])
        stored = len(waiting.entries)
        waiting.submit("more")
        await fleet.store(waiting, stored)
        # As a crash does: the lease lapses, and who held it can't write any more.
        await fleet.redis.ask(["DEL", fleet.keys.lease(place)])
    logs.append(waiting)
    assert await fleet.listed() == {log.key.task: folded(log) for log in logs}
    await until_complete(fleet, logs)
    assert await fleet.listed() == {log.key.task: folded(log) for log in logs}


async def test_what_is_past_its_retention_leaves_a_view_of_summaries(
    nats_server: NatsProcess, valkey: ValkeyProcess, gate: asyncio.Event
) -> None:
    opened = open_task_states(nats_server.url, valkey.url, HASTY, retention=0.5)
    async with opened as fleet:
        parent, logs = LegalLog(new_key()), [ended() for _ in range(5)]
        parent.submit("hello")
        parent.begin_attempt()
        child = LegalLog(new_key())
        child.submit("hello", asking(parent, 1))
        child.begin_attempt()
        child.append([child.status(COMPLETED)], state=COMPLETED)
        await rebuilt(fleet, [parent, child, *logs])

        async def are_gone() -> bool:
            return (await fleet.listed()).keys() == {parent.key.task, child.key.task}

        await eventually(are_gone, "what nobody needs has left")
        assert orjson.dumps(folded(child)) == orjson.dumps((await fleet.get(child.key)).task)
        gate.set()


async def test_a_log_that_goes_on_while_last_entries_are_read_is_among_them(
    fleet: TaskStates,
) -> None:
    """Its last entry lies beyond the end of the stream as it was, and its beginning does not."""
    continued, last = LegalLog(new_key()), LegalLog(new_key())
    for log, text in ((continued, "hello"), (last, HALF_A_BATCH)):
        log.submit(text)
        await fleet.store(log)
    entries = LastEntries(fleet.bus, fleet.ranges[0], "last-entries")
    await entries.open()
    continued.begin_attempt()
    continued.append([continued.chunk("a", HALF_A_BATCH)], state=WORKING)
    await fleet.store(continued, 1)
    read = {arrival.msg.subject async for batch in entries.batches() for arrival in batch}
    await entries.close()
    assert read == {fleet.bus.subjects.event(log.key) for log in (continued, last)}


async def test_few_messages_are_all_read(
    fleet: TaskStates, gate: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_entries, "LEAST_MESSAGES", 1000)
    gate.clear()
    logs = [ended() for _ in range(3)]
    await rebuilt(fleet, logs)
    assert not await summaries(fleet, logs)
    assert len(await pages(fleet)) > 0
