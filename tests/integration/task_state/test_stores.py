"""Both stores keep what they promise: what is read is the fold of the log, however it came in."""

import random
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import batched, product
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nats.aio.msg import Msg

from headrace.log.read import TOMBSTONE
from headrace.model import events, parts
from headrace.model.delegation import DELEGATION, Lineage
from headrace.model.entry import OWNER
from headrace.model.errors import StateUnavailable
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.fork import FORK_OF, ForkOf
from headrace.model.messages import ListTasks
from headrace.model.subjects import Subjects
from headrace.model.task import (
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    REJECTED,
    TERMINAL,
    WORKING,
    TaskKey,
)
from headrace_task_state.projector.batches import Batches
from headrace_task_state.projector.consumer import Arrival
from headrace_task_state.projector.summaries import summary_of
from headrace_task_state.queries.get import read_found
from headrace_task_state.store import (
    SUMMARY,
    After,
    DueList,
    Ignored,
    Lease,
    LeaseLost,
    PositionMoved,
    Progress,
    Store,
    StoredPage,
    TaskChange,
    TaskRemoval,
    Writer,
    all_ranges,
)
from headrace_task_state.store_memory import MemoryStore
from headrace_task_state.store_redis.connection import Argument, Connection
from headrace_task_state.store_redis.settings import RedisSettings
from headrace_task_state.store_redis.store import Keys, RedisReader, RedisStore
from tests.support.legal_logs import LegalLog, legal_logs
from tests.support.servers import ValkeyProcess
from tests.support.task_states import folded, new_key

RANGES = all_ranges(1)
SUBJECTS = Subjects()

type Making = Callable[[], Store]


class StoredRange:
    """One range of a new store, written without NATS."""

    def __init__(self, store: Store) -> None:
        self.store, self.reader = store, store.reader
        self.leases = store.leases("replica")
        self.progress = Progress()

    async def writer(self) -> Writer:
        """Take the lease anew."""
        lease = await self.leases.acquire(RANGES[0])
        assert lease is not None
        return self.store.writer(lease)

    async def apply(self, writer: Writer, batches: Batches, arrivals: list[Arrival]) -> None:
        """Write one batch."""
        batch = batches.build(arrivals, self.progress)
        assert batch.letters == []
        await writer.apply(self.progress, batch.then, batch.changes)
        self.progress = batch.then


@pytest.fixture(params=["memory", "redis"])
def making(request: pytest.FixtureRequest) -> Making:
    """What makes new stores of each kind."""
    if request.param == "memory":
        return lambda: MemoryStore(RANGES)
    return making_redis(request.getfixturevalue("valkey").url)


async def test_redis_reports_its_memory_and_its_limit(valkey: ValkeyProcess) -> None:
    store = making_redis(valkey.url)()
    try:
        memory = await store.memory()
    finally:
        await store.close()
    assert memory.used > 0
    assert memory.limit >= 0


def making_redis(url: str) -> Callable[[], RedisStore]:
    settings = RedisSettings.model_validate({"redis_url": url})
    # Thousands of changes at once take a loaded machine longer than a service waits for an answer.
    return lambda: RedisStore(
        settings, Keys.of(secrets.token_hex(4), ""), RANGES, answer_timeout=60.0
    )


@pytest.fixture
async def stored_range(making: Making) -> AsyncIterator[StoredRange]:
    opened = StoredRange(making())
    yield opened
    await opened.store.close()


def arrivals(logs: list[LegalLog], shuffle: random.Random) -> list[Arrival]:
    """Return all entries as they come, those of different logs mixed."""
    queues = [(log, list(log.entries)) for log in logs]
    mixed: list[Arrival] = []
    while queues := [(log, entries) for log, entries in queues if entries]:
        log, entries = shuffle.choice(queues)
        stamp, body = entries.pop(0)
        msg = Msg(
            _client=None,  # type: ignore[arg-type]  # nobody answers it
            subject=SUBJECTS.event(log.key),
            data=body,
            headers=stamp.headers(),
        )
        number = len(mixed) + 1
        mixed.append(Arrival(number, number, number * 1_000_000_000, msg))
    return mixed


@settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
async def test_any_mix_of_logs_in_any_batches_is_stored_as_it_folds(
    making: Making, data: st.DataObject
) -> None:
    stored_range = StoredRange(making())
    try:
        logs = [
            data.draw(legal_logs(new_key(shard, agent=f"agent{shard % 2}"))) for shard in range(3)
        ]
        writer, batches = await stored_range.writer(), Batches(SUBJECTS, 5, 30)
        left = arrivals(logs, data.draw(st.randoms(use_true_random=False)))
        while left:
            size = data.draw(st.integers(1, 12))
            await stored_range.apply(writer, batches, left[:size])
            left = left[size:]
            if data.draw(st.integers(0, 3)) == 0:
                # Another replica takes over: it knows nothing of what the lists end with.
                await stored_range.leases.release([writer.lease])
                writer, batches = await stored_range.writer(), Batches(SUBJECTS, 5, 30)
        for log in logs:
            stored = await stored_range.reader.task(log.key.tenant, log.key.task)
            assert stored is not None
            found = read_found(stored)
            assert found.fold.task() == folded(log)
            assert (found.fold.state, found.log) == (log.state, log.log)
            assert (found.owner, found.agent) == (log.owner, log.key.agent)
    finally:
        await stored_range.store.close()


@settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
async def test_the_last_messages_are_read_as_they_fold_whatever_follows(
    making: Making, data: st.DataObject
) -> None:
    log = data.draw(legal_logs(new_key()))
    seen = data.draw(st.integers(1, len(log.entries)))
    stored_range = StoredRange(making())
    try:
        writer, batches = await stored_range.writer(), Batches(SUBJECTS, 5, 30)
        await stored_range.apply(writer, batches, arrivals([log], random.Random(0))[:seen])
        for length in range(4):
            stored = await stored_range.reader.task(log.key.tenant, log.key.task, length)
            assert stored is not None
            fold = read_found(stored).fold
            for entry in log.parsed()[seen:]:
                fold.apply_entry(entry)
            assert fold.task(length) == folded(log, length)
    finally:
        await stored_range.store.close()


async def test_of_a_long_history_no_more_is_read_than_the_last_messages_need(
    valkey: ValkeyProcess,
) -> None:
    stored_range = StoredRange(making_redis(valkey.url)())
    log = LegalLog(new_key())
    for number in range(300):
        log.submit(f"question {number}", {"asked": number} if number in {0, 100} else None)
        log.begin_attempt()
        message = {"messageId": f"m{number}", "role": "ROLE_AGENT", "parts": [{"text": "so"}]}
        log.append([log.status(WORKING, message)], state=WORKING)
        log.append([log.status(INPUT_REQUIRED)], state=INPUT_REQUIRED)
    try:
        writer, batches = await stored_range.writer(), Batches(SUBJECTS, 5, 30)
        await stored_range.apply(writer, batches, arrivals([log], random.Random(0)))
        sizes = []
        for length in (0, 1, 4, 7):
            stored = await stored_range.reader.task(log.key.tenant, log.key.task, length)
            assert stored is not None
            assert read_found(stored).fold.task(length) == folded(log, length)
            sizes.append(len(stored.history))
    finally:
        await stored_range.store.close()
    assert sizes[0] < 3
    assert sizes[1:] == [sizes[0] + 2, sizes[0] + 4, sizes[0] + 8]


async def test_a_message_in_several_pieces_is_one_of_the_last_ones(
    stored_range: StoredRange,
) -> None:
    log = LegalLog(new_key())
    for number in range(3):
        log.submit(f"question {number}", None)
        log.begin_attempt()
        for name in ("answer", "aside", "answer"):
            message = {
                "messageId": f"{name}{number}",
                "role": "ROLE_AGENT",
                "parts": [{"text": "x"}],
            }
            log.append([log.status(WORKING, message)], state=WORKING)
        log.append([log.status(INPUT_REQUIRED)], state=INPUT_REQUIRED)
    writer, batches = await stored_range.writer(), Batches(SUBJECTS, 5, 30)
    await stored_range.apply(writer, batches, arrivals([log], random.Random(0)))
    for length in range(1, 9):
        stored = await stored_range.reader.task(log.key.tenant, log.key.task, length)
        assert stored is not None
        found = read_found(stored).fold.task(length)
        assert len(found["history"]) == length
        assert found == folded(log, length)


async def commands(store: Store) -> int:
    """Return how many commands Redis has run, those of scripts too."""
    assert isinstance(store, RedisStore)
    [found] = await store.redis.ask(["INFO", "commandstats"])
    return sum(one["calls"] for name, one in found.items() if not name.endswith("_info"))


async def test_a_page_takes_as_many_commands_however_many_tasks_and_owners_there_are(
    valkey: ValkeyProcess,
) -> None:
    stored_range = StoredRange(making_redis(valkey.url)())
    store, taken = stored_range.store, list[list[int]]()
    filters: list[Json] = [{}, {"status": COMPLETED}, {"context": "context-1"}]
    owners: list[Json] = [{"owner": "owner0"}, {"owner": "", "any_owner": True}]
    try:
        writer, batches = await stored_range.writer(), Batches(SUBJECTS, 5, 30)
        for first in (0, 0, 300):  # the first time, Redis gets the scripts
            logs = [completed_of(number) for number in range(first, first + 300)]
            before = stored_range.progress.position
            later = [
                one._replace(sequence=one.sequence + before)
                for one in arrivals(logs, random.Random(1))
            ]
            await stored_range.apply(writer, batches, later)
            taken.append([])
            for owner, chosen in product(owners, filters):
                query = ListTasks.model_validate(
                    {"tenant": "default", "page_size": 2, "agent": "shop", **owner, **chosen}
                )
                start = await commands(store)
                heads = {RANGES[0]: stored_range.progress.position}
                page = await stored_range.reader.page(query, 0, None, heads)
                taken[-1].append(await commands(store) - start)
                assert len(page.tasks) == 2
    finally:
        await store.close()
    assert taken[1] == taken[2]
    assert max(taken[1]) < 40


def changes_of(logs: Sequence[LegalLog]) -> list[TaskChange | TaskRemoval]:
    """Return the changes by whole logs, in their order."""
    stored = [one for log in logs for one in arrivals([log], random.Random(0))]
    return Batches(SUBJECTS, 5, 30).build(stored, Progress()).changes


async def test_tasks_that_begin_and_end_in_a_batch_take_few_commands(
    valkey: ValkeyProcess,
) -> None:
    """A view is rebuilt from last entries, each of which is such a task."""
    stored_range, tasks = StoredRange(making_redis(valkey.url)()), 200
    store = stored_range.store
    try:
        writer = await stored_range.writer()
        logs = [completed_of(number) for number in range(tasks)]
        entries = [(log, arrivals([log], random.Random(0))[-1]) for log in logs]
        last = [summary_of(entry.stamp(), entry, log.key) for log, entry in entries]
        changes = [change for change in last if change is not None]
        assert len(changes) == tasks
        await writer.apply(Progress(), Progress(), [])  # Redis gets the script
        start = await commands(store)
        await writer.apply(Progress(), Progress(), changes)
        assert await commands(store) - start < tasks
        [ended] = [await writer.due(DueList.ENDED, 2**60, 2 * tasks)]
        assert len(ended) == tasks
    finally:
        await store.close()


@pytest.mark.parametrize("is_ended", [True, False])
async def test_of_tasks_added_together_only_the_one_of_another_agent_is_ignored(
    stored_range: StoredRange, *, is_ended: bool
) -> None:
    first, second, known = (completed_of(number) for number in range(3))
    other = LegalLog(known.key._replace(agent="other"))
    other.submit("hello")
    if is_ended:
        other.append([other.status(REJECTED)], state=REJECTED)
    writer = await stored_range.writer()
    await writer.apply(Progress(), Progress(), changes_of([known]))
    ignored = await writer.apply(Progress(), Progress(), changes_of([first, other, second]))
    assert ignored == Ignored([1], [])
    fields = await writer.fields(*(f"default:{log.key.task}" for log in (first, known, second)))
    assert [one["agent"] for one in fields] == ["shop"] * 3


async def keys_of(store: Store, log: LegalLog) -> list[str]:
    """Return the keys of the view that name a task."""
    assert isinstance(store, RedisStore)
    [found] = await store.redis.ask(["KEYS", f"{store.keys.root}*{log.key.task}*"])
    return [key.decode().rpartition(log.key.task)[2] for key in found]


async def test_a_short_task_takes_one_key_once_it_has_ended(valkey: ValkeyProcess) -> None:
    stored_range = StoredRange(making_redis(valkey.url)())
    log = some_log()
    log.append([log.status(COMPLETED)], state=COMPLETED)
    try:
        writer, batches, last = await begun(stored_range, log)
        assert sorted(await keys_of(stored_range.store, log)) == ["", ":a", ":h"]
        await stored_range.apply(writer, batches, last)
        assert await keys_of(stored_range.store, log) == [""]
        assert await text_of(stored_range, log) == "one "
    finally:
        await stored_range.store.close()


@pytest.mark.parametrize("context", ["a", "context-1", '\x01\n50% \\2 of "it"/', ""])
async def test_a_short_task_reads_as_it_folds_whoever_made_its_string(
    stored_range: StoredRange, context: str
) -> None:
    """Task state does where the task begins and ends in one batch, else the script."""
    for size in (100, 1):
        log = LegalLog(new_key(), context=context)
        log.submit("\x01\x05 of %1", {"taskId": "\x02", "of": [log.key.task, context]})
        log.begin_attempt()
        block = {"agui_event_type": "content_block", "agui_block_type": "text"}
        log.append([log.chunk("a", '"parts":[{"text":"', {**block, "agui_block_id": "b"})])
        message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "\x0e%\n"}]}
        log.append([log.status(WORKING, {**message, "contextId": context})], state=WORKING)
        log.append([log.status(COMPLETED)], state=COMPLETED)
        before = stored_range.progress.position
        later = [
            one._replace(sequence=one.sequence + before)
            for one in arrivals([log], random.Random(0))
        ]
        for some in batched(later, size):
            writer = await stored_range.writer()
            await stored_range.apply(writer, Batches(SUBJECTS, 5, 30), list(some))
            await stored_range.leases.release([writer.lease])
            stored = await stored_range.reader.task(log.key.tenant, log.key.task)
            assert stored is not None
            seen = TaskFold()
            for entry in log.parsed()[: some[-1].sequence - before]:
                seen.apply_entry(entry)
            assert read_found(stored).fold.task() == seen.task()


async def test_a_long_task_stays_in_pieces_when_it_has_ended(valkey: ValkeyProcess) -> None:
    for texts in (["x" * 5000], [f"{number}" for number in range(100)]):
        stored_range = StoredRange(making_redis(valkey.url)())
        log = some_log()
        for number, text in enumerate(texts):
            log.append([log.chunk(f"artifact-{number}", text)])
        log.append([log.status(COMPLETED)], state=COMPLETED)
        try:
            writer, batches, last = await begun(stored_range, log)
            await stored_range.apply(writer, batches, last)
            assert sorted(await keys_of(stored_range.store, log)) == ["", ":a", ":h"]
            assert await text_of(stored_range, log) == "".join(["one ", *texts])
        finally:
            await stored_range.store.close()


@pytest.mark.parametrize("together", [False, True])
async def test_what_stands_behind_the_end_of_a_task_changes_nothing(
    stored_range: StoredRange, *, together: bool
) -> None:
    """No worker of ours writes it, but NATS can't forbid it to a hostile one."""
    log = some_log()
    log.append([log.status(COMPLETED)], state=COMPLETED)
    ended, whole = len(log.entries), folded(log)
    log.append([log.chunk("a", "two ")], state=WORKING)
    message = {"messageId": "late", "role": "ROLE_AGENT", "parts": [{"text": "so"}]}
    log.append([log.status(FAILED, message)], state=FAILED)
    log.append([log.chunk("b", "three")], state=WORKING)
    all_arrivals = arrivals([log], random.Random(0))
    writer = await stored_range.writer()
    apart = (all_arrivals[:ended], *([one] for one in all_arrivals[ended:]))
    for some in (all_arrivals,) if together else apart:
        await stored_range.apply(writer, Batches(SUBJECTS, 5, 30), some)
    stored = await stored_range.reader.task(log.key.tenant, log.key.task)
    assert stored is not None
    assert read_found(stored).fold.task() == whole
    assert await text_of(stored_range, log) == "one "
    for states, number in (
        ([COMPLETED], 1),
        ([FAILED], 0),
        ([], 1),
        ([COMPLETED, FAILED], 1),
        ([FAILED, COMPLETED, WORKING], 1),
        ([FAILED, WORKING], 0),
    ):
        query = ListTasks(tenant="default", owner=log.owner, page_size=5, states=states)
        heads = {RANGES[0]: stored_range.progress.position}
        page = await stored_range.reader.page(query, 0, None, heads)
        assert (len(page.tasks), page.total) == (number, number)


async def test_what_a_task_that_has_ended_already_has_is_not_added_again(
    stored_range: StoredRange,
) -> None:
    log = some_log()
    log.append([log.status(COMPLETED)], state=COMPLETED)
    all_arrivals = arrivals([log], random.Random(0))
    writer = await stored_range.writer()
    await stored_range.apply(writer, Batches(SUBJECTS, 5, 30), all_arrivals)
    progress = stored_range.progress
    again = Batches(SUBJECTS, 5, 30).build(all_arrivals[1:-1], progress)
    ignored = await writer.apply(progress, progress, again.changes)
    assert (ignored.foreign, ignored.behind) == ([], [])
    stored = await stored_range.reader.task(log.key.tenant, log.key.task)
    assert stored is not None
    assert read_found(stored).fold.task() == folded(log)


async def test_owners_in_one_context_see_their_own_tasks_and_operators_all(
    stored_range: StoredRange,
) -> None:
    logs = []
    for number in range(12):
        log = LegalLog(new_key(number), owner=f"owner{number % 3}", context="shared")
        log.submit("hello")
        state = COMPLETED if number % 2 else FAILED
        log.append([log.status(state)], state=state)
        logs.append(log)
    writer = await stored_range.writer()
    await stored_range.apply(writer, Batches(SUBJECTS, 5, 30), arrivals(logs, random.Random(0)))
    for owner in ("owner0", "owner1", "owner2", "stranger", ""):
        who = {"owner": owner, "any_owner": not owner, "context": "shared"}
        query = ListTasks.model_validate({"tenant": "default", "page_size": 2, **who})
        pages = orjson.loads(await whole_list(stored_range, query))
        found = [task["id"] for page in pages for task in page["tasks"]]
        expected = {log.key.task for log in logs if owner in ("", log.owner)}
        assert len(found) == len(expected)
        assert set(found) == expected
        assert {page["total"] for page in pages} == {len(expected)}


@pytest.mark.parametrize("least", [0, 1, 2**24, 10**12, 10**15, 2**53 - 1])
async def test_a_list_has_the_tasks_from_its_least_time_on(
    stored_range: StoredRange, least: int
) -> None:
    log = some_log()
    writer, batches, last = await begun(stored_range, log)
    await stored_range.apply(writer, batches, last)
    heads = {RANGES[0]: stored_range.progress.position}
    query = ListTasks.model_validate({"tenant": "default", "owner": log.owner})
    everything = await stored_range.reader.page(query, 0, None, heads)
    [task] = everything.tasks
    page = await stored_range.reader.page(query, least, None, heads)
    assert page.total == (least <= task.time)
    assert [one.task for one in page.tasks] == [task.task] * page.total
    exactly = await stored_range.reader.page(query, task.time, None, heads)
    behind = await stored_range.reader.page(query, task.time + 1, None, heads)
    assert (exactly.total, behind.total) == (1, 0)


@pytest.mark.parametrize("number", [2**53, -(2**53), 1e300, float("nan"), float("inf")])
async def test_a_script_gets_no_number_that_it_takes_for_another(
    valkey: ValkeyProcess, number: float
) -> None:
    store = making_redis(valkey.url)()
    try:
        with pytest.raises(ValueError, match="no number for a script"):
            await store.redis.run("renew", ["key"], ["replica", number, "lease:", 0])
    finally:
        await store.close()


async def test_a_history_of_any_length_is_read(stored_range: StoredRange) -> None:
    log = some_log()
    writer, batches, last = await begun(stored_range, log)
    await stored_range.apply(writer, batches, last)
    stored = await stored_range.reader.task(log.key.tenant, log.key.task, 10**30)
    assert stored is not None
    assert read_found(stored).fold.task() == folded(log)


def completed_of(number: int) -> LegalLog:
    """Return the log of a task, one of two in its context and one of 20 of its owner."""
    log = LegalLog(
        new_key(agent="shop"), owner=f"owner{number // 20}", context=f"context-{number // 2}"
    )
    log.submit("hello")
    log.begin_attempt()
    log.append([log.status(COMPLETED)], state=COMPLETED)
    return log


async def begun(stored_range: StoredRange, log: LegalLog) -> tuple[Writer, Batches, list[Arrival]]:
    """Apply all of a log but its last entry; return what is needed to apply that one too."""
    writer, batches = await stored_range.writer(), Batches(SUBJECTS, 5, 30)
    all_arrivals = arrivals([log], random.Random(0))
    await stored_range.apply(writer, batches, all_arrivals[:-1])
    return writer, batches, all_arrivals[-1:]


def some_log(key: TaskKey | None = None) -> LegalLog:
    log = LegalLog(key or new_key())
    log.submit("hello")
    log.begin_attempt()
    log.append([log.chunk("a", "one ")], state=WORKING)
    return log


async def text_of(stored_range: StoredRange, log: LegalLog) -> str:
    stored = await stored_range.reader.task(log.key.tenant, log.key.task)
    assert stored is not None
    artifacts = read_found(stored).fold.task().get("artifacts", [])
    return "".join(part["text"] for artifact in artifacts for part in artifact["parts"])


async def test_who_has_lost_the_lease_writes_nothing(stored_range: StoredRange) -> None:
    log = some_log()
    zombie, batches, last = await begun(stored_range, log)
    await stored_range.leases.release([zombie.lease])
    await stored_range.writer()
    with pytest.raises(LeaseLost):
        await stored_range.apply(zombie, batches, last)
    assert await text_of(stored_range, log) == ""
    assert await zombie.progress() == stored_range.progress


async def test_an_expired_lease_does_not_write_even_if_it_is_free(
    stored_range: StoredRange,
) -> None:
    log = some_log()
    writer, batches, last = await begun(stored_range, log)
    await writer.confirm()
    await stored_range.leases.release([writer.lease])
    for step in (
        writer.confirm(),
        stored_range.apply(writer, batches, last),
        writer.defer(DueList.AT_WORK, {"t:x": 1}),
        writer.complete("t:x", 1, None),
        writer.settle("t:x", 1),
    ):
        with pytest.raises(LeaseLost):
            await step
    assert await text_of(stored_range, log) == ""


async def test_names_are_deferred_and_removed_together_if_they_are_listed(
    stored_range: StoredRange,
) -> None:
    writer, batches = await stored_range.writer(), Batches(SUBJECTS, 5, 30)
    names = list[str]()
    for _ in range(3):
        log = some_log()
        names.append(f"{log.key.tenant}:{log.key.task}")
        at = stored_range.progress.position
        came = arrivals([log], random.Random(0))
        came = [one._replace(sequence=at + number) for number, one in enumerate(came, 1)]
        await stored_range.apply(writer, batches, came)
    first, removed, last = names
    dues = {last: LATE - 1, removed: None, first: LATE, "t:x": 1}
    await writer.defer(DueList.AT_WORK, dues)
    assert await writer.due(DueList.AT_WORK, LATE - 1, 10) == [last]
    assert await writer.due(DueList.AT_WORK, LATE, 10) == [last, first]
    both = DueList.CHILDREN, DueList.AT_WORK
    assert await writer.due_lists(both, LATE - 1) == {DueList.AT_WORK}
    assert await writer.due_lists(both, LATE - 2) == set()


async def test_a_batch_is_written_once_only(stored_range: StoredRange) -> None:
    log = some_log()
    writer, batches, last = await begun(stored_range, log)
    batch = batches.build(last, stored_range.progress)
    await writer.apply(stored_range.progress, batch.then, batch.changes)
    with pytest.raises(PositionMoved):
        await writer.apply(stored_range.progress, batch.then, batch.changes)
    assert await text_of(stored_range, log) == "one "


async def test_a_store_that_lost_last_entries_takes_no_more_of_them(
    stored_range: StoredRange,
) -> None:
    """A Redis that takes over from another, or restarts from its disk, may lack the last writes."""
    writer, batches = await stored_range.writer(), Batches(SUBJECTS, 5, 30)
    start, stored = Progress(summarized=9), Progress(summarized=9, summaries=1)
    await writer.apply(Progress(), start, [])
    lost = stored_range.progress = start
    changes = batches.build(arrivals([some_log()], random.Random(0)), lost).changes
    with pytest.raises(PositionMoved):
        await writer.apply(stored, Progress(position=9, summarized=9, summaries=1), changes)
    assert await writer.progress() == lost


async def test_a_lease_is_held_by_one_at_a_time(stored_range: StoredRange) -> None:
    lease = await stored_range.leases.acquire(RANGES[0])
    assert lease is not None
    assert await stored_range.leases.acquire(RANGES[0]) is None
    await stored_range.leases.release([lease])
    again = await stored_range.leases.acquire(RANGES[0])
    assert again is not None
    assert again.token != lease.token


async def test_no_two_leases_have_the_same_token_even_if_the_store_is_emptied(
    valkey: ValkeyProcess,
) -> None:
    keys = Keys.of(secrets.token_hex(4), "")
    store = RedisStore(RedisSettings.model_validate({"redis_url": valkey.url}), keys, RANGES)
    stored_range = StoredRange(store)
    first = (await stored_range.writer()).lease.token
    await store.redis.unlink_all(keys.root)
    assert (await stored_range.writer()).lease.token != first
    await store.close()


async def test_streamed_text_costs_little_more_than_itself(stored_range: StoredRange) -> None:
    log = some_log()
    block = {"agui_block_type": "text", "agui_block_id": "block-1", "agui_block_index": 0}
    log.append([log.chunk("a", "first ", block)])
    for _ in range(50):
        log.append([log.chunk("a", "word ", block) for _ in range(20)])
    writer, batches = await stored_range.writer(), Batches(SUBJECTS, 5, 30)
    await stored_range.apply(writer, batches, arrivals([log], random.Random(0)))
    stored = await stored_range.reader.task(log.key.tenant, log.key.task)
    assert stored is not None
    assert len(orjson.dumps(stored.artifacts)) < 1000 * len("word ") * 2
    assert read_found(stored).fold.task() == folded(log)


async def test_a_task_in_many_pieces_takes_one_write(stored_range: StoredRange) -> None:
    log = some_log()
    for number in range(5000):
        log.append([log.chunk(f"artifact-{number}", "x")])
    arrived = arrivals([log], random.Random(0))
    # Only now: on a loaded machine all this takes as long as a lease.
    writer, batches = await stored_range.writer(), Batches(SUBJECTS, 5, 30)
    await stored_range.apply(writer, batches, arrived)
    stored = await stored_range.reader.task(log.key.tenant, log.key.task)
    assert stored is not None
    assert len(stored.artifacts) == 5001


async def test_open_tasks_are_counted_by_agent_and_version(stored_range: StoredRange) -> None:
    logs = []
    versions = [("shop", "1"), ("shop", "1"), ("shop", ""), ("desk", "1"), ("shop", "2")]
    for agent, version in versions:
        log = LegalLog(new_key(agent=agent))
        log.submit("hello", {events.VERSION: version} if version else None)
        logs.append(log)
    logs[1].begin_attempt()
    logs[-1].begin_attempt()
    logs[-1].append([logs[-1].status(COMPLETED)], state=COMPLETED)
    writer = await stored_range.writer()
    await stored_range.apply(writer, Batches(SUBJECTS, 5, 30), arrivals(logs, random.Random(1)))
    assert await stored_range.reader.open_tasks("shop") == {"1": 2, "": 1}


async def test_a_versions_open_tasks_follow_it_and_leave_it_at_their_end(
    stored_range: StoredRange,
) -> None:
    log = LegalLog(new_key(agent="shop"))
    counts = []
    writer, batches, applied = await stored_range.writer(), Batches(SUBJECTS, 5, 30), 0
    for version in ("1", "2"):
        log.submit("hello", {events.VERSION: version})
        log.begin_attempt()
        log.append([log.status(INPUT_REQUIRED)], state=INPUT_REQUIRED)
        applied = await apply_rest(stored_range, writer, batches, log, applied)
        counts.append(await stored_range.reader.open_tasks("shop"))
    log.submit("bye")
    log.begin_attempt()
    log.append([log.status(COMPLETED)], state=COMPLETED)
    await apply_rest(stored_range, writer, batches, log, applied)
    counts.append(await stored_range.reader.open_tasks("shop"))
    assert counts == [{"1": 1}, {"2": 1}, {}]


async def apply_rest(
    stored_range: StoredRange, writer: Writer, batches: Batches, log: LegalLog, applied: int
) -> int:
    """Apply what follows the first `applied` entries of the only log; return how many it has."""
    rest = arrivals([log], random.Random(0))[applied:]
    await stored_range.apply(writer, batches, rest)
    return applied + len(rest)


class CountedConnection(Connection):
    """A connection that counts its read commands."""

    asked = 0

    async def ask(self, *commands: Sequence[Argument]) -> list[Any]:
        self.asked += len(commands)
        return await super().ask(*commands)


async def test_open_tasks_are_counted_in_redis_without_reading_them(valkey: ValkeyProcess) -> None:
    stored_range = StoredRange(making_redis(valkey.url)())
    assert isinstance(stored_range.store, RedisStore)
    redis = CountedConnection(RedisSettings.model_validate({"redis_url": valkey.url}))
    try:
        logs = [LegalLog(new_key(number, agent="shop")) for number in range(30)]
        for log in logs:
            log.submit("hello", {events.VERSION: "1"})
        writer = await stored_range.writer()
        await stored_range.apply(writer, Batches(SUBJECTS, 5, 30), arrivals(logs, random.Random(1)))
        found = await RedisReader(redis, stored_range.store.keys).open_tasks("shop")
        assert found == {"1": 30}
        assert redis.asked < 5
    finally:
        await redis.close()
        await stored_range.store.close()


async def test_a_log_begun_again_on_the_same_subject_replaces_the_task(
    stored_range: StoredRange,
) -> None:
    log = some_log()
    again = LegalLog(log.key, log="otherlog")
    again.submit("again")
    writer, batches = await stored_range.writer(), Batches(SUBJECTS, 5, 30)
    for one in (log, again):
        offset = stored_range.progress.position
        await stored_range.apply(
            writer,
            batches,
            [a._replace(sequence=a.sequence + offset) for a in arrivals([one], random.Random(0))],
        )
    stored = await stored_range.reader.task(log.key.tenant, log.key.task)
    assert stored is not None
    found = read_found(stored)
    assert found.log == "otherlog"
    assert found.fold.task() == folded(again)


async def test_fields_of_several_tasks_are_read_at_once(stored_range: StoredRange) -> None:
    open_log, ended = some_log(), some_log()
    ended.append([ended.status(COMPLETED)], state=COMPLETED)
    writer = await stored_range.writer()
    history = arrivals([open_log, ended], random.Random(0))
    await stored_range.apply(writer, Batches(SUBJECTS, 5, 30), history)
    names = [f"{log.key.tenant}:{log.key.task}" for log in (open_log, ended)]
    found = await writer.fields(names[1], "default:0-none", names[0])
    assert [fields.get("log") for fields in found] == [ended.log, None, open_log.log]
    assert [fields.get("state") for fields in found] == [COMPLETED, None, WORKING]


async def test_what_follows_an_end_is_ignored_and_listed_until_it_is_settled(
    stored_range: StoredRange,
) -> None:
    log, other = some_log(), some_log()
    log.append([log.status(COMPLETED)], state=COMPLETED)
    foreign = LegalLog(other.key._replace(agent="another"))
    foreign.submit()
    writer, name = await stored_range.writer(), f"{log.key.tenant}:{log.key.task}"
    await stored_range.apply(
        writer, Batches(SUBJECTS, 5, 30), arrivals([log, other], random.Random(0))
    )
    batches, end = Batches(SUBJECTS, 5, 30), stored_range.progress.position
    whole = await seen(stored_range, writer)

    async def add(*added: LegalLog) -> Ignored:
        at = stored_range.progress
        came = [one for log in added for one in arrivals([log], random.Random(0))]
        came = [one._replace(sequence=at.position + n) for n, one in enumerate(came, 1)]
        batch = batches.build(came, at)
        stored_range.progress = batch.then
        return await writer.apply(at, batch.then, batch.changes)

    behind = LegalLog(log.key)
    behind.submit()
    assert await add(foreign, behind) == Ignored(foreign=[0], behind=[1])
    assert await writer.due(DueList.CONTINUED, LATE, 10) == [name]
    await writer.settle(name, end + 1)
    assert await writer.due(DueList.CONTINUED, LATE, 10) == [name], "more has come meanwhile"
    await writer.settle(name, end + 2)
    changed = {**whole, "progress": await writer.progress()}
    assert await seen(stored_range, writer) == changed
    await add(behind)
    gone = tombstone(log, stored_range.progress.position + 1)
    await stored_range.apply(writer, batches, [gone])
    assert await writer.due(DueList.CONTINUED, LATE, 10) == []


async def test_without_its_beginning_a_log_makes_no_task(stored_range: StoredRange) -> None:
    log = some_log()
    writer, batches = await stored_range.writer(), Batches(SUBJECTS, 5, 30)
    await stored_range.apply(writer, batches, arrivals([log], random.Random(0))[-1:])
    assert await stored_range.reader.task(log.key.tenant, log.key.task) is None


async def test_without_redis_everything_is_unavailable() -> None:
    store = making_redis("redis://127.0.0.1:1/0")()
    nobody = StoredRange(store)
    with pytest.raises(StateUnavailable):
        await nobody.reader.task("default", "x")
    with pytest.raises(StateUnavailable):
        await nobody.leases.acquire(RANGES[0])
    with pytest.raises(ConnectionError):
        await store.check()
    await store.close()


DAY = "1970-01-01"
"""The day of all arrivals here."""

LATE = 10**15
"""Milliseconds by which everything is due."""


async def seen(stored_range: StoredRange, writer: Writer) -> dict[str, object]:
    """Return all that can be read of a store: lists, and what falls due in which order."""
    found: dict[str, object] = {"progress": await writer.progress()}
    for due_list in DueList:
        found[f"due {due_list}"] = await writer.due(due_list, LATE, 1000)
    filters: list[Json] = [
        {},
        {"agents": ["agent0"]},
        {"agents": ["agent1", "agent0"], "oldest_first": True},
        {"context": "context-1"},
        {"states": [COMPLETED]},
        {"agents": ["agent1"], "context": "context-1", "states": [INPUT_REQUIRED]},
        {"context": "context-1", "oldest_first": True},
        {"context": "another", "include_artifacts": False},
    ]
    for agent in ("agent0", "agent1"):
        found[f"open {agent}"] = dict(await stored_range.reader.open_tasks(agent))
    found["usage"] = sorted(map(repr, await stored_range.reader.usage("default", [DAY])))
    owners: list[Json] = [
        {"owner": "anonymous"},
        {"owner": "other"},
        {"owner": "", "any_owner": True},
    ]
    for owner, chosen in product(owners, filters):
        query = ListTasks.model_validate(
            {"tenant": "default", "page_size": 2, "include_artifacts": True, **owner, **chosen}
        )
        found[repr(query)] = await whole_list(stored_range, query)
        found[f"openings of {query!r}"] = await openings(stored_range, query)
    return found


async def openings(stored_range: StoredRange, query: ListTasks) -> list[object]:
    """Return the counts by state, and each task of a page with the first item of its history."""
    heads = {RANGES[0]: stored_range.progress.position}
    page = await stored_range.reader.page(query, 0, None, heads, openings=True)
    return [
        dict(page.counts),
        *((one.task, one.history[:1], one.fields["state"]) for one in page.tasks),
    ]


async def whole_list(stored_range: StoredRange, query: ListTasks) -> bytes:
    """Return every page of a list, rendered."""
    pages: list[Json] = []
    after: After | None = None
    while True:
        heads = {RANGES[0]: stored_range.progress.position}
        page: StoredPage = await stored_range.reader.page(query, 0, after, heads)
        folds = [read_found(stored).fold for stored in page.tasks]
        tasks = [fold.task(include_artifacts=query.include_artifacts) for fold in folds]
        pages.append({"tasks": tasks, "total": page.total, "more": page.more})
        if not page.more:
            return orjson.dumps(pages)
        after = After(page.tasks[-1].time, page.tasks[-1].task)


def tombstone(log: LegalLog, number: int) -> Arrival:
    """Return the message that takes a log's place."""
    msg = Msg(
        _client=None,  # type: ignore[arg-type]  # nobody answers it
        subject=SUBJECTS.event(log.key),
        headers={TOMBSTONE: "retention", OWNER: log.owner},
    )
    return Arrival(number, number, number * 1_000_000_000, msg)


@settings(
    deadline=None,
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
async def test_built_anew_in_either_store_everything_reads_the_same_to_the_byte(
    valkey: ValkeyProcess, data: st.DataObject
) -> None:
    logs = []
    for number in range(data.draw(st.integers(1, 5))):
        key = new_key(number, agent=f"agent{data.draw(st.integers(0, 1))}")
        log = data.draw(legal_logs(key))
        log.owner = data.draw(st.sampled_from(["anonymous", "other"]))
        logs.append(log)
    history = arrivals(logs, data.draw(st.randoms(use_true_random=False)))
    for log in logs:
        if log.state in TERMINAL and data.draw(st.integers(0, 3)) == 0:
            history.append(tombstone(log, len(history) + 1))
    stored_ranges = [
        StoredRange(making_redis(valkey.url)()),
        StoredRange(making_redis(valkey.url)()),
    ]
    stored_ranges.append(StoredRange(MemoryStore(RANGES)))
    try:
        sizes = (data.draw(st.integers(1, 5)), 1000, 1000)
        found = []
        for stored_range, size in zip(stored_ranges, sizes, strict=True):
            writer, batches = await stored_range.writer(), Batches(SUBJECTS, 5, 30)
            for some in batched(history, size):
                await stored_range.apply(writer, batches, list(some))
            found.append(await seen(stored_range, writer))
        by_and_by, anew, in_memory = found
        assert anew == by_and_by
        assert in_memory == by_and_by
    finally:
        for stored_range in stored_ranges:
            await stored_range.store.close()


class UsingLog(LegalLog):
    """A log whose agent reports usage."""

    def report(self, read: int, written: int, cost: float = 0) -> None:
        """Append a report of a model call."""
        part = parts.usage_part({"inputTokens": read, "outputTokens": written, "cost": cost})
        message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [part]}
        self.append([self.status(WORKING, message)])

    def end(self, state: str = COMPLETED) -> None:
        """Append the end of the run."""
        self.append([self.status(state)], state=state)


def using_log(key: TaskKey | None = None, metadata: Json | None = None) -> UsingLog:
    log = UsingLog(key or new_key())
    log.submit("hello", metadata)
    log.begin_attempt()
    log.report(10, 2, 0.25)
    log.begin_attempt()
    log.report(100, 20)
    log.end(INPUT_REQUIRED)
    return log


async def counted(stored_range: StoredRange, *days: str) -> list[tuple[str, ...]]:
    """Return the rows of usage, counts as text."""
    rows = await stored_range.reader.usage("default", days or (DAY,))
    shown = [
        (
            row.day,
            row.owner,
            row.agent,
            row.root,
            *(f"{k}={n}" for k, n in sorted(row.counts.items())),
        )
        for row in rows
    ]
    return sorted(shown)


ONCE = ("cost=250000", "input=110", "ms=4000", "output=22", "runs=1", "tokens=132")


async def test_usage_of_all_attempts_is_counted_once_by_any_replica(
    stored_range: StoredRange,
) -> None:
    log = using_log()
    writer = await stored_range.writer()
    for one in arrivals([log], random.Random(0)):
        await stored_range.apply(writer, Batches(SUBJECTS, 5, 30), [one])
    assert await counted(stored_range) == [(DAY, "anonymous", log.key.agent, log.key.agent, *ONCE)]


async def test_usage_is_counted_once_although_the_view_is_built_anew(
    stored_range: StoredRange,
) -> None:
    log = using_log()
    history = arrivals([log], random.Random(0))
    writer = await stored_range.writer()
    await stored_range.apply(writer, Batches(SUBJECTS, 5, 30), history)
    before = await counted(stored_range)
    await writer.begin_projection()
    stored_range.progress = Progress()
    await stored_range.apply(await stored_range.writer(), Batches(SUBJECTS, 5, 30), history)
    assert before == [(DAY, "anonymous", log.key.agent, log.key.agent, *ONCE)]
    assert await counted(stored_range) == before


async def test_of_a_view_that_is_built_anew_nothing_of_the_old_one_stays(
    valkey: ValkeyProcess,
) -> None:
    store = making_redis(valkey.url)()
    stored_range, log = StoredRange(store), using_log()
    try:
        writer = await stored_range.writer()
        await stored_range.apply(
            writer, Batches(SUBJECTS, 5, 30), arrivals([log], random.Random(0))
        )
        await writer.begin_projection()
        [found] = await store.redis.ask(["KEYS", f"*{log.key.task}*"])
    finally:
        await store.close()
    # What was used stays, as it is not counted again.
    assert [key for key in found if b":usage:" not in key] == []


async def test_usage_stays_when_the_task_is_erased_even_in_the_same_batch(
    stored_range: StoredRange,
) -> None:
    log = using_log()
    history = arrivals([log], random.Random(0))
    writer = await stored_range.writer()
    gone = [*history, tombstone(log, len(history) + 1)]
    await stored_range.apply(writer, Batches(SUBJECTS, 5, 30), gone)
    assert await stored_range.reader.task(log.key.tenant, log.key.task) is None
    assert await counted(stored_range) == [(DAY, "anonymous", log.key.agent, log.key.agent, *ONCE)]


async def test_what_redis_has_of_a_tasks_usage_expires_though_its_task_is_lost(
    valkey: ValkeyProcess,
) -> None:
    store, log = making_redis(valkey.url)(), using_log()
    stored_range, history = StoredRange(store), arrivals([log], random.Random(0))
    ledger = f"{store.keys.usage}t:{log.key.tenant}:{log.key.task}"
    try:
        writer = await stored_range.writer()
        await stored_range.apply(writer, Batches(SUBJECTS, 5, 30), history)
        [left] = await store.redis.ask(["TTL", ledger])
        assert left > 399 * 24 * 3600
        # Much sooner if the task is erased.
        gone = [tombstone(log, len(history) + 1)]
        await stored_range.apply(writer, Batches(SUBJECTS, 5, 30), gone)
        [left] = await store.redis.ask(["TTL", ledger])
        assert 0 < left <= 600
    finally:
        await store.close()


async def test_a_run_that_was_not_started_is_not_counted(stored_range: StoredRange) -> None:
    log = UsingLog(new_key())
    log.submit("hello")
    log.end(REJECTED)
    writer = await stored_range.writer()
    await stored_range.apply(writer, Batches(SUBJECTS, 5, 30), arrivals([log], random.Random(0)))
    assert await counted(stored_range) == []


async def test_delegated_usage_names_its_own_agent_and_the_one_at_the_root(
    stored_range: StoredRange,
) -> None:
    lineage = Lineage(new_key().task, "middle", 1, "child", ("first", "middle"))
    log = using_log(metadata={DELEGATION: lineage.to_json()})
    writer = await stored_range.writer()
    for one in arrivals([log], random.Random(0)):
        await stored_range.apply(writer, Batches(SUBJECTS, 5, 30), [one])
    assert await counted(stored_range) == [(DAY, "anonymous", log.key.agent, "first", *ONCE)]


async def test_what_a_fork_copies_is_not_counted_again(stored_range: StoredRange) -> None:
    source = new_key().task
    copied = ForkOf(source, "context", 3, "2026-01-01T00:00:00Z", 3, WORKING)
    log = using_log(metadata={FORK_OF: copied.to_json()})
    writer = await stored_range.writer()
    await stored_range.apply(writer, Batches(SUBJECTS, 5, 30), arrivals([log], random.Random(0)))
    [(*_, agent, _, read, time, written, runs, tokens)] = await counted(stored_range)
    assert (agent, read, written, tokens) == (log.key.agent, "input=100", "output=20", "tokens=120")
    assert (time, runs) == ("ms=2000", "runs=1")


async def test_usage_before_and_after_a_summary_is_counted_with_the_whole_log(
    stored_range: StoredRange,
) -> None:
    log = using_log()
    history = arrivals([log], random.Random(0))
    stamp, last = log.entries[-1][0], history[-1]
    summary = summary_of(stamp, last, log.key)
    assert summary is not None
    writer = await stored_range.writer()
    await writer.apply(stored_range.progress, stored_range.progress, [summary])
    log.submit("more")
    log.begin_attempt()
    log.report(1000, 200)
    log.end()
    history = arrivals([log], random.Random(0))
    stored_range.progress = Progress()
    await stored_range.apply(writer, Batches(SUBJECTS, 5, 30), history[len(history) - 4 :])
    assert await counted(stored_range) == []
    [whole] = Batches(SUBJECTS, 5, 30).build(history, Progress()).changes
    assert isinstance(whole, TaskChange)
    name = f"{log.key.tenant}:{log.key.task}"
    assert await writer.complete(name, history[-1].sequence, whole)
    [(*_, read, time, written, runs, tokens)] = await counted(stored_range)
    assert (read, written, tokens) == ("input=1110", "output=222", "tokens=1332")
    assert (time, runs) == ("ms=6000", "runs=2")
    [fields] = await writer.fields(name)
    assert SUMMARY not in fields


async def test_a_summary_of_what_stands_behind_the_end_is_listed_with_the_whole_log(
    stored_range: StoredRange,
) -> None:
    log = some_log()
    log.append([log.status(COMPLETED)], state=COMPLETED)
    log.append([log.status(INPUT_REQUIRED)], state=INPUT_REQUIRED)
    history = arrivals([log], random.Random(0))
    summary = summary_of(log.entries[-1][0], history[-1], log.key)
    assert summary is not None
    writer = await stored_range.writer()
    await writer.apply(stored_range.progress, stored_range.progress, [summary])
    whole, _ = Batches(SUBJECTS, 5, 30).build(history, Progress()).changes
    assert isinstance(whole, TaskChange)
    name = f"{log.key.tenant}:{log.key.task}"
    assert await writer.complete(name, history[-1].sequence, whole)
    assert await writer.due(DueList.CONTINUED, LATE, 10) == [name]
    [fields] = await writer.fields(name)
    assert fields["state"] == COMPLETED


async def test_days_and_tenants_are_counted_apart(stored_range: StoredRange) -> None:
    log = using_log()
    day = 24 * 3600 * 1_000_000_000
    history = arrivals([log], random.Random(0))
    late = [one._replace(time=one.time + (day if one.sequence > 3 else 0)) for one in history]
    writer = await stored_range.writer()
    await stored_range.apply(writer, Batches(SUBJECTS, 5, 30), late)
    found = await counted(stored_range, DAY, "1970-01-02")
    assert [row[4:] for row in found] == [
        ("cost=250000", "input=10", "output=2", "tokens=12"),
        ("input=100", "ms=86404000", "output=20", "runs=1", "tokens=120"),
    ]
    assert await stored_range.reader.usage("other", [DAY]) == []


async def test_a_message_that_the_status_has_is_none_of_the_last_ones(
    stored_range: StoredRange,
) -> None:
    log = LegalLog(new_key())
    for number in range(2):
        log.submit(f"question {number}")
        log.begin_attempt()
        for name, state in (("a", WORKING), ("b", WORKING), ("c", INPUT_REQUIRED)):
            said = {"messageId": f"{name}{number}", "role": "ROLE_AGENT", "parts": [{"text": "x"}]}
            log.append([log.status(state, said)], state=state)
    writer, batches, fold = await stored_range.writer(), Batches(SUBJECTS, 5, 30), TaskFold()
    for arrival, entry in zip(arrivals([log], random.Random(0)), log.parsed(), strict=True):
        await stored_range.apply(writer, batches, [arrival])
        fold.apply_entry(entry)
        for length in range(1, 6):
            stored = await stored_range.reader.task(log.key.tenant, log.key.task, length)
            assert stored is not None
            assert read_found(stored).fold.task(length) == fold.task(length)
    assert len(fold.task()["history"]) > 5


async def test_a_survey_has_the_replicas_lost_leases_and_free_ranges(making: Making) -> None:
    store = making()
    try:
        first, second = store.leases("first"), store.leases("second")
        lease = await first.acquire(RANGES[0])
        assert lease is not None
        for held in ({RANGES[0]: lease}, {}):
            survey = await first.renew(held)
            assert (survey.replicas, survey.lost, survey.free) == (["first"], [], [])
        lost = Lease(RANGES[0], "another", lease.projection_number)
        survey = await second.renew({RANGES[0]: lost})
        assert (survey.replicas, survey.lost) == (["first", "second"], [RANGES[0]])
        await first.release([lease])
        assert (await second.renew({})).free == RANGES
        await first.leave()
        assert (await second.renew({})).replicas == ["second"]
    finally:
        await store.close()


async def test_a_parent_that_is_completed_from_its_log_keeps_its_children(
    stored_range: StoredRange,
) -> None:
    parent, child = LegalLog(new_key()), LegalLog(new_key())
    parent.submit("hello")
    parent.begin_attempt()
    parent.append([parent.status(INPUT_REQUIRED)], state=INPUT_REQUIRED)
    lineage = Lineage(parent.key.task, parent.key.agent, 1, "child", (parent.key.agent,))
    child.submit("help", {DELEGATION: lineage.to_json()})
    history, children = (arrivals([log], random.Random(0)) for log in (parent, child))
    summary = summary_of(parent.entries[-1][0], history[-1], parent.key)
    assert summary is not None
    [asked] = Batches(SUBJECTS, 5, 30).build(children, Progress()).changes
    [whole] = Batches(SUBJECTS, 5, 30).build(history, Progress()).changes
    assert isinstance(whole, TaskChange)
    writer = await stored_range.writer()
    await writer.apply(stored_range.progress, stored_range.progress, [summary, asked])
    assert await writer.complete(f"default:{parent.key.task}", history[-1].sequence, whole)
    # A run of the parent ends: its children are looked after at once.
    parent.append([parent.status(CANCELED)], state=CANCELED)
    last = arrivals([parent], random.Random(0))[-1:]
    stored_range.progress = Progress(len(history))
    await writer.apply(Progress(), stored_range.progress, [])
    await stored_range.apply(writer, Batches(SUBJECTS, 5, 30), last)
    assert await writer.due(DueList.CHILDREN, 1, 10) == [f"default:{child.key.task}"]


async def test_hundreds_of_tasks_that_begin_in_a_batch_are_all_listed(
    stored_range: StoredRange,
) -> None:
    logs = [LegalLog(new_key()) for _ in range(600)]
    for log in logs:
        log.submit("hello")
    writer = await stored_range.writer()
    await stored_range.apply(writer, Batches(SUBJECTS, 5, 30), arrivals(logs, random.Random(0)))
    due = await writer.due(DueList.AT_WORK, LATE, 1000)
    assert sorted(due) == sorted(f"default:{log.key.task}" for log in logs)


async def test_a_day_with_too_many_counters_counts_new_owners_together(
    valkey: ValkeyProcess,
) -> None:
    store, log, most = making_redis(valkey.url)(), using_log(), 100_000
    day = f"{store.keys.usage}d:{log.key.tenant}:{DAY}"
    try:
        stored_range = StoredRange(store)
        writer = await stored_range.writer()
        for first in range(0, most, 1000):
            held = [word for n in range(first, first + 1000) for word in (f"o{n}:a:a:runs", 1)]
            await store.redis.ask(["HSET", day, *held])
        await stored_range.apply(
            writer, Batches(SUBJECTS, 5, 30), arrivals([log], random.Random(0))
        )
        fields, left = await store.redis.ask(["HLEN", day], ["TTL", day])
        together = [row for row in await counted(stored_range) if row[1] == "*"]
    finally:
        await store.close()
    assert together == [(DAY, "*", log.key.agent, log.key.agent, *ONCE)]
    assert fields == most + len(ONCE)
    assert left > 24 * 3600
