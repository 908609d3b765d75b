"""Reads: never stale, complete, scoped to their owner."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import orjson
import pytest

from headrace.jetstream.api import stream_state
from headrace.jetstream.streams import ensure_streams
from headrace.model import events
from headrace.model.errors import InvalidName, StateUnavailable, TaskUnknown
from headrace.model.events import GENERATION, Json
from headrace.model.messages import GetTask
from headrace.model.task import (
    BARE_MESSAGE,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    SUBMITTED,
    WORKING,
    TaskKey,
)
from headrace_task_state.queries.frontier import Frontier
from headrace_task_state.store import Range
from tests.support.delete_stream import delete_stream
from tests.support.legal_logs import LegalLog
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.task_states import OWNER, TaskStates, folded, new_key, open_task_states
from tests.support.waiting import TIMEOUT, eventually

FIRST = Range(0)


def begun(key: TaskKey | None = None, context: str = "context-1", owner: str = OWNER) -> LegalLog:
    log = LegalLog(key or new_key(), context=context, owner=owner)
    log.submit("hello")
    log.begin_attempt()
    log.append([log.chunk("a", "some text")], state=WORKING)
    return log


def ended(key: TaskKey | None = None, **output: str) -> LegalLog:
    log = begun(key, **output)
    log.append([log.status(COMPLETED)], state=COMPLETED)
    return log


async def hold_up(fleet: TaskStates) -> None:
    """Keep replicas from following: somebody else has the lease and does nothing with it."""
    await fleet.redis.ask(["SET", fleet.keys.lease(FIRST), "a frozen replica"])


async def test_a_get_is_not_stale_while_no_replica_applies_the_log(fleet: TaskStates) -> None:
    log = begun()
    replica = await fleet.start()
    await fleet.store(log)
    await fleet.listed()
    await replica.stop()
    await hold_up(fleet)
    await fleet.start()
    seen = len(log.entries)
    log.append([log.chunk("a", " and more")], state=WORKING)
    log.append([log.status(COMPLETED)], state=COMPLETED)
    await fleet.store(log, seen)
    found = await fleet.get(log.key)
    assert found.task == folded(log)
    assert found.state == COMPLETED
    assert (found.generation, found.sequence) == (log.generation, len(log.entries))
    assert (found.agent, found.log) == (log.key.agent, log.log)


async def test_a_get_needs_no_view_at_all(fleet: TaskStates) -> None:
    log = ended()
    await hold_up(fleet)
    await fleet.start()
    await fleet.store(log)
    assert (await fleet.get(log.key)).task == folded(log)
    assert (await fleet.get(log.key, agent=log.key.agent)).task == folded(log)


async def test_without_redis_a_get_is_answered_from_the_log(
    nats_server: NatsProcess, tmp_path: Path
) -> None:
    log, theirs = ended(), ended(owner="other")
    with ValkeyProcess(tmp_path) as valkey:
        async with open_task_states(nats_server.url, valkey.url) as fleet:
            await fleet.start()
            for each in (log, theirs):
                await fleet.store(each)
            await fleet.listed()
            valkey.freeze()
            try:
                query = GetTask(tenant="default", owner=OWNER, task=log.key.task)
                subject, replica = fleet.bus.subjects.state("get"), query.encode()

                async def is_answered() -> bool:
                    msg = await fleet.bus.request(subject, replica, TIMEOUT)
                    return bool(orjson.loads(msg.data).get("task") == folded(log))

                await eventually(is_answered, "the replica reads the log")
                with pytest.raises(TaskUnknown):
                    await fleet.get_now(theirs.key)
                with pytest.raises(StateUnavailable):
                    await fleet.list_without_retries()
            finally:
                valkey.thaw()


async def test_without_any_task_state_a_get_is_answered_from_the_log(fleet: TaskStates) -> None:
    log, theirs = begun(), ended(owner="other")
    log.append([log.status(INPUT_REQUIRED)], state=INPUT_REQUIRED)
    log.submit("more", {events.TRACEPARENT: "00-trace"})
    for each in (log, theirs):
        await fleet.store(each)
    found = await fleet.get_now(log.key)
    assert (found.task, found.log, found.agent) == (folded(log), log.log, log.key.agent)
    assert (found.generation, found.sequence) == (log.generation, len(log.entries))
    assert (found.state, found.traceparent) == (SUBMITTED, "00-trace")
    for key, query in (
        (theirs.key, {}),
        (log.key, {"agent": "another"}),
        (log.key, {"tenant": "elsewhere"}),
        (log.key, {"agent": "*"}),
        (new_key(), {}),
        (new_key(999), {}),
    ):
        with pytest.raises(TaskUnknown):
            await fleet.get_now(key, **query)


@pytest.mark.parametrize("replicas", [0, 1])
async def test_a_log_that_states_no_status_is_no_task(fleet: TaskStates, replicas: int) -> None:
    log, again = ended(), LegalLog(new_key())
    again.submit("hello")
    for _ in range(replicas):
        await fleet.start()
    await fleet.store(log)
    await fleet.bus.js.publish(
        fleet.bus.subjects.event(again.key),
        orjson.dumps({"task": {"id": again.key.task}}),
        timeout=TIMEOUT,
        headers=again.entries[0][0].headers(),
    )
    read = fleet.get if replicas else fleet.get_now
    assert (await read(log.key)).task == folded(log)
    with pytest.raises(TaskUnknown):
        await read(again.key)


@pytest.mark.parametrize("replicas", [0, 1])
async def test_a_get_ends_with_the_logs_end_whatever_stands_behind_it(
    fleet: TaskStates, replicas: int
) -> None:
    log = ended()
    whole, count = folded(log), len(log.entries)
    log.append([log.status(WORKING), log.chunk("b", "a lie")], state=WORKING)
    log.append([log.status(FAILED)], state=FAILED)
    for _ in range(replicas):
        await fleet.start()
    await fleet.store(log, 0)
    assert len(log.entries) == count + 2
    read = fleet.get if replicas else fleet.get_now
    assert (await read(log.key)).task == whole


async def test_a_list_states_that_it_can_not_be_complete(fleet: TaskStates) -> None:
    await hold_up(fleet)
    await fleet.start()
    assert await fleet.listed() == {}
    await fleet.store(begun())
    with pytest.raises(StateUnavailable):
        await fleet.list_without_retries()


async def lose_view(fleet: TaskStates) -> None:
    """Do as FLUSHALL does, and keep replicas from rebuilding the view."""
    await fleet.lose_view()
    await hold_up(fleet)


async def test_a_view_lost_in_the_moment_is_not_taken_for_an_empty_one(
    fleet: TaskStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fleet.start()
    await fleet.store(begun())
    assert len(await fleet.listed()) == 1
    reached = Frontier.reached

    async def reached_and_lost(frontier: Frontier) -> object:
        found = await reached(frontier)
        await lose_view(fleet)
        return found

    monkeypatch.setattr(Frontier, "reached", reached_and_lost)
    with pytest.raises(StateUnavailable):
        await fleet.list_now()


async def test_a_list_has_what_was_stored_just_before(fleet: TaskStates) -> None:
    await fleet.start()
    await fleet.followed()
    logs = []
    for _ in range(30):
        logs.append(begun())
        await fleet.store(logs[-1])
        assert len(await fleet.listed()) == len(logs)


async def test_a_list_does_not_wait_for_more_output(
    fleet: TaskStates,
) -> None:
    fleet.timing = replace(fleet.timing, output_linger=3600.0)
    await fleet.start()
    await fleet.followed()
    log = begun()
    await fleet.store(log)
    assert await fleet.listed() == {log.key.task: folded(log)}
    seen = len(log.entries)
    log.append([log.chunk("a", " and more")], state=WORKING)
    await fleet.store(log, seen)
    assert await fleet.listed() == {log.key.task: folded(log)}


async def test_a_task_that_stops_working_is_in_the_view_at_once(
    fleet: TaskStates,
) -> None:
    fleet.timing = replace(fleet.timing, output_linger=3600.0)
    await fleet.start()
    await fleet.followed()
    await fleet.store(ended())
    head = (await fleet.bus.js.stream_info(fleet.bus.streams.events(0))).state.last_seq

    async def applied() -> bool:
        return await fleet.reader.positions([FIRST]) == [head]

    await eventually(applied, "the end is applied")
    assert len(await fleet.listed()) == 1


async def test_many_questions_at_once_are_all_answered(fleet: TaskStates) -> None:
    await fleet.start()
    log = ended()
    await fleet.store(log)
    found, listed = await asyncio.gather(
        asyncio.gather(*(fleet.get(log.key) for _ in range(50))),
        asyncio.gather(*(fleet.listed() for _ in range(50))),
    )
    assert [answer.task for answer in found] == [folded(log)] * 50
    assert listed == [{log.key.task: folded(log)}] * 50


async def test_another_owners_task_looks_like_a_missing_one(fleet: TaskStates) -> None:
    theirs, mine = ended(owner="other"), ended()
    await fleet.start()
    for log in (theirs, mine):
        await fleet.store(log)
    assert set(await fleet.listed()) == {mine.key.task}
    assert set(await fleet.listed(owner="other")) == {theirs.key.task}
    assert await fleet.listed(tenant="elsewhere") == {}
    refused = [
        {"key": theirs.key},
        {"key": mine.key, "tenant": "elsewhere"},
        {"key": mine.key, "agent": "another"},
        {"key": mine.key, "agent": "*"},
        {"key": mine.key, "tenant": "*"},
        {"key": new_key()},
        {"key": new_key(999)},
        {"key": TaskKey("default", "agent", "no id")},
        {"key": TaskKey("default", "agent", "*")},
    ]
    messages = set()
    for query in refused:
        with pytest.raises(TaskUnknown) as raised:
            await fleet.get(**query)  # type: ignore[arg-type]
        messages.add(str(raised.value))
    assert len(messages) == 1


async def test_the_history_is_as_long_as_requested(fleet: TaskStates) -> None:
    log = begun()
    log.append([log.status(INPUT_REQUIRED)], state=INPUT_REQUIRED)
    log.submit("more")
    log.begin_attempt()
    await fleet.start()
    await fleet.store(log)
    assert len((await fleet.get(log.key)).task["history"]) == 2
    [last] = (await fleet.get(log.key, history_length=1)).task["history"]
    assert last["parts"] == [{"text": "more"}]
    assert "history" not in (await fleet.get(log.key, history_length=0)).task
    [listed] = (await fleet.list(history_length=0, include_artifacts=False)).tasks
    assert "history" not in listed
    assert "artifacts" not in listed
    assert listed["metadata"][GENERATION] == log.generation


def timed(log: LegalLog, state: str, at: datetime) -> LegalLog:
    status = {"state": state, "timestamp": at.isoformat().replace("+00:00", "Z")}
    body = {"taskId": log.key.task, "contextId": log.context, "status": status}
    log.append([events.draft("statusUpdate", body)], state=state)
    return log


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


async def some_tasks(fleet: TaskStates) -> list[LegalLog]:
    """Store 24 tasks of two agents, two contexts, two states; newest first, in threes."""
    logs = [
        timed(
            begun(new_key(n % 16, agent=f"agent{n % 2}"), context=f"context {n % 3}"),
            COMPLETED if n % 4 else WORKING,
            NOON - timedelta(minutes=n // 3),
        )
        for n in range(24)
    ]
    for log in reversed(logs):
        await fleet.store(log)
    return logs


async def test_lists_page_newest_first_without_loss_or_repetition(fleet: TaskStates) -> None:
    await fleet.start()
    logs = await some_tasks(fleet)
    expected = [log.key.task for log in logs]
    for size in (1, 5, 24, 50):
        seen: list[Json] = []
        token = ""
        while True:
            page = await fleet.list(page_size=size, page_token=token)
            assert (page.total_size, page.page_size) == (24, size)
            assert len(page.tasks) <= size
            seen += page.tasks
            if not (token := page.next_page_token):
                break
        assert sorted(task["id"] for task in seen) == sorted(expected)
        times = [task["status"]["timestamp"] for task in seen]
        assert all(first >= second for first, second in pairwise(times))


async def test_lists_contain_tasks_in_any_of_the_states(fleet: TaskStates) -> None:
    await fleet.start()
    logs = await some_tasks(fleet)
    at_work = {log.key.task for log in logs[::4]}
    found = await fleet.list(states=[SUBMITTED, WORKING])
    assert {task["id"] for task in found.tasks} == at_work
    assert (await fleet.list(states=[COMPLETED, WORKING])).total_size == 24


async def test_a_page_begins_where_the_last_one_ended_although_tasks_move(
    fleet: TaskStates,
) -> None:
    await fleet.start()
    logs = await some_tasks(fleet)
    first = await fleet.list(page_size=10)
    moved = next(log for log in logs if log.key.task == first.tasks[-1]["id"])
    seen = len(moved.entries)
    await fleet.store(timed(moved, COMPLETED, NOON + timedelta(hours=1)), seen)
    rest = await fleet.list(page_size=50, page_token=first.next_page_token)
    ids = [task["id"] for task in (*first.tasks, *rest.tasks)]
    assert sorted(ids) == sorted(log.key.task for log in logs)


async def test_filters_combine(fleet: TaskStates) -> None:
    await fleet.start()
    logs = await some_tasks(fleet)
    after = NOON - timedelta(minutes=3)
    for agent in (None, "agent1", "nobody"):
        for context in (None, "context 2", "context"):
            for status in (None, WORKING, SUBMITTED):
                for since in (None, after.isoformat()):
                    expected = {
                        log.key.task
                        for n, log in enumerate(logs)
                        if agent in (None, log.key.agent)
                        and context in (None, log.context)
                        and status in (None, log.state)
                        and (since is None or n // 3 <= 3)
                    }
                    states = [] if status is None else [status]
                    agents = [] if agent is None else [agent]
                    query = {"agents": agents, "context": context, "states": states}
                    found = await fleet.listed(**query, status_after=since, page_size=4)
                    assert set(found) == expected, query


@pytest.mark.parametrize(
    "since",
    [
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "1600-01-01T00:00:00Z",
        "1969-12-31T23:59:59.999999Z",
        "1970-01-01T00:00:00Z",
        "1970-01-01T00:00:00.001Z",
    ],
)
async def test_a_time_before_all_tasks_filters_none_whatever_its_zero_is(
    fleet: TaskStates, since: str
) -> None:
    log = begun()
    await fleet.start()
    await fleet.store(log)
    assert set(await fleet.listed(status_after=since)) == {log.key.task}
    assert set(await fleet.listed(status_after=since, context=log.context)) == {log.key.task}
    assert await fleet.listed(status_after="9999-12-31T23:59:59Z") == {}


async def test_a_list_moves_a_task_with_its_status(fleet: TaskStates) -> None:
    log = begun(context="it:s:TASK_STATE_WORKING")
    await fleet.start()
    await fleet.store(log)
    assert set(await fleet.listed(states=[WORKING], context=log.context)) == {log.key.task}
    assert await fleet.listed(states=[COMPLETED]) == {}
    assert await fleet.listed(context="it") == {}
    seen = len(log.entries)
    log.append([log.status(COMPLETED)], state=COMPLETED)
    await fleet.store(log, seen)
    assert set(await fleet.listed(states=[COMPLETED], context=log.context)) == {log.key.task}
    assert await fleet.listed(states=[WORKING]) == {}


async def test_a_bare_message_is_no_task_to_list(fleet: TaskStates) -> None:
    log = LegalLog(new_key())
    log.submit("hello")
    await fleet.start()
    await fleet.store(log)
    assert set(await fleet.listed()) == {log.key.task}
    message = {"messageId": "x", "role": "ROLE_AGENT", "parts": [{"text": "42"}]}
    log.append([events.bare_message(log.context, message)], state=BARE_MESSAGE)
    await fleet.store(log, 1)
    assert await fleet.listed() == {}
    assert await fleet.listed(states=[SUBMITTED]) == {}
    found = await fleet.get(log.key)
    assert found.state == BARE_MESSAGE
    assert found.task["status"]["message"]["parts"] == [{"text": "42"}]


@pytest.mark.parametrize(
    "query",
    [
        {"page_token": "nonsense"},
        {"page_token": "????"},
        {"page_token": "é"},
        {"page_token": "WzEsMl0"},
        {"states": ["TASK_STATE_WORKING", "TASK_STATE_NONSENSE"]},
        {"status_after": "yesterday"},
    ],
    ids=str,
)
async def test_what_makes_no_sense_is_refused(fleet: TaskStates, query: Json) -> None:
    await fleet.start()
    with pytest.raises(InvalidName):
        await fleet.list(**query)


async def test_a_malformed_question_is_refused_with_the_field(fleet: TaskStates) -> None:
    await fleet.start()
    subject = fleet.bus.subjects.state("get")
    for body in (b"nonsense", b"[]", b"", b'{"tenant":1}'):
        answer = orjson.loads((await fleet.bus.request(subject, body, 30)).data)
        assert answer["code"] == "bad_request"
    msg = await fleet.bus.request(subject, b'{"tenant":"t","owner":"o"}', 30)
    assert orjson.loads(msg.data)["message"].startswith("query.task:")


async def test_an_operator_reads_all_owners_tasks_of_its_tenant(fleet: TaskStates) -> None:
    await fleet.start()
    logs = [begun(), ended(owner="other"), ended(owner="third")]
    for log in logs:
        await fleet.store(log)
    all_owners = await fleet.listed(any_owner=True, page_size=2)
    assert all_owners == {log.key.task: folded(log) for log in logs}
    assert set(await fleet.listed(any_owner=True, states=[COMPLETED])) == {
        log.key.task for log in logs[1:]
    }
    assert (await fleet.get(logs[1].key, any_owner=True)).task == folded(logs[1])
    assert await fleet.listed(any_owner=True, tenant="elsewhere") == {}
    with pytest.raises(TaskUnknown):
        await fleet.get(logs[1].key, any_owner=True, tenant="elsewhere")


async def test_contexts_of_two_owners_with_one_id_are_two(fleet: TaskStates) -> None:
    await fleet.start()
    mine, theirs = begun(context="shared"), begun(context="shared", owner="other")
    for log in (mine, theirs):
        await fleet.store(log)
    assert set(await fleet.listed(context="shared")) == {mine.key.task}
    assert set(await fleet.listed(context="shared", owner="other")) == {theirs.key.task}


async def test_a_task_larger_than_a_message_is_read_whole(fleet: TaskStates) -> None:
    log = begun()
    for name in "bcde":
        log.append([log.chunk(name, name * 900_000)], state=WORKING)
    await fleet.start()
    await fleet.start()
    await fleet.store(log)
    assert (await fleet.get(log.key)).task == folded(log)
    assert await fleet.listed() == {log.key.task: folded(log)}


async def test_junk_at_a_logs_tail_does_not_hide_the_task(fleet: TaskStates) -> None:
    log = begun()
    await fleet.start()
    await fleet.store(log)
    await fleet.bus.js.publish(fleet.bus.subjects.event(log.key), b"junk")
    found = await fleet.get(log.key)
    assert found.task == folded(log)
    assert found.sequence == len(log.entries)


async def test_a_log_begun_again_is_read_from_its_beginning(fleet: TaskStates) -> None:
    log = begun()
    replica = await fleet.start()
    await fleet.store(log)
    await fleet.listed()
    await replica.stop()
    await hold_up(fleet)
    await fleet.start()
    subject = fleet.bus.subjects.event(log.key)
    await fleet.bus.js.purge_stream(fleet.bus.streams.events(0), subject=subject)
    again = LegalLog(log.key, log="otherlog")
    again.submit("again")
    await fleet.store(again)
    found = await fleet.get(log.key)
    assert (found.log, found.task) == ("otherlog", folded(again))


async def test_without_streams_reads_are_unavailable_and_recover(fleet: TaskStates) -> None:
    await fleet.start()
    log = begun()
    await delete_stream(fleet.bus.js, fleet.bus.streams.events(0))
    with pytest.raises(StateUnavailable):
        await fleet.get_now(log.key)
    await ensure_streams(fleet.bus.js, fleet.settings)
    await fleet.store(log)

    async def listed() -> bool:
        try:
            return log.key.task in await fleet.listed()
        except StateUnavailable:
            return False

    await eventually(listed, "the task is listed")


async def test_ready_states_whether_a_replica_follows(fleet: TaskStates) -> None:
    async def following() -> bool:
        subject = fleet.bus.subjects.state("ready")
        answer = orjson.loads((await fleet.bus.request(subject, b"{}", 30)).data)
        return bool(answer["following"])

    await hold_up(fleet)
    await fleet.start()
    assert not await following()
    await fleet.redis.ask(["DEL", fleet.keys.lease(FIRST)])
    await eventually(following, "somebody follows")


async def test_ready_states_how_far_each_range_is(fleet: TaskStates) -> None:
    await fleet.start()
    await fleet.store(begun())

    async def positions() -> bool:
        subject = fleet.bus.subjects.state("ready")
        answer = orjson.loads((await fleet.bus.request(subject, b"", 30)).data)
        head = await stream_state(fleet.bus, fleet.bus.streams.events(0))
        return bool(answer["positions"]["0"] == head.last > 0)

    await eventually(positions, "the range is at the head")
