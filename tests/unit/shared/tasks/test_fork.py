"""A fork's log is a copy of its source's past, for every reader of logs."""

import asyncio
import tracemalloc
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.jetstream.api import store, stream_info
from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileOwner, FileStore
from headrace.log import last_entry, replay
from headrace.model import events
from headrace.model.delegation import ASKS_FOR, CHILD
from headrace.model.entry import Entry
from headrace.model.errors import FileUnknown, LogLost
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.fork import FORK_OF, MOST_FORKS, ForkOf, ForkPoint, ForkPoints
from headrace.model.task import INPUT_REQUIRED, RUN_ENDED, WORKING, TaskKey, mint_task_id
from headrace.tasks.fork import Fork, copy_past, fork_point, hand_over, unfinished_fork
from tests.support.legal_logs import LegalLog, legal_logs
from tests.support.memory_bus import memory_bus

SOURCE = TaskKey("t", "agent", "0-" + "0" * 32)


async def stored(bus: Bus, log: LegalLog) -> int:
    """Store the log and return its last sequence."""
    sequence = 0
    for stamp, body in log.entries:
        sequence = await store(bus, bus.subjects.event(log.key), body, 1.0, stamp.headers())
    return sequence


async def forked(bus: Bus, head: int, generation: int, source: TaskKey = SOURCE) -> Fork:
    point, metadata, context = await fork_point(bus, source, head, generation)
    of = ForkOf(
        source.task,
        context,
        point.generation,
        point.at,
        generation,
        point.state,
        before=ForkOf.of(metadata),
    )
    key = TaskKey(source.tenant, source.agent, mint_task_id(0))
    return Fork(source, key, "anonymous", "other", of, point)


async def entries(bus: Bus, key: TaskKey) -> list[Entry]:
    last = await last_entry(bus, key)
    assert last is not None
    return [one async for batch in replay(bus, key, 0, last.sequence) for one in batch]


def folded(log: list[Entry], generation: int) -> TaskFold:
    fold = TaskFold()
    for entry in log:
        for event in entry.parsed():
            if fold.generation < generation:
                fold.apply(event)
    return fold


def without_ids(task: Json) -> Json:
    """Return the task without what a fork has of its own, and without the times of statuses."""
    kept = {k: v for k, v in task.items() if k not in {"id", "contextId"}}
    own = {FORK_OF, events.TASK_ALREADY_SENT}
    kept["metadata"] = {k: v for k, v in task["metadata"].items() if k not in own}
    status = {k: v for k, v in task["status"].items() if k != "timestamp"}
    kept["status"] = status | ({"state": "at rest"} if status["state"] in RUN_ENDED else {})
    messages = [*task.get("history", []), *([m] if (m := status.get("message")) else [])]
    for message in messages:
        for name in ("taskId", "contextId"):
            message.pop(name, None)
    return kept


@given(log=legal_logs(SOURCE), data=st.data())
async def test_a_fork_at_any_generation_folds_to_what_its_source_was(
    log: LegalLog, data: st.DataObject
) -> None:
    generation = data.draw(st.integers(1, log.generation))
    async with memory_bus() as bus:
        head = await stored(bus, log)
        fork = await forked(bus, head, generation)
        copied = await copy_past(bus, fork, head)
        copy, source = await entries(bus, fork.key), await entries(bus, SOURCE)
    at = copied.generation
    assert (at <= generation, at) == (True, fork.point.generation)
    assert [e.generation for e in copy] == sorted({e.generation for e in copy})
    mine, others = folded(copy, at), folded(source, at)
    assert without_ids(mine.task()) == without_ids(others.task())
    assert mine.task()["id"] == fork.key.task
    assert copy[-1].stamp.state == mine.state
    assert SOURCE.task not in mine.task().get("history", [{}])[0].get("taskId", "")


@given(log=legal_logs(SOURCE), data=st.data())
async def test_runs_attempts_and_checkpoints_of_the_copy_are_the_sources(
    log: LegalLog, data: st.DataObject
) -> None:
    generation = data.draw(st.integers(1, log.generation))
    async with memory_bus() as bus:
        head = await stored(bus, log)
        fork = await forked(bus, head, generation)
        await copy_past(bus, fork, head)
        copy, source = await entries(bus, fork.key), await entries(bus, SOURCE)

    def rows(log: list[Entry]) -> list[tuple[Any, ...]]:
        return [
            (at, entry.stamp.run, entry.stamp.attempt)
            for entry in log
            for at in range(entry.generation, entry.last_generation + 1)
            if at <= fork.point.generation
        ]

    def checkpoints(log: list[Entry]) -> list[int]:
        return [
            entry.last_generation
            for entry in log
            if entry.stamp.checkpoint is not None and entry.last_generation <= fork.point.generation
        ]

    assert rows(copy) == rows(source)
    assert checkpoints(copy) == checkpoints(source)


@given(log=legal_logs(SOURCE), data=st.data())
async def test_an_unfinished_copy_is_recognized_and_finished_by_another_process(
    log: LegalLog, data: st.DataObject
) -> None:
    async with memory_bus() as bus:
        head = await stored(bus, log)
        fork = await forked(bus, head, log.generation)
        whole = await copy_past(bus, fork, head)
        copy = await entries(bus, fork.key)
        assert await unfinished_fork(bus, fork.key, copy[-1]) is None
        # A process that died after some of its appends.
        kept = data.draw(st.integers(1, len(copy)))
        other = TaskKey(SOURCE.tenant, SOURCE.agent, mint_task_id(0))
        for entry in copy[:kept]:
            headers = entry.stamp.headers()
            await store(bus, bus.subjects.event(other), b"\n".join(entry.lines), 1.0, headers)
        tail = (await entries(bus, other))[-1]
        unfinished = await unfinished_fork(bus, other, tail)
        assert (unfinished is not None) == (kept < len(copy))
        again = Fork(SOURCE, other, "anonymous", "other", fork.of, fork.point)
        finished = await copy_past(bus, again, head)
        assert (finished.generation, finished.log) == (whole.generation, whole.log)
        assert len(await entries(bus, other)) == len(copy)


def run_with(log: LegalLog, *steps: str) -> None:
    """Begin an attempt and append steps: "checkpoint", "child", "text" or a state."""
    log.begin_attempt()
    for step in steps:
        match step:
            case "text" | "checkpoint":
                log.append([log.chunk("a", "x")], state=WORKING, checkpoint=step == "checkpoint")
            case "child":
                child = {"task": "0-" + "1" * 32, "generation": 0, "agent": "other"}
                log.append([log.status(WORKING, metadata={CHILD: child})])
            case "asks for a child":
                asks = {ASKS_FOR: {"task": "0-" + "1" * 32, "agent": "other"}}
                log.append([log.status(INPUT_REQUIRED, metadata=asks)], state=INPUT_REQUIRED)
            case state:
                log.append([log.status(state)], state=state)


def point_of(log: LegalLog, generation: int | None = None) -> ForkPoint:
    points = ForkPoints(generation or log.generation)
    for entry in log.parsed():
        points.add(entry)
    assert points.point is not None
    return points.point


def test_a_fork_in_the_middle_of_a_run_begins_at_its_last_checkpoint_or_input() -> None:
    log = LegalLog(SOURCE)
    log.submit()
    run_with(log, "text", "checkpoint", "text", INPUT_REQUIRED)
    assert [point_of(log, at).generation for at in range(1, 7)] == [1, 1, 1, 4, 4, 6]
    assert [point_of(log, at).run_ended for at in (1, 4, 6)] == [False, False, True]


def test_a_run_that_has_delegated_continues_from_before_that() -> None:
    log = LegalLog(SOURCE)
    log.submit()
    run_with(log, "checkpoint", "child", "checkpoint", "text")
    assert (point_of(log).generation, point_of(log).attempt) == (3, 1)


def test_a_question_of_a_child_and_its_answer_are_no_fork_points() -> None:
    log = LegalLog(SOURCE)
    log.submit()
    run_with(log, "checkpoint", "child", "asks for a child")
    assert point_of(log).generation == 3
    log.submit("the child's answer")
    run_with(log, "checkpoint")
    assert point_of(log).generation == 3
    log.append([log.status(INPUT_REQUIRED)], state=INPUT_REQUIRED)
    assert point_of(log).generation == log.generation


def test_messages_that_wait_at_the_point_are_known() -> None:
    log = LegalLog(SOURCE)
    log.submit()
    log.begin_attempt()
    message = {"messageId": "q", "role": "ROLE_USER", "parts": [{"text": "?"}]}
    for name in ("a", "b"):
        queued = events.queued(SOURCE.task, log.context, WORKING, message, None, name)
        log.append([queued], state=WORKING)
    log.append([log.status(WORKING, message, {events.TAKEN: 3})], checkpoint=True)
    assert point_of(log).waiting == (4,)


def test_messages_that_a_discarded_attempt_took_wait_again_at_the_point() -> None:
    log = LegalLog(SOURCE)
    log.submit()
    log.begin_attempt()
    message = {"messageId": "q", "role": "ROLE_USER", "parts": [{"text": "?"}]}
    queued = events.queued(SOURCE.task, log.context, WORKING, message, None, "a")
    log.append([queued], state=WORKING)
    log.append([log.status(WORKING, message, {events.TAKEN: 3})])
    log.begin_attempt()
    log.append([log.chunk("answer", "not yet")], checkpoint=True)
    assert point_of(log).waiting == (3,)


def test_messages_behind_a_question_wait_at_the_point_that_is_the_question() -> None:
    log = LegalLog(SOURCE)
    log.submit()
    log.begin_attempt()
    message = {"messageId": "q", "role": "ROLE_USER", "parts": [{"text": "?"}]}
    queued = events.queued(SOURCE.task, log.context, WORKING, message, None, "a")
    log.append([queued], state=WORKING)
    log.append([log.status(INPUT_REQUIRED)], state=INPUT_REQUIRED)
    point = point_of(log)
    assert (point.run_ended, point.waiting) == (True, (3,))


async def test_files_are_copied_and_links_lead_to_the_copies() -> None:
    owner, log = FileOwner("anonymous", "context-1"), LegalLog(SOURCE)
    async with memory_bus() as bus:
        files = FileStore(bus)
        link = await files.put(SOURCE, owner, b"x" * 300_000, "x.bin", "application/x")
        log.submit()
        log.begin_attempt()
        part = {"url": link, "filename": "x.bin"}
        body = {"artifactId": "f", "parts": [part, part]}
        log.append([events.artifact_update(SOURCE.task, log.context, body)])
        log.append([log.status(INPUT_REQUIRED)], state=INPUT_REQUIRED)
        stamp, drafts = log.messages[2]
        kept = orjson.dumps({"data": {"link": link}, "ids": {}, "index": 0}).decode()
        log.messages[2] = stamp._replace(checkpoint=kept), drafts
        head = await stored(bus, log)
        fork = await forked(bus, head, log.generation)
        await copy_past(bus, fork, head)
        copy = await entries(bus, fork.key)
        [artifact] = folded(copy, 99).task()["artifacts"]
        links = {part["url"] for part in artifact["parts"]}
        held = {entry.stamp.checkpoint or "" for entry in copy} - {""}
        await files.drop(SOURCE)
        content = await files.read(links.pop(), "t", FileOwner("anonymous", "other"))
    assert (content, links) == (b"x" * 300_000, set())
    assert fork.key.task in held.pop()
    assert not held


async def test_a_malformed_event_stays_unreadable_and_is_no_obstacle() -> None:
    log = LegalLog(SOURCE)
    log.submit()
    log.begin_attempt()
    log.append([events.draft("statusUpdate", {"status": 7}), events.draft("what", {"task": 1})])
    log.append([log.status(INPUT_REQUIRED)], state=INPUT_REQUIRED)
    async with memory_bus() as bus:
        head = await stored(bus, log)
        fork = await forked(bus, head, log.generation)
        copied = await copy_past(bus, fork, head)
        copy = await entries(bus, fork.key)
    assert copied.generation == log.generation
    assert folded(copy, 99).state == INPUT_REQUIRED


async def test_an_attempt_of_the_source_is_handed_over_and_not_counted_as_failed() -> None:
    log = LegalLog(SOURCE)
    log.submit()
    run_with(log, "checkpoint", "text")
    async with memory_bus() as bus:
        head = await stored(bus, log)
        fork = await forked(bus, head, log.generation)
        over = await hand_over(bus, fork, await copy_past(bus, fork, head))
        last = (await entries(bus, fork.key))[-1]
    assert (last.stamp.run, last.stamp.attempt, over.generation) == (1, 1, 4)
    metadata = last.events[0]["statusUpdate"]["metadata"]
    assert metadata[events.HANDED_BACK] == events.LEAVING


async def test_terms_of_the_past_are_not_those_of_the_fork() -> None:
    log = LegalLog(SOURCE)
    stale = {events.START_BY: "2020-01-01T00:00:00Z", events.WAIT_FOR: ["0-" + "2" * 32]}
    log.submit(metadata={**stale, events.PRIORITY: "low", "mine": 1})
    async with memory_bus() as bus:
        head = await stored(bus, log)
        fork = await forked(bus, head, 1)
        copied = await copy_past(bus, fork, head)
        task = folded(await entries(bus, fork.key), 1).task()
    assert (copied.priority, task["metadata"]["mine"]) == ("low", 1)
    assert not stale.keys() & task["metadata"].keys()


async def test_a_source_without_its_beginning_can_not_be_forked() -> None:
    log = LegalLog(SOURCE)
    log.submit()
    log.begin_attempt()
    log.messages.pop(0)
    async with memory_bus() as bus:
        head = await stored(bus, log)
        with pytest.raises(LogLost):
            await fork_point(bus, SOURCE, head, 2)


def test_what_a_fork_states_about_its_source_can_be_read_back() -> None:
    fork = ForkOf("0-" + "0" * 32, "c", 3, "2026-01-01T00:00:00Z", 5, WORKING, goes_on=True)
    chain = fork
    for _ in range(MOST_FORKS + 5):
        chain = ForkOf("0-" + "1" * 32, "c", 9, fork.at, 9, INPUT_REQUIRED, before=chain)
    assert ForkOf.of({FORK_OF: fork.to_json()}) == fork
    read = ForkOf.of({FORK_OF: chain.to_json()})
    assert read is not None
    assert len(read.chain()) == MOST_FORKS


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda x: st.dictionaries(
            st.sampled_from(
                ["task", "contextId", "at", "generation", "requested", "state", "before"]
            ),
            x,
        ),
    )
)
def test_other_values_are_no_forks(value: object) -> None:
    assert ForkOf.of({FORK_OF: value}) is None


async def test_a_copied_file_is_never_whole_in_memory() -> None:
    size, owner, reader = 16_000_000, FileOwner("anonymous", "other"), FileOwner("anonymous", "c")
    copy_to = TaskKey("t", "agent", mint_task_id(0))
    async with memory_bus() as bus:
        files = FileStore(bus)
        link = await files.put(SOURCE, reader, bytes(size))
        tracemalloc.start()
        try:
            copy = await files.copy(link, "t", reader, copy_to, owner)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        content = await files.read(copy, "t", owner)
    # The server in memory holds the copy once.
    assert size <= most < 1.3 * size
    assert content == bytes(size)


async def test_nothing_is_left_of_the_copy_of_a_file_that_is_deleted_meanwhile() -> None:
    owner, copy_to = FileOwner("anonymous", "c"), TaskKey("t", "agent", mint_task_id(0))
    async with memory_bus() as bus:
        files = FileStore(bus)
        link = await files.put(SOURCE, owner, bytes(10_000_000))

        async def copied() -> dict[str, int]:
            query = {"subjects_filter": f"$O.FILES.*.t.agent.{copy_to.task}.>"}
            found: Json = await stream_info(bus, "OBJ_FILES", query)
            return found["state"].get("subjects") or {}

        copying = asyncio.create_task(files.copy(link, "t", owner, copy_to, owner))
        while not await copied():  # noqa: ASYNC110  # the server tells of no change
            await asyncio.sleep(0)
        await files.drop(SOURCE)
        [ended] = await asyncio.gather(copying, return_exceptions=True)
        assert isinstance(ended, FileUnknown)
        assert await copied() == {}
