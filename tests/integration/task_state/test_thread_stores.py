"""Both stores keep the threads of tasks, whatever comes in how many batches."""

import random
from collections.abc import AsyncIterator, Sequence
from itertools import batched, pairwise
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nats.aio.msg import Msg

from headrace.log.read import TOMBSTONE
from headrace.model.delegation import DELEGATION, Lineage
from headrace.model.entry import OWNER
from headrace.model.messages import ListThreads, ThreadsFound
from headrace.model.task import COMPLETED, INPUT_REQUIRED, WORKING
from headrace.thread_marks import ThreadMark, ThreadMarks
from headrace_task_state.projector.batches import Batches
from headrace_task_state.projector.consumer import Arrival
from headrace_task_state.projector.summaries import summary_of
from headrace_task_state.queries.frontier import Frontier
from headrace_task_state.queries.list_threads import ThreadLists
from headrace_task_state.store import Heads, Progress, Reader, TaskChange
from headrace_task_state.store_memory import MemoryStore
from headrace_task_state.store_redis.store import RedisStore
from headrace_task_state.thread_rows import RowChange, StoredThread
from tests.integration.task_state.test_stores import (
    RANGES,
    SUBJECTS,
    StoredRange,
    arrivals,
    making_redis,
)
from tests.support.legal_logs import LegalLog, legal_logs
from tests.support.servers import ValkeyProcess
from tests.support.task_states import new_key


@pytest.fixture(params=["memory", "redis"])
async def stored_range(request: pytest.FixtureRequest) -> AsyncIterator[StoredRange]:
    """A new store of each kind."""
    if request.param == "memory":
        store = StoredRange(MemoryStore(RANGES))
    else:
        store = StoredRange(making_redis(request.getfixturevalue("valkey").url)())
    yield store
    await store.store.close()


async def threads(reader: Reader, owner: str = "anonymous") -> list[StoredThread]:
    """Return the owner's threads, in the order in which they were changed."""
    order = await reader.thread_order("default", owner, {})
    found = await reader.threads("default", owner, [context for context, _ in order.contexts])
    assert [(one.context, one.last.changed) for one in found] == order.contexts
    return found


async def applied(stored_range: StoredRange, some: Sequence[Arrival], size: int) -> None:
    """Apply entries in batches of a size, each by another replica."""
    for batch in batched(some, size):
        writer = await stored_range.writer()
        await stored_range.apply(writer, Batches(SUBJECTS, 5, 30), list(batch))
        await stored_range.leases.release([writer.lease])


def answered(context: str, question: str, *answer: str, agent: str = "shop") -> LegalLog:
    """Return the log of a task that answers in that many pieces."""
    log = LegalLog(new_key(agent=agent), context=context)
    log.submit(question)
    log.begin_attempt()
    for piece in answer:
        log.append([log.chunk("answer", piece)])
    log.append([log.status(COMPLETED)], state=COMPLETED)
    return log


def gone(log: LegalLog, number: int) -> Arrival:
    """Return the tombstone that replaces a log."""
    headers = {TOMBSTONE: "deleted", OWNER: log.owner}
    msg = Msg(_client=None, subject=SUBJECTS.event(log.key), data=b"", headers=headers)  # type: ignore[arg-type]  # nobody answers it
    return Arrival(number, number, number * 10**9, msg)


@pytest.mark.parametrize("size", [1, 3, 100])
async def test_a_thread_shows_its_first_and_its_last_message(
    stored_range: StoredRange, size: int
) -> None:
    logs = [
        answered("one", "How  are\nyou?", "Fine,", " thanks"),
        answered("two", "é" * 150, "x" * 300),
        answered("one", "And you?", "Fine too", agent="other"),
    ]
    await applied(stored_range, arrivals(logs[:1], random.Random(0)), size)
    before = stored_range.progress.position
    rest = [
        one._replace(sequence=one.sequence + before, time=one.time + before * 10**9)
        for log in logs[1:]
        for one in arrivals([log], random.Random(0))
    ]
    rest = [
        one._replace(sequence=before + at, time=(before + at) * 10**9)
        for at, one in enumerate(rest, 1)
    ]
    await applied(stored_range, rest, size)
    two, one = await threads(stored_range.reader)
    assert (one.context, one.tasks, one.agents) == ("one", 2, ("other", "shop"))
    assert (one.first.title, one.last.text, one.state) == ("How are you?", "Fine too", COMPLETED)
    assert one.first.created == 1_000_000
    assert one.answered == one.last.changed == stored_range.progress.position * 1_000_000
    assert two.first.title == "é" * 79 + "…"
    assert two.last.text == "x" * 200


@pytest.mark.parametrize("size", [1, 100])
async def test_a_question_is_shown_and_then_the_answer_to_it(
    stored_range: StoredRange, size: int
) -> None:
    log = LegalLog(new_key())
    log.submit("book a room")
    log.begin_attempt()
    log.append([log.chunk("a", "I look")])
    asked = {"messageId": "q", "role": "ROLE_AGENT", "parts": [{"text": "Which one?"}]}
    log.append([log.status(INPUT_REQUIRED, asked)], state=INPUT_REQUIRED)
    asked_at = len(log.entries)
    log.submit("the first")
    log.begin_attempt()
    said_at = len(log.entries)
    log.append([log.status(COMPLETED)], state=COMPLETED)
    some, seen = arrivals([log], random.Random(0)), list[StoredThread]()
    for first, end in ((0, asked_at), (asked_at, said_at), (said_at, len(some))):
        await applied(stored_range, some[first:end], size)
        seen += await threads(stored_range.reader)
    assert [one.last.text for one in seen] == ["Which one?", "the first", "the first"]
    assert [one.state for one in seen] == [INPUT_REQUIRED, WORKING, COMPLETED]
    times = [asked_at, asked_at, len(some)]
    assert [one.answered for one in seen] == [at * 1_000_000 for at in times]


async def test_a_thread_goes_with_its_last_task(stored_range: StoredRange) -> None:
    logs = [answered("one", f"question {number}", f"answer {number}") for number in range(3)]
    some = [one for log in logs for one in arrivals([log], random.Random(0))]
    some = [one._replace(sequence=at, time=at * 10**9) for at, one in enumerate(some, 1)]
    await applied(stored_range, some, 2)
    seen = list[list[StoredThread]]()
    for log in (logs[0], logs[2], logs[1]):
        number = stored_range.progress.position + 1
        await applied(stored_range, [gone(log, number)], 1)
        seen.append(await threads(stored_range.reader))
    [first], [second], last = seen
    assert (first.first.title, first.last.text, first.tasks) == ("question 1", "answer 2", 2)
    assert (second.first.title, second.last.text, second.tasks) == ("question 1", "answer 1", 1)
    assert second.answered == second.last.answered
    assert last == []


@pytest.mark.parametrize("size", [1, 100])
async def test_a_child_task_is_no_part_of_a_thread(stored_range: StoredRange, size: int) -> None:
    parent, child = answered("one", "question", "answer"), LegalLog(new_key(), context="one")
    lineage = Lineage(parent.key.task, parent.key.agent, 1, "part", ("shop",))
    child.submit("part of it", {DELEGATION: lineage.to_json()})
    child.begin_attempt()
    child.append([child.status(COMPLETED)], state=COMPLETED)
    some = arrivals([parent, child], random.Random(0))
    await applied(stored_range, some, size)
    [thread] = await threads(stored_range.reader)
    assert (thread.tasks, thread.last.text) == (1, "answer")


@settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
async def test_threads_are_the_same_in_any_batches_and_after_a_rebuild(
    valkey: ValkeyProcess, data: st.DataObject
) -> None:
    logs = [data.draw(legal_logs(new_key(shard, agent=f"agent{shard % 2}"))) for shard in range(3)]
    some = arrivals(logs, data.draw(st.randoms(use_true_random=False)))
    redis, memory = StoredRange(making_redis(valkey.url)()), StoredRange(MemoryStore(RANGES))
    rebuilt = StoredRange(making_redis(valkey.url)())
    try:
        await applied(redis, some, data.draw(st.integers(1, 12)))
        await applied(memory, some, len(some))
        await _rebuild(rebuilt, some)
        expected = await threads(memory.reader)
        assert await threads(redis.reader) == expected
        assert await threads(rebuilt.reader) == expected
    finally:
        await redis.store.close()
        await rebuilt.store.close()


async def _rebuild(stored_range: StoredRange, some: Sequence[Arrival]) -> None:
    """Apply the last entry of each log, then complete the summaries from the whole logs."""
    writer = await stored_range.writer()
    last = {arrival.msg.subject: arrival for arrival in some}
    keys = {subject: SUBJECTS.key_of_event(subject) for subject in last}
    found = [summary_of(one.stamp(), one, keys[subject]) for subject, one in last.items()]
    await writer.apply(Progress(), Progress(), [one for one in found if one is not None])
    order = await stored_range.reader.thread_order("default", "anonymous", {})
    assert len(order.summaries) == len([one for one in found if one is not None])
    for subject, summary in zip(last, found, strict=True):
        mine = [one for one in some if one.msg.subject == subject]
        [whole] = Batches(SUBJECTS, 5, 30).build(mine, Progress()).changes
        if summary is None:
            await writer.apply(Progress(), Progress(), [whole])
        else:
            task = f"default:{keys[subject].task}"
            assert await writer.complete(task, last[subject].sequence, whole)  # type: ignore[arg-type]  # no removal
    assert (await stored_range.reader.thread_order("default", "anonymous", {})).summaries == []


async def test_output_writes_nothing_to_a_thread(valkey: ValkeyProcess) -> None:
    """A run costs its thread a write when it begins, and one when it ends."""
    log = answered("one", "question", *"answered in pieces")
    stored_range = StoredRange(making_redis(valkey.url)())
    store = stored_range.store
    assert isinstance(store, RedisStore)
    written = list[bytes]()
    try:
        for one in arrivals([log], random.Random(0)):
            await applied(stored_range, [one], 1)
            keys = (await store.redis.ask(["KEYS", f"{store.keys.root}*:y:default:*"]))[0]
            [found] = await store.redis.ask(["HVALS", keys[0]])
            written.append(b"".join(sorted(found)))
    finally:
        await store.close()
    changes = [before != after for before, after in pairwise(written)]
    assert changes == [False] * (len(changes) - 1) + [True]


class _NothingSet:
    """Marks of owners who have set nothing."""

    async def of(self, _tenant: str, _owner: str) -> dict[str, ThreadMark]:
        """Return none."""
        return {}


class _Reached:
    """A view that has caught up."""

    async def reached(self) -> Heads:
        """Return no heads."""
        return {}


async def test_ten_thousand_threads_are_listed_and_searched(valkey: ValkeyProcess) -> None:
    number = 10_000
    stored_range = StoredRange(making_redis(valkey.url)())
    lists = ThreadLists(
        cast("ThreadMarks", _NothingSet()), stored_range.reader, cast("Frontier", _Reached())
    )

    async def page(**query: object) -> ThreadsFound:
        asked = ListThreads.model_validate({"tenant": "default", "owner": "ann", **query})
        return ThreadsFound.model_validate(await lists.find(asked))

    try:
        writer = await stored_range.writer()
        for some in batched(range(number), 1000):
            changes = [ended_change(one) for one in some]
            await writer.apply(Progress(), Progress(), changes)
        first = await page(page_size=100)
        second = await page(page_size=100, page_token=first.next_page_token)
        found = await page(words="question 77", page_size=100)
    finally:
        await stored_range.store.close()
    assert (first.total_size, second.total_size) == (number, number)
    shown = [one.id for one in (*first.threads, *second.threads)]
    assert shown == [f"context-{one}" for one in range(number - 1, number - 201, -1)]
    assert found.total_size == len([one for one in range(number) if "77" in str(one)[:2]])


def ended_change(number: int) -> TaskChange:
    """Return the change by a task in a thread of its own."""
    key, now = new_key(agent="shop"), number + 1
    log = f"log{number}"
    change = TaskChange(key, log, begins=True, owner="ann", context=f"context-{number}")
    change.state, change.time, change.ended = COMPLETED, now, now
    change.row = RowChange(now, now, now, f"question {number}", "answer")
    change.fields = {
        "log": log,
        "agent": "shop",
        "owner": "ann",
        "context": change.context,
        "state": COMPLETED,
        "sequence": str(now),
    }
    return change
