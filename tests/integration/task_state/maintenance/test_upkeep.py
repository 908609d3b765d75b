"""What task state does by itself: asks for workers again, and lets ended tasks go."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from nats.js.errors import NotFoundError

from headrace.directory import Directory, route_key
from headrace.jetstream.agent_memory import AgentMemory
from headrace.jetstream.api import store
from headrace.jetstream.errors import Refused
from headrace.jetstream.kv import Bucket
from headrace.jetstream.objects import FileOwner, FileStore
from headrace.jetstream.purge import purge
from headrace.jetstream.server_clock import ServerClock
from headrace.log import last_entry
from headrace.log.read import last_stored
from headrace.log.tombstone import put_tombstone
from headrace.model import events
from headrace.model.agent_route import AgentRoute
from headrace.model.delegation import DELEGATION
from headrace.model.errors import FileUnknown, TaskUnknown
from headrace.model.memory import MemoryScope
from headrace.model.messages import DeadLetter, GetTask, RunRequest
from headrace.model.queues import RunQueue
from headrace.model.task import (
    BARE_MESSAGE,
    CANCELED,
    COMPLETED,
    INPUT_REQUIRED,
    REJECTED,
    SUBMITTED,
    WORKING,
    TaskKey,
)
from headrace.tasks.continue_ import QueuedInput, queue_input
from headrace.tasks.dead_letters import write_letter
from headrace_task_state.maintenance import memory_upkeep
from headrace_task_state.maintenance.due import Upkeep
from headrace_task_state.maintenance.file_upkeep import FileUpkeep
from headrace_task_state.maintenance.held_tasks import HeldTasks
from headrace_task_state.maintenance.holder_check import HolderCheck
from headrace_task_state.maintenance.retention import Retention, Times
from headrace_task_state.maintenance.sweep import Sweep
from headrace_task_state.maintenance.timing import MaintenanceTiming
from headrace_task_state.store import SUMMARY, DueList, Fields, Progress, Range, Writer
from tests.support.legal_logs import LegalLog
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.task_states import OWNER, TaskStates, folded, new_key, open_task_states
from tests.support.waiting import TIMEOUT, eventually, soon

HASTY = MaintenanceTiming(
    sweep_interval=0.1, max_request_interval=0.2, orphan_interval=0.1, after_start=0.1
)


@pytest.fixture
async def hasty(nats_server: NatsProcess, valkey: ValkeyProcess) -> AsyncIterator[TaskStates]:
    """A fleet that waits and keeps for a moment only."""
    async with open_task_states(
        nats_server.url,
        valkey.url,
        HASTY,
        sweep_after=0.3,
        retention=1.0,
        tombstone_seconds=600,
    ) as opened:
        yield opened


def submitted() -> LegalLog:
    log = LegalLog(new_key())
    log.submit("hello")
    return log


async def runs(fleet: TaskStates) -> list[tuple[str, RunRequest]]:
    """Return the runs that wait, with their subjects."""
    stream = fleet.bus.streams.runs
    state = (await fleet.bus.js.stream_info(stream)).state
    found = []
    for sequence in range(max(state.first_seq, 1), state.last_seq + 1):
        with suppress(NotFoundError):  # one between them may have been taken off
            msg = await fleet.bus.js.get_msg(stream, sequence)
            found.append((msg.subject or "", RunRequest.decode("run", msg.data or b"")))
    return found


async def until_runs(fleet: TaskStates, number: int) -> list[tuple[str, RunRequest]]:
    async def there() -> bool:
        return len(await runs(fleet)) >= number

    await eventually(there, f"{number} runs wait")
    return await runs(fleet)


async def test_the_run_of_an_unstarted_input_is_requested_again(hasty: TaskStates) -> None:
    log = submitted()
    await hasty.start()
    await hasty.start()
    await hasty.store(log)
    [(subject, run)] = await until_runs(hasty, 1)
    assert hasty.bus.subjects.key_of_run(subject) == (log.key, 1)
    assert run == RunRequest(log=log.log, context=log.context, owner=OWNER)


async def test_a_follow_up_is_requested_by_its_own_run(hasty: TaskStates) -> None:
    log = submitted()
    log.begin_attempt()
    log.append([log.status(INPUT_REQUIRED)], state=INPUT_REQUIRED)
    log.submit("more")
    await hasty.start()
    await hasty.store(log)
    [(subject, _)] = await until_runs(hasty, 1)
    assert hasty.bus.subjects.key_of_run(subject) == (log.key, 4)


async def test_a_run_that_waits_already_is_not_doubled_and_one_that_is_gone_comes_again(
    hasty: TaskStates,
) -> None:
    log = submitted()
    await hasty.start()
    await hasty.store(log)
    await until_runs(hasty, 1)
    await asyncio.sleep(1)
    assert len(await runs(hasty)) == 1
    await hasty.bus.js.purge_stream(hasty.bus.streams.runs)
    await until_runs(hasty, 1)


async def test_an_input_that_was_taken_up_is_left_alone(hasty: TaskStates) -> None:
    taken, left = submitted(), submitted()
    taken.begin_attempt()
    for log in (taken, left):
        await hasty.store(log)
    await hasty.start()
    await until_runs(hasty, 1)
    await asyncio.sleep(0.5)
    [(subject, _)] = await runs(hasty)
    assert hasty.bus.subjects.key_of_run(subject) == (left.key, 1)


def ended(owner: str = OWNER) -> LegalLog:
    log = LegalLog(new_key(), owner=owner)
    log.submit("hello")
    log.begin_attempt()
    log.append([log.status(COMPLETED)], state=COMPLETED)
    return log


async def until_gone(fleet: TaskStates, log: LegalLog) -> str:
    message = ""

    async def gone() -> bool:
        nonlocal message
        try:
            await fleet.get(log.key, owner=log.owner)
        except TaskUnknown as error:
            message = str(error)
        return bool(message)

    await eventually(gone, "the task is gone")
    return message


async def stored(fleet: TaskStates, log: LegalLog) -> int:
    subject = fleet.bus.subjects.event(log.key)
    info = await fleet.bus.js.stream_info(fleet.bus.streams.events(0), subjects_filter=subject)
    return (info.state.subjects or {}).get(subject, 0)


async def until_stored(fleet: TaskStates, log: LegalLog, number: int) -> None:
    async def so_many() -> bool:
        return await stored(fleet, log) == number

    await eventually(so_many, f"{number} messages are left of the log")


async def test_an_ended_task_past_retention_is_gone_and_reports_it_to_its_owner_only(
    hasty: TaskStates,
) -> None:
    old, open_task = ended(), submitted()
    open_task.begin_attempt()
    await hasty.start()
    for log in (old, open_task):
        await hasty.store(log)
    assert "retention" in await until_gone(hasty, old)
    assert await hasty.listed() == {open_task.key.task: folded(open_task)}
    await until_stored(hasty, old, 1)  # the tombstone
    assert await stored(hasty, open_task) == len(open_task.entries)
    with pytest.raises(TaskUnknown) as raised:
        await hasty.get(old.key, owner="other")
    assert "retention" not in str(raised.value)


async def test_what_a_task_at_work_has_delegated_is_kept_until_it_is_over(
    hasty: TaskStates,
) -> None:
    parent, other = submitted(), ended()
    parent.begin_attempt()
    lineage = {"parent": parent.key.task, "agent": parent.key.agent, "path": [parent.key.agent]}
    child = child_of(**lineage)
    child.append([child.status(COMPLETED)], state=COMPLETED)
    await hasty.start()
    # The other ended later, and goes first.
    for log in (parent, child, other):
        await hasty.store(log)
    await until_gone(hasty, other)
    assert await stored(hasty, child) == len(child.entries)
    assert (await hasty.get(child.key)).state == COMPLETED
    parent.append([parent.status(COMPLETED)], state=COMPLETED)
    await hasty.store(parent)
    await until_gone(hasty, parent)
    assert "retention" in await until_gone(hasty, child)


ANNS = FileOwner("ann", "context")


async def test_the_large_files_of_an_ended_task_go_with_it_and_no_others(
    hasty: TaskStates,
) -> None:
    old, open_task, files = ended(), submitted(), FileStore(hasty.bus)
    open_task.begin_attempt()
    gone = await files.put(old.key, ANNS, b"x" * 300_000)
    kept = await files.put(open_task.key, ANNS, b"y" * 300_000)
    await hasty.start()
    for log in (old, open_task):
        await hasty.store(log)
    await until_gone(hasty, old)

    async def is_gone() -> bool:
        with suppress(FileUnknown):
            await files.read(gone, old.key.tenant, ANNS)
            return False
        return True

    async def is_erased() -> bool:
        info = await hasty.bus.js.stream_info(f"OBJ_{hasty.bus.streams.files}")
        return info.state.messages == 4

    await eventually(is_gone, "the file is gone")
    await eventually(is_erased, "what is left are three chunks and their description")
    assert await files.read(kept, open_task.key.tenant, ANNS) == b"y" * 300_000


async def test_files_without_a_task_are_deleted_once_it_can_not_begin_any_more(
    hasty: TaskStates,
) -> None:
    files, bucket = FileStore(hasty.bus), hasty.bus.streams.files
    erased, begun = new_key(), submitted()
    begun.begin_attempt()
    await hasty.store(begun)
    writer = await applied(hasty)
    kept = await files.put(begun.key, ANNS, b"y" * 300_000)
    # A worker that was frozen stores a file of a task that is deleted meanwhile.
    await put_tombstone(hasty.bus, erased, OWNER, "deleted", 600, 0)
    await files.put(erased, ANNS, b"x" * 300_000)
    # One gateway is killed before it begins the task, another one between two chunks.
    await files.put(new_key(), ANNS, b"x" * 300_000)
    unfinished = ".".join((*new_key(), "0123456789abcdef"))
    await hasty.bus.js.publish(f"$O.{bucket}.C.{unfinished}", b"x")
    # What a hostile worker stores is nobody's, and stops nothing.
    elsewhere = new_key(9_999).task
    nobodys = ["x", "default.agent.x.y", f"default.agent.{elsewhere}.y", "default.agent.x.y.z"]
    for subject in nobodys:
        await hasty.bus.js.publish(f"$O.{bucket}.C.{subject}", b"x")

    async def left() -> int:
        messages = (await hasty.bus.js.stream_info(f"OBJ_{bucket}")).state.messages
        return messages - len(nobodys)

    assert await left() == 4 + 4 + 4 + 1
    young = MaintenanceTiming(file_without_task=3600.0)
    upkeep = Upkeep(hasty.bus, writer, ServerClock(hasty.bus), young)
    await FileUpkeep(upkeep, hasty.reader.progress, kept=1.0).look()
    assert await left() == 4 + 4 + 1, "what a gateway has stored for a task to come stays"
    await hasty.redis.ask(["DEL", hasty.keys.lease(hasty.ranges[0])])
    hasty.timing = replace(HASTY, file_interval=0.1, file_without_task=0.0)
    await hasty.start()

    async def only_those_of_tasks_are_left() -> bool:
        return await left() == 4

    await eventually(only_those_of_tasks_are_left, "the files without a task are gone")
    assert await files.read(kept, begun.key.tenant, ANNS) == b"y" * 300_000


async def test_memory_goes_with_its_task_and_a_conversations_with_the_last_one(
    hasty: TaskStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_upkeep, "_PAGE", 1)
    memory, kept, old, zombie = AgentMemory(hasty.bus), submitted(), ended(), new_key()
    kept.begin_attempt()
    gone, long = "context-of-the-old", LegalLog(new_key(), context="ä" * 250)
    long.submit("hello")
    scopes = {
        "kept": memory_of(kept.key, kept.context),
        "of the kept conversation": memory_of(kept.key, kept.context)._replace(task=None),
        "of the owner": memory_of(old.key, None)._replace(task=None),
        "of a kept long context": memory_of(long.key, long.context)._replace(task=None),
        "of an old long context": memory_of(old.key, "ö" * 250)._replace(task=None),
        "old": memory_of(old.key, gone),
        "of the old conversation": memory_of(old.key, gone)._replace(task=None),
        "of a task that never was": memory_of(zombie, "another"),
    }
    hasty.timing = replace(HASTY, file_interval=0.1, file_without_task=0.0)
    await hasty.start()
    for log in (kept, long, old):
        await hasty.store(log)
    await until_gone(hasty, old)
    for scope in scopes.values():
        await memory.put(scope, "k", b"v", None)

    async def only_the_kept_are_left() -> bool:
        left = [name for name, scope in scopes.items() if await memory.get(scope, "k")]
        return left == [*scopes][:4]

    await eventually(only_the_kept_are_left, "what no task has is erased")


def memory_of(key: TaskKey, context: str | None) -> MemoryScope:
    return MemoryScope(key.tenant, key.agent, OWNER, context, key.task)


class Meanwhile:
    """Reads the progress of a view; something happens before."""

    def __init__(
        self, fleet: TaskStates, log: LegalLog | None = None, *, began: bool = True
    ) -> None:
        self._fleet, self._log, self._has_begun = fleet, log, began

    async def progress(self, place: Range) -> Progress:
        if self._log is not None:
            await self._fleet.store(self._log)
        found = await self._fleet.reader.progress(place)
        return found if self._has_begun else replace(found, began=0)


def upkeep_at_once(fleet: TaskStates, writer: Writer, reader: Meanwhile) -> FileUpkeep:
    timing = MaintenanceTiming(file_without_task=0.0)
    upkeep = Upkeep(fleet.bus, writer, ServerClock(fleet.bus), timing)
    return FileUpkeep(upkeep, reader.progress, kept=0.0)


async def test_a_task_is_left_as_it_is_whose_log_is_restored_while_its_files_are_looked_at(
    hasty: TaskStates,
) -> None:
    files, restored = FileStore(hasty.bus), ended()
    writer = await applied(hasty)
    link = await files.put(restored.key, ANNS, b"y" * 300_000)
    await upkeep_at_once(hasty, writer, Meanwhile(hasty, restored)).look()
    assert await files.read(link, restored.key.tenant, ANNS) == b"y" * 300_000
    last = await last_entry(hasty.bus, restored.key)
    assert last is not None
    assert last.stamp.state == COMPLETED


async def test_one_stream_without_a_view_keeps_no_files_of_deleted_tasks(hasty: TaskStates) -> None:
    files, first, erased = FileStore(hasty.bus), new_key(tenant="a"), new_key(tenant="b")
    writer = await applied(hasty)
    await files.put(first, ANNS, b"x")
    await put_tombstone(hasty.bus, erased, OWNER, "deleted", 600, 0)
    await files.put(erased, ANNS, b"x")
    await upkeep_at_once(hasty, writer, Meanwhile(hasty, began=False)).look()
    assert await files.newest(first) is not None
    assert await files.newest(erased) is None


async def test_a_bare_message_goes_as_well(hasty: TaskStates) -> None:
    log = submitted()
    message = {"messageId": "x", "role": "ROLE_AGENT", "parts": []}
    log.append([events.bare_message(log.context, message)], state=BARE_MESSAGE)
    await hasty.start()
    await hasty.store(log)
    await until_gone(hasty, log)
    await until_stored(hasty, log, 1)


async def test_what_is_left_of_old_tasks_makes_none_after_a_rebuild(hasty: TaskStates) -> None:
    old = ended()
    await hasty.start()
    await hasty.store(old)
    await until_gone(hasty, old)
    young = submitted()
    young.begin_attempt()
    await hasty.store(young)
    await hasty.lose_view()
    await hasty.followed()
    assert set(await hasty.listed()) == {young.key.task}
    assert await until_gone(hasty, old)
    [keys] = await hasty.redis.ask(["KEYS", f"{hasty.keys.root}*{old.key.task}*"])
    assert not [key for key in keys if b":b:" not in key]


async def test_nothing_of_a_task_that_is_gone_stays_in_the_view(hasty: TaskStates) -> None:
    log = ended()
    await hasty.start()
    await hasty.store(log)
    await until_gone(hasty, log)

    async def view_is_empty() -> bool:
        [keys] = await hasty.redis.ask(["KEYS", f"{hasty.keys.view(0)}*"])
        return not keys

    await eventually(view_is_empty, "the view is empty")


def in_(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


async def is_rejected(fleet: TaskStates, log: LegalLog) -> bool:
    last = await last_entry(fleet.bus, log.key)
    return last is not None and last.stamp.state == REJECTED


async def test_an_input_past_its_start_deadline_is_rejected_though_no_worker_lives(
    hasty: TaskStates,
) -> None:
    await hasty.start()
    await hasty.followed()
    late, early = LegalLog(new_key()), LegalLog(new_key())
    late.submit("hello", {events.START_BY: in_(5.0)})
    early.submit("hello", {events.START_BY: in_(3600)})
    for log in (late, early):
        await hasty.store(log)
    await until_runs(hasty, 2)
    await eventually(lambda: is_rejected(hasty, late), "the late one is rejected")
    last = await last_entry(hasty.bus, late.key)
    assert last is not None
    status = last.events[-1]["statusUpdate"]["status"]
    assert "no worker started the task in time" in status["message"]["parts"][0]["text"]

    async def only_the_other_waits() -> bool:
        subjects = [subject for subject, _ in await runs(hasty)]
        return [hasty.bus.subjects.key_of_run(one) for one in subjects] == [(early.key, 1)]

    await eventually(only_the_other_waits, "the run of the late one waits no more")
    assert not await is_rejected(hasty, early)


async def test_a_delayed_input_is_requested_after_its_start_and_not_before(
    hasty: TaskStates,
) -> None:
    await hasty.start()
    await hasty.followed()
    soon, later, late = (LegalLog(new_key()) for _ in range(3))
    soon.submit("hello", {events.START_AT: in_(1.0), events.START_BY: in_(60.0)})
    later.submit("hello", {events.START_AT: in_(3600)})
    late.submit("hello", {events.START_AT: in_(-1.0), events.START_BY: in_(1.0)})
    for log in (soon, later, late):
        await hasty.store(log)
    await eventually(lambda: is_rejected(hasty, late), "the one without a worker is rejected")

    async def requested() -> list[TaskKey]:
        return [hasty.bus.subjects.key_of_run(subject)[0] for subject, _ in await runs(hasty)]

    await eventually(requested, "a run is requested")
    assert await requested() == [soon.key]


async def test_a_message_to_a_delayed_task_does_not_begin_it(hasty: TaskStates) -> None:
    await hasty.start()
    await hasty.followed()
    delayed, due = LegalLog(new_key()), submitted()
    delayed.submit("hello", {events.START_AT: in_(3600)})
    await hasty.store(delayed)
    message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "more"}]}
    for name in ("first", "second"):
        last = await last_entry(hasty.bus, delayed.key)
        assert last is not None
        joining = QueuedInput(name, "context", message, None)
        await queue_input(hasty.bus, delayed.key, last, joining, 60.0)
    await hasty.store(due)

    async def requested() -> list[TaskKey]:
        return [hasty.bus.subjects.key_of_run(subject)[0] for subject, _ in await runs(hasty)]

    await eventually(requested, "a run is requested")
    assert await requested() == [due.key]


async def test_what_is_not_started_within_the_fleets_time_is_rejected(
    nats_server: NatsProcess, valkey: ValkeyProcess
) -> None:
    async with open_task_states(
        nats_server.url, valkey.url, HASTY, sweep_after=0.2, start_within=0.5
    ) as fleet:
        begun, log = submitted(), submitted()
        begun.begin_attempt()
        for each in (begun, log):
            await fleet.store(each)
        await fleet.start()
        await eventually(lambda: is_rejected(fleet, log), "it is rejected")
        assert not await is_rejected(fleet, begun)


async def test_a_run_that_is_requested_again_keeps_its_terms(hasty: TaskStates) -> None:
    log = LegalLog(new_key())
    log.submit("hello", {events.PRIORITY: "low", events.TRACEPARENT: "00-trace"})
    await hasty.start()
    await hasty.store(log)
    [(subject, run)] = await until_runs(hasty, 1)
    assert hasty.bus.subjects.priority_of_run(subject) == "low"
    assert run.traceparent == "00-trace"
    queue = RunQueue(log.key.agent, log.key.tenant, "low")
    assert await hasty.bus.js.consumer_info(hasty.bus.streams.runs, queue.consumer)
    found = await hasty.client.get(GetTask(tenant=log.key.tenant, owner=OWNER, task=log.key.task))
    assert found.traceparent == "00-trace"


async def test_a_run_that_is_requested_again_goes_to_the_version_of_its_task(
    hasty: TaskStates,
) -> None:
    logs = [LegalLog(new_key()) for _ in range(2)]
    for log, version in zip(logs, ("1", "2"), strict=True):
        log.submit("hello", {events.VERSION: version})
    route = AgentRoute(current="3").moving("2", "3")
    bucket = Bucket(hasty.bus, hasty.bus.streams.agents)
    await hasty.start()
    await bucket.put(route_key(logs[0].key.agent), route.encode(), after=0)
    for log in logs:
        await hasty.store(log)
    found = await until_runs(hasty, 2)
    assert {subject.rsplit(".", 1)[1]: run.version for subject, run in found} == {
        "1": "1",
        "3": "3",
    }
    query = GetTask(tenant=logs[0].key.tenant, owner=OWNER, task=logs[0].key.task)
    assert (await hasty.client.get(query)).version == "1"


async def applied(fleet: TaskStates) -> Writer:
    """Apply what there is, and return a writer whose lease no replica gets."""
    replica = await fleet.start()
    await fleet.listed()
    await replica.stop()
    [place] = fleet.ranges
    lease = await fleet.store_in.leases("test").acquire(place)
    assert lease is not None
    await fleet.redis.ask(["PERSIST", fleet.keys.lease(place)])
    return fleet.store_in.writer(lease)


async def sweep(
    fleet: TaskStates,
    writer: Writer,
    held: HeldTasks | None = None,
    timing: MaintenanceTiming | None = None,
) -> int:
    """Sweep once with `writer`; return how many tasks were due."""
    return await a_sweep(fleet, writer, held, timing).sweep()


def a_sweep(
    fleet: TaskStates,
    writer: Writer,
    held: HeldTasks | None = None,
    timing: MaintenanceTiming | None = None,
) -> Sweep:
    upkeep = Upkeep(fleet.bus, writer, ServerClock(fleet.bus), timing or MaintenanceTiming())
    return Sweep(upkeep, Directory(fleet.bus), 3600.0, held or HeldTasks())


async def test_one_sweep_goes_through_all_that_is_due_and_reads_each_once(
    nats_server: NatsProcess, valkey: ValkeyProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_task_states(nats_server.url, valkey.url, sweep_after=3600.0) as fleet:
        for _ in range(230):
            await fleet.store(submitted())
        writer = await applied(fleet)
        for name in await writer.due(DueList.AT_WORK, 10**15, 1000):
            await writer.defer(DueList.AT_WORK, {name: 1})
        fields, read = writer.fields, list[str]()

        async def recorded(*names: str) -> list[Fields]:
            read.extend(names)
            return await fields(*names)

        monkeypatch.setattr(writer, "fields", recorded)
        began = round(time.time() * 1000)
        assert await sweep(fleet, writer) == 230
        assert len(read) == len(set(read)) == 230
        assert len(await runs(fleet)) == 230
        # Young inputs are due again soon: maybe before a long pass is over.
        assert await writer.due(DueList.AT_WORK, began, 1) == []


async def stored_and_due(fleet: TaskStates, log: LegalLog) -> tuple[Writer, str]:
    """Store the log's entries, and have its task due in the sweep; return its name there."""
    await fleet.store(log)
    writer = await applied(fleet)
    [name] = await writer.due(DueList.AT_WORK, 10**15, 1)
    await writer.defer(DueList.AT_WORK, {name: 1})
    return writer, name


async def test_a_task_whose_end_was_seen_in_its_log_only_is_looked_at_again(
    nats_server: NatsProcess, valkey: ValkeyProcess
) -> None:
    async with open_task_states(nats_server.url, valkey.url, sweep_after=3600.0) as fleet:
        log = submitted()
        writer, name = await stored_and_due(fleet, log)
        # The end is in the log; the view has not applied it.
        log.append([log.status(REJECTED)], state=REJECTED)
        await fleet.store(log, first=1)
        assert await sweep(fleet, writer) == 1
        # The log is restored from before its end.
        stream = fleet.bus.streams.events(0)
        end = (await fleet.bus.js.stream_info(stream)).state.last_seq
        await fleet.bus.js.delete_msg(stream, end)
        await writer.defer(DueList.AT_WORK, {name: 1})
        assert await sweep(fleet, writer) == 1
        assert len(await runs(fleet)) == 1


class StubHolder:
    """A worker that has answered its last question, until told otherwise."""

    answers = True


async def test_a_silent_task_that_its_worker_lists_costs_no_request(
    nats_server: NatsProcess, valkey: ValkeyProcess
) -> None:
    timing = MaintenanceTiming(silence=0.0)
    async with open_task_states(nats_server.url, valkey.url, sweep_after=3600.0) as fleet:
        log = submitted()
        log.begin_attempt()
        await fleet.store(log)
        writer = await applied(fleet)
        [name] = await writer.due(DueList.AT_WORK, 10**15, 1)
        held, holder, control = HeldTasks(), StubHolder(), fleet.bus.subjects.control(log.key)
        held.record(control, holder)
        requests = list[str]()
        for subject in (control, "$JS.API.STREAM.MSG.GET.>"):
            await fleet.bus.listen(subject, lambda msg: requests.append(msg.subject))
        await writer.defer(DueList.AT_WORK, {name: 1})
        assert await sweep(fleet, writer, held, timing) == 1
        await holder_check(fleet, writer, held).look()
        await fleet.bus.connection.flush()
        assert (requests, await runs(fleet)) == ([], [])
        # The next question was not answered: the task is asked for itself, and nobody holds it.
        holder.answers = False
        await writer.defer(DueList.AT_WORK, {name: 1})
        assert await sweep(fleet, writer, held, timing) == 1
        [(subject, _)] = await runs(fleet)
        assert fleet.bus.subjects.key_of_run(subject) == (log.key, 1)
        requests.clear()
        await holder_check(fleet, writer, held).look()
        assert control in requests


def holder_check(fleet: TaskStates, writer: Writer, held: HeldTasks) -> HolderCheck:
    """Return a check as of a replica that has just taken the range."""
    timing = MaintenanceTiming(holder_pause=0.0)
    upkeep = Upkeep(fleet.bus, writer, ServerClock(fleet.bus), timing)
    return HolderCheck(upkeep, Directory(fleet.bus), a_sweep(fleet, writer, held))


async def test_an_input_whose_task_is_held_for_an_earlier_run_is_requested(
    nats_server: NatsProcess, valkey: ValkeyProcess
) -> None:
    async with open_task_states(nats_server.url, valkey.url, sweep_after=3600.0) as fleet:
        log = submitted()
        writer, _ = await stored_and_due(fleet, log)
        held = HeldTasks()
        held.record(fleet.bus.subjects.control(log.key), StubHolder())
        assert await sweep(fleet, writer, held) == 1
        assert len(await runs(fleet)) == 1


def queued_input() -> LegalLog:
    """Return a log that waits, but for no run that it names."""
    log = LegalLog(new_key())
    log.append([log.status(SUBMITTED, metadata={events.QUEUED: "x"})], state=SUBMITTED)
    return log


def child_of(**lineage: object) -> LegalLog:
    log = LegalLog(new_key())
    given = {"parent": new_key().task, "agent": "a", "run": 1, "name": "n", "path": []} | lineage
    log.submit("hello", {DELEGATION: given})
    log.begin_attempt()
    return log


async def test_logs_that_upkeep_can_not_work_on_are_letters_and_stop_nothing(
    hasty: TaskStates,
) -> None:
    nameless = queued_input()
    await hasty.start()
    await hasty.store(nameless)
    for bad in (
        child_of(parent="no task", agent="*.>"),
        child_of(run=1e300),
        child_of(run="1e3", path="x"),
    ):
        await hasty.store(bad)
    await hasty.followed()
    # By now it has been looked at a few times.
    await eventually(lambda: is_a_letter(hasty, nameless), "it is a dead letter")
    old, waiting = ended(), submitted()
    token = await hasty.redis.ask(["GET", hasty.keys.lease(hasty.ranges[0])])
    for log in (old, waiting):
        await hasty.store(log)
    [(subject, _)] = await until_runs(hasty, 1)
    assert hasty.bus.subjects.key_of_run(subject) == (waiting.key, 1)
    assert "retention" in await until_gone(hasty, old)
    assert await hasty.redis.ask(["GET", hasty.keys.lease(hasty.ranges[0])]) == token
    assert len(await letters_of(hasty, nameless)) == 1


async def letters_of(fleet: TaskStates, log: LegalLog) -> list[DeadLetter]:
    stream = fleet.bus.streams.dead
    state = (await fleet.bus.js.stream_info(stream)).state
    found = [
        DeadLetter.decode("", (await fleet.bus.js.get_msg(stream, sequence)).data or b"")
        for sequence in range(max(state.first_seq, 1), state.last_seq + 1)
    ]
    return [letter for letter in found if letter.task == log.key.task]


async def is_a_letter(fleet: TaskStates, log: LegalLog) -> bool:
    return bool(await letters_of(fleet, log))


def waiting() -> LegalLog:
    log = LegalLog(new_key())
    log.submit("hello")
    log.begin_attempt()
    log.append([log.status(INPUT_REQUIRED)], state=INPUT_REQUIRED)
    return log


async def test_a_task_that_waits_for_its_user_in_vain_ends_and_goes(
    nats_server: NatsProcess, valkey: ValkeyProcess
) -> None:
    async with open_task_states(
        nats_server.url, valkey.url, waiting_retention=0.5, tombstone_seconds=1
    ) as fleet:
        log = waiting()
        await fleet.start()
        await fleet.store(log)

        async def is_canceled() -> bool:
            last = await last_entry(fleet.bus, log.key)
            return last is not None and last.stamp.state == CANCELED

        await eventually(is_canceled, "it is canceled")
        status = (await fleet.get(log.key)).task["status"]
        assert "no user input arrived in time" in status["message"]["parts"][0]["text"]


async def fill(fleet: TaskStates, make: Callable[[], LegalLog]) -> list[TaskKey]:
    """Fill the event stream with tasks; return those that fit whole."""
    bus, tasks = fleet.bus, list[TaskKey]()
    with suppress(Refused):
        while True:
            log = make()
            for stamp, body in log.entries:
                await store(bus, bus.subjects.event(log.key), body, TIMEOUT, stamp.headers())
            tasks.append(log.key)
    with suppress(Refused):
        while True:  # What room is left is too small for an end.
            await store(bus, bus.subjects.event(new_key()), b"", TIMEOUT)
    return tasks


@pytest.mark.parametrize("make", [waiting, submitted])
async def test_tasks_that_wait_in_vain_leave_a_full_stream(
    nats_server: NatsProcess, valkey: ValkeyProcess, make: Callable[[], LegalLog]
) -> None:
    limits = {"waiting_retention": 1.0, "start_within": 1.0, "tombstone_seconds": 1}
    async with open_task_states(
        nats_server.url, valkey.url, HASTY, events_max_bytes=32 * 1024, sweep_after=0.3, **limits
    ) as fleet:
        keys = await fill(fleet, make)
        assert len(keys) > 5
        await fleet.start()

        async def are_over() -> bool:
            last = [await last_entry(fleet.bus, key) for key in keys]
            return None in last and all(one is None or one.ends_task for one in last)

        await eventually(are_over, "some are deleted, so that there is room for others' ends")


async def test_a_task_that_was_answered_does_not_expire(
    nats_server: NatsProcess, valkey: ValkeyProcess
) -> None:
    async with open_task_states(nats_server.url, valkey.url, waiting_retention=0.5) as fleet:
        answered, forgotten = waiting(), waiting()
        answered.submit("my answer")
        answered.begin_attempt()
        for log in (answered, forgotten):
            await fleet.store(log)
        await fleet.start()

        async def is_canceled() -> bool:
            last = await last_entry(fleet.bus, forgotten.key)
            return last is not None and last.stamp.state == CANCELED

        await eventually(is_canceled, "the other one is canceled")
        last = await last_entry(fleet.bus, answered.key)
        assert last is not None
        assert last.stamp.state == WORKING


async def test_a_tombstone_whose_writer_died_is_finished_after_a_rebuild(
    hasty: TaskStates,
) -> None:
    log = ended()
    await hasty.store(log)
    files = FileStore(hasty.bus)
    await files.put(log.key, ANNS, b"x" * 300_000)
    await put_tombstone(hasty.bus, log.key, OWNER, "deleted", 600, 0)
    assert await stored(hasty, log) == len(log.entries) + 1
    await hasty.start()
    await until_stored(hasty, log, 1)
    info = await hasty.bus.js.stream_info(f"OBJ_{hasty.bus.streams.files}")
    assert info.state.messages == 0
    assert "deleted" in await until_gone(hasty, log)


class AheadClock(ServerClock):
    """NATS' time, and `ahead` seconds more."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


class NoWebhooks:
    """Stands for the webhooks of tasks that have none."""

    async def has_unsent(self, key: TaskKey) -> bool:  # noqa: ARG002
        return False

    async def forget(self, key: TaskKey) -> None:
        """Do nothing."""


async def not_summarized(key: TaskKey, task: Fields) -> None:
    raise AssertionError(f"{key} has no summary: {task}")


async def test_a_dead_letter_that_is_written_just_after_its_task_was_deleted_goes_too(
    nats_server: NatsProcess, valkey: ValkeyProcess
) -> None:
    async with open_task_states(nats_server.url, valkey.url, sweep_after=3600.0) as fleet:
        log = ended()
        await fleet.store(log)
        await put_tombstone(fleet.bus, log.key, OWNER, "deleted", 86_400, 0)
        writer, clock = await applied(fleet), AheadClock(fleet.bus)
        times = Times(ended=3600.0, waiting=3600.0, tombstone=600.0, late=100.0)
        upkeep = Upkeep(fleet.bus, writer, clock, MaintenanceTiming())
        retention = Retention(upkeep, times, NoWebhooks(), not_summarized)
        for name in await writer.due(DueList.TOMBSTONES, 10**15, 1):
            await writer.defer(DueList.TOMBSTONES, {name: 1})
        await retention.look()
        assert await stored(fleet, log) == 1
        subject = fleet.bus.subjects.event(log.key)
        at = datetime.now(UTC).isoformat()
        letter = DeadLetter(reason="late", subject=subject, task=log.key.task, at=at)
        await write_letter(fleet.bus, letter)
        await retention.look()
        assert await is_a_letter(fleet, log)  # It is due again, but not yet.
        clock.ahead = 200.0
        await retention.look()
        assert not await is_a_letter(fleet, log)
        assert await writer.due(DueList.TOMBSTONES, 10**15, 1) == []


async def test_an_expired_summary_is_completed_and_deleted_in_one_pass(
    nats_server: NatsProcess, valkey: ValkeyProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_task_states(nats_server.url, valkey.url, sweep_after=3600.0) as fleet:
        log = ended()
        await fleet.store(log)
        writer, clock, completed = await applied(fleet), AheadClock(fleet.bus), list[TaskKey]()
        read = writer.fields

        async def fields(*names: str) -> list[Fields]:
            summary = {} if completed else {SUMMARY: "1"}
            return [{**task, **summary} for task in await read(*names)]

        async def complete(key: TaskKey, task: Fields) -> None:
            assert SUMMARY in task
            completed.append(key)

        monkeypatch.setattr(writer, "fields", fields)
        times = Times(ended=10.0, waiting=3600.0, tombstone=600.0)
        upkeep = Upkeep(fleet.bus, writer, clock, MaintenanceTiming())
        retention = Retention(upkeep, times, NoWebhooks(), complete)
        clock.ahead = 60.0
        await retention.look()
        assert completed == [log.key]
        last = await last_stored(fleet.bus, log.key)
        assert last is not None
        assert last.is_tombstone


class LastWebhooks(NoWebhooks):
    """Webhooks of a task, whose deletion notes how many messages its log has then."""

    def __init__(self, fleet: TaskStates, log: LegalLog) -> None:
        self._fleet, self._log = fleet, log
        self.left = list[int]()

    async def forget(self, key: TaskKey) -> None:
        assert key == self._log.key
        self.left.append(await stored(self._fleet, self._log))


async def test_webhooks_are_deleted_once_there_is_no_log_that_they_could_send(
    nats_server: NatsProcess, valkey: ValkeyProcess
) -> None:
    async with open_task_states(nats_server.url, valkey.url, sweep_after=3600.0) as fleet:
        log = ended()
        await fleet.store(log)
        await put_tombstone(fleet.bus, log.key, OWNER, "deleted", 86_400, 0)
        writer, webhooks = await applied(fleet), LastWebhooks(fleet, log)
        for name in await writer.due(DueList.TOMBSTONES, 10**15, 1):
            await writer.defer(DueList.TOMBSTONES, {name: 1})
        # As if the tombstone had expired before anybody purged the log.
        await fleet.store(log)
        times = Times(ended=3600.0, waiting=3600.0, tombstone=600.0)
        upkeep = Upkeep(fleet.bus, writer, ServerClock(fleet.bus), MaintenanceTiming())
        retention = Retention(upkeep, times, webhooks, not_summarized)
        await retention.look()
        assert webhooks.left == [1]


async def test_webhooks_of_a_new_task_in_the_place_of_an_erased_one_stay(
    nats_server: NatsProcess, valkey: ValkeyProcess
) -> None:
    async with open_task_states(nats_server.url, valkey.url, sweep_after=3600.0) as fleet:
        log = ended()
        await fleet.store(log)
        await put_tombstone(fleet.bus, log.key, OWNER, "deleted", 86_400, 0)
        writer, webhooks = await applied(fleet), LastWebhooks(fleet, log)
        # As if the tombstone had expired before anybody cleared the task away.
        stream = fleet.bus.streams.of_shard(log.key.shard)
        await purge(fleet.bus, stream, fleet.bus.subjects.event(log.key))
        new = LegalLog(log.key)
        new.submit("hello")
        await fleet.store(new)
        for name in await writer.due(DueList.TOMBSTONES, 10**15, 1):
            await writer.defer(DueList.TOMBSTONES, {name: 1})
        times = Times(ended=3600.0, waiting=3600.0, tombstone=600.0)
        upkeep = Upkeep(fleet.bus, writer, ServerClock(fleet.bus), MaintenanceTiming())
        retention = Retention(upkeep, times, webhooks, not_summarized)
        await retention.look()
        assert webhooks.left == []
        assert await writer.due(DueList.TOMBSTONES, 10**15, 1) == []


@pytest.mark.parametrize("ahead", [86_400.0, -86_400.0])
async def test_a_clock_that_is_wrong_ends_nothing_early_and_is_reported(
    nats_server: NatsProcess,
    valkey: ValkeyProcess,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    ahead: float,
) -> None:
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + ahead)
    async with open_task_states(
        nats_server.url,
        valkey.url,
        HASTY,
        sweep_after=0.2,
        start_within=3600.0,
        retention=3600.0,
    ) as fleet:
        waiting, old = submitted(), ended()
        for log in (waiting, old):
            await fleet.store(log)
        replica = await fleet.start()
        # It is due, and the hour within which it must begin is not over.
        [(subject, _)] = await until_runs(fleet, 1)
        assert fleet.bus.subjects.key_of_run(subject) == (waiting.key, 1)
        assert not await is_rejected(fleet, waiting)
        assert (await fleet.get(old.key)).task == folded(old)
        for received in ("clocks are not synchronized: ", "NATS is ", "Redis is "):
            await soon(lambda words=received: words in replica.note, f"{received!r} is told")  # type: ignore[misc]
        await soon(lambda: "clocks are not synchronized" in caplog.text, "it is logged")
