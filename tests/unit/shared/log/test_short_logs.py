"""A task whose log is short is read from it; about all others, task state is asked."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headrace.jetstream.api import get_message
from headrace.jetstream.client import NatsClient
from headrace.jetstream.direct_get import DirectAnswer, direct_get_begun
from headrace.jetstream.purge import purge
from headrace.links import Links
from headrace.log import LogWriter, read
from headrace.log.logged_task import SHORT, task_in_log, task_in_short_log
from headrace.log.tombstone import put_tombstone
from headrace.model import events
from headrace.model.entry import Entry
from headrace.model.errors import LogLost
from headrace.model.file_links import SCHEME
from headrace.model.messages import GetTask
from headrace.model.task import COMPLETED, INPUT_REQUIRED, WORKING, mint_task_id
from headrace.state_client import StateClient
from tests.support.memory_bus import memory_bus
from tests.support.task_log import TaskLog


@pytest.fixture(params=[True, False], ids=["one copy", "several copies"])
async def log(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[TaskLog]:
    if not request.param:
        monkeypatch.setattr(NatsClient, "has_only_copies", False)
    async with memory_bus() as bus:
        log = TaskLog(bus)
        await log.begin()
        yield log


def query(log: TaskLog, **other: Any) -> GetTask:  # noqa: ANN401 - any field
    named = {"tenant": "default", "owner": "owner", "agent": "agent", "task": log.key.task}
    return GetTask(**named | other)


async def test_a_short_log_tells_what_its_whole_log_tells(log: TaskLog) -> None:
    for state in (INPUT_REQUIRED, COMPLETED):
        await log.append("text", "more text", state=state)
        found = await task_in_short_log(log.bus, query(log))
        assert found is not None
        assert found.found(None) == await task_in_log(log.bus, query(log))
        assert (found.fold.state, found.sequence) == (state, log.writer.sequence)
        assert found.entries[-1].last_generation == log.writer.generation


@pytest.mark.parametrize("ended", [False, True])
async def test_a_log_that_is_begun_again_is_not_believed(log: TaskLog, *, ended: bool) -> None:
    await log.append("the end", state=COMPLETED if ended else INPUT_REQUIRED)
    known = await task_in_short_log(log.bus, query(log))
    assert known is not None
    again = TaskLog(log.bus, log.key, writer="hostile")
    again.writer = LogWriter(log.bus, log.key, sequence=log.writer.sequence)
    await again.begin()
    if ended:
        found = await task_in_short_log(log.bus, query(log))
        assert found is not None
        assert found.found(None) == known.found(None)
    else:
        with pytest.raises(LogLost):
            await task_in_short_log(log.bus, query(log))


async def test_later_entries_continue_the_task(log: TaskLog) -> None:
    found = await task_in_short_log(log.bus, query(log))
    assert found is not None
    await log.append("the end", state=COMPLETED)
    [*_, last] = await entries(log)
    found.add(last)
    assert found.found(None) == await task_in_log(log.bus, query(log))


async def entries(log: TaskLog) -> list[Entry]:
    return [
        entry
        async for batch in read.replay(log.bus, log.key, 0, log.writer.sequence)
        for entry in batch
    ]


@pytest.mark.parametrize("more", [0, 1])
async def test_a_log_is_short_up_to_a_number_of_events(log: TaskLog, more: int) -> None:
    await log.grow(SHORT + more - 1)
    await log.append("question", state=INPUT_REQUIRED)
    assert (await task_in_short_log(log.bus, query(log)) is None) == bool(more)


async def test_what_is_no_entry_of_a_short_log_is_skipped(log: TaskLog) -> None:
    await log.junk()
    await log.grow(2)
    await log.append("question", state=INPUT_REQUIRED)
    found = await task_in_short_log(log.bus, query(log))
    assert found is not None
    assert found.fold.generation == 3


@pytest.mark.parametrize(
    "other",
    [
        {"owner": "somebody"},
        {"agent": "another"},
        {"agent": None},
        {"tenant": "elsewhere"},
        {"task": mint_task_id(3)},
        {"task": "no-task-id"},
        {"agent": "not a token"},
    ],
)
async def test_other_tasks_are_left_to_task_state(
    log: TaskLog, other: dict[str, str | None]
) -> None:
    await log.append("question", state=INPUT_REQUIRED)
    assert await task_in_short_log(log.bus, query(log, **other)) is None


async def test_an_active_run_is_left_to_task_state(log: TaskLog) -> None:
    await log.append("text")
    assert await task_in_short_log(log.bus, query(log)) is None


@pytest.mark.parametrize("state", [INPUT_REQUIRED, WORKING])
async def test_a_log_of_another_owner_takes_as_many_requests_as_none(
    log: TaskLog, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    await log.append("text", state=state)
    requests = list[str]()
    publish = NatsClient.send_now

    def counted(client: NatsClient, command: bytes, *, is_limited: bool = True) -> bool:
        requests.append(command.split(b" ")[1].decode())
        return publish(client, command, is_limited=is_limited)

    monkeypatch.setattr(NatsClient, "send_now", counted)
    assert await task_in_short_log(log.bus, query(log, owner="somebody")) is None
    of_somebody = requests[:]
    requests.clear()
    assert await task_in_short_log(log.bus, query(log, task=mint_task_id(3))) is None
    assert requests == of_somebody
    assert len(requests) == (1 if log.bus.has_only_copies else 2)


async def test_an_operator_of_the_tenant_reads_any_owners(log: TaskLog) -> None:
    asked = query(log, owner="operator", any_owner=True)
    assert await task_in_short_log(log.bus, asked) is not None


async def test_a_deleted_task_is_left_to_task_state(log: TaskLog) -> None:
    await log.append("the end", state=COMPLETED)
    await put_tombstone(log.bus, log.key, "owner", "deleted", 60, log.writer.sequence)
    assert await task_in_short_log(log.bus, query(log)) is None


async def test_a_log_without_its_beginning_is_not_read(log: TaskLog) -> None:
    await log.append("question", state=INPUT_REQUIRED)
    await purge(log.bus, log.stream, log.subject, log.writer.sequence)
    with pytest.raises(LogLost):
        await task_in_short_log(log.bus, query(log))


async def test_a_copy_that_is_behind_the_leader_does_not_answer(
    log: TaskLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def without_the_last(*args: Any) -> AsyncIterator[Any]:  # noqa: ANN401 - what it reads
        async with direct_get_begun(*args) as answer:

            async def of_the_copy() -> DirectAnswer[Any]:
                found = await answer()
                found.messages.pop()
                return found

            yield of_the_copy

    await log.append("question", state=INPUT_REQUIRED)
    monkeypatch.setattr(NatsClient, "has_only_copies", False)
    monkeypatch.setattr(read, "direct_get_begun", without_the_last)
    assert await task_in_short_log(log.bus, query(log)) is None


async def test_a_leader_that_knows_less_than_a_replica_does_not_hide_the_rest(
    log: TaskLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.append("question", state=INPUT_REQUIRED)
    stream, subject = log.stream, {"last_by_subj": log.subject}
    old = await get_message(log.bus, stream, subject)
    await log.append("the end", state=COMPLETED)

    async def get_old(*_: object) -> dict[str, Any] | None:
        return old

    monkeypatch.setattr(read, "get_message", get_old)
    found = await task_in_short_log(log.bus, query(log))
    assert found is not None
    assert found.fold.state == COMPLETED


async def test_links_to_files_are_addresses_for_clients(log: TaskLog) -> None:
    link = f"{SCHEME}agent/tasks/{log.key.task}/files/0123456789abcdef"
    part = {"url": link, "filename": "a"}
    artifact = {"artifactId": "a", "parts": [part]}
    draft = events.artifact_update(log.key.task, "context", artifact)
    await log.writer.append([draft], log.stamp())
    await log.append("question", state=INPUT_REQUIRED)
    shown = await StateClient(log.bus, Links("https://host")).read(query(log))
    [shown_part] = shown.found.task["artifacts"][0]["parts"]
    assert shown_part["url"].startswith("https://host/v1/agents/")


async def test_a_short_task_is_read_while_there_is_no_task_state(log: TaskLog) -> None:
    await log.append("wait", state=INPUT_REQUIRED)
    client = StateClient(log.bus)
    read_now = await client.read(query(log))
    assert read_now.found.state == INPUT_REQUIRED
    assert read_now.logged is not None
    await log.append("the end", state=COMPLETED)
    asked = query(log, history_length=0)
    found = await client.get(asked)
    assert (found, found.state) == (await task_in_log(log.bus, asked), COMPLETED)
