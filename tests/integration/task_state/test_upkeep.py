"""What task state does by itself: asks for workers again, and lets ended tasks go."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from nats.js.errors import NotFoundError

from headrace import events
from headrace.entry import ANSWERED
from headrace.errors import FileUnknown, TaskUnknown
from headrace.files import FileStore
from headrace.lanes import Lane
from headrace.log import last_entry
from headrace.messages import GetTask, Run
from headrace.task import COMPLETED, INPUT_REQUIRED, REJECTED
from headrace_task_state.following import sweep
from tests.support.legal_logs import LegalLog
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.task_states import OWNER, TaskStates, folded, new_key, open_task_states
from tests.support.waiting import eventually


@pytest.fixture
async def hasty(nats_server: NatsProcess, valkey: ValkeyProcess) -> AsyncIterator[TaskStates]:
    """A fleet that waits and keeps for a moment only."""
    async with open_task_states(
        nats_server.url, valkey.url, sweep_after=0.3, retention=1.0
    ) as opened:
        yield opened


def submitted() -> LegalLog:
    log = LegalLog(new_key())
    log.submit("hello")
    return log


async def runs(fleet: TaskStates) -> list[tuple[str, Run]]:
    """Return the runs that wait, with their subjects."""
    stream = fleet.bus.streams.runs
    state = (await fleet.bus.js.stream_info(stream)).state
    found = []
    for sequence in range(max(state.first_seq, 1), state.last_seq + 1):
        with suppress(NotFoundError):  # one between them may have been taken off
            msg = await fleet.bus.js.get_msg(stream, sequence)
            found.append((msg.subject or "", Run.decode("run", msg.data or b"")))
    return found


async def until_runs(fleet: TaskStates, number: int) -> list[tuple[str, Run]]:
    async def there() -> bool:
        return len(await runs(fleet)) >= number

    await eventually(there, f"{number} runs wait")
    return await runs(fleet)


async def test_an_input_that_nobody_takes_up_is_asked_for_again(hasty: TaskStates) -> None:
    log = submitted()
    await hasty.start()
    await hasty.start()
    await hasty.store(log)
    [(subject, run)] = await until_runs(hasty, 1)
    assert hasty.bus.subjects.key_of_run(subject) == (log.key, 1)
    assert run == Run(log=log.log, context=log.context, owner=OWNER)


async def test_a_follow_up_is_asked_for_by_its_own_leg(hasty: TaskStates) -> None:
    log = submitted()
    log.begin_attempt()
    log.append([log.status(INPUT_REQUIRED)], state=INPUT_REQUIRED)
    log.submit("more")
    await hasty.start()
    await hasty.store(log)
    [(subject, _)] = await until_runs(hasty, 1)
    assert hasty.bus.subjects.key_of_run(subject) == (log.key, 4)


async def test_a_run_that_waits_already_is_not_doubled_and_one_that_is_gone_comes_again(
    hasty: TaskStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "EVERY", 0.1)
    monkeypatch.setattr(sweep, "LONGEST", 0.2)
    log = submitted()
    await hasty.start()
    await hasty.store(log)
    await until_runs(hasty, 1)
    await asyncio.sleep(1)
    assert len(await runs(hasty)) == 1
    await hasty.bus.js.purge_stream(hasty.bus.streams.runs)
    await until_runs(hasty, 1)


async def test_an_input_that_was_taken_up_is_left_alone(
    hasty: TaskStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "EVERY", 0.1)
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


async def test_an_ended_task_past_retention_is_gone_and_says_so_to_its_owner_only(
    hasty: TaskStates,
) -> None:
    old, open_task = ended(), submitted()
    open_task.begin_attempt()
    await hasty.start()
    for log in (old, open_task):
        await hasty.store(log)
    assert "retention" in await until_gone(hasty, old)
    assert await hasty.listed() == {open_task.key.task: folded(open_task)}
    assert await stored(hasty, old) == 1
    assert await stored(hasty, open_task) == len(open_task.entries)
    with pytest.raises(TaskUnknown) as raised:
        await hasty.get(old.key, owner="other")
    assert "retention" not in str(raised.value)


async def test_the_large_files_of_an_ended_task_go_with_it_and_no_others(
    hasty: TaskStates,
) -> None:
    old, open_task, files = ended(), submitted(), FileStore(hasty.bus)
    open_task.begin_attempt()
    gone = await files.put(old.key, b"x" * 300_000)
    kept = await files.put(open_task.key, b"y" * 300_000)
    await hasty.start()
    for log in (old, open_task):
        await hasty.store(log)
    await until_gone(hasty, old)

    async def is_gone() -> bool:
        with suppress(FileUnknown):
            await files.read(gone, old.key.tenant)
            return False
        return True

    await eventually(is_gone, "the file is gone")
    assert await files.read(kept, open_task.key.tenant) == b"y" * 300_000
    info = await hasty.bus.js.stream_info(f"OBJ_{hasty.bus.streams.files}")
    assert info.state.messages == 4, "three chunks and their description"


async def test_a_bare_message_goes_as_well(hasty: TaskStates) -> None:
    log = submitted()
    message = {"messageId": "x", "role": "ROLE_AGENT", "parts": []}
    log.append([events.bare_message(log.context, message)], state=ANSWERED)
    await hasty.start()
    await hasty.store(log)
    await until_gone(hasty, log)
    assert await stored(hasty, log) == 1


async def test_what_is_left_of_old_tasks_makes_none_after_a_rebuild(hasty: TaskStates) -> None:
    old = ended()
    await hasty.start()
    await hasty.store(old)
    await until_gone(hasty, old)
    young = submitted()
    young.begin_attempt()
    await hasty.store(young)
    await hasty.redis.unlink_all(hasty.keys.root)
    await hasty.followed()
    assert set(await hasty.listed()) == {young.key.task}
    assert await until_gone(hasty, old)
    keys = await hasty.redis.ask(["KEYS", f"{hasty.keys.root}*{old.key.task}*"])
    assert keys == [[]]


async def test_nothing_of_a_task_that_is_gone_stays_but_whose_it_was(hasty: TaskStates) -> None:
    log = ended()
    await hasty.start()
    await hasty.store(log)
    await until_gone(hasty, log)
    await hasty.listed()
    [keys] = await hasty.redis.ask(["KEYS", f"{hasty.keys.view(0)}*"])
    assert keys == [f"{hasty.keys.view(0)}g:default:{log.key.task}".encode()]


def in_(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


async def is_rejected(fleet: TaskStates, log: LegalLog) -> bool:
    last = await last_entry(fleet.bus, log.key)
    return last is not None and last.stamp.state == REJECTED


async def test_an_input_past_its_start_deadline_is_rejected_though_no_worker_lives(
    hasty: TaskStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "EVERY", 0.1)
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
    assert "no worker began it in time" in status["message"]["parts"][0]["text"]

    async def only_the_other_waits() -> bool:
        subjects = [subject for subject, _ in await runs(hasty)]
        return [hasty.bus.subjects.key_of_run(one) for one in subjects] == [(early.key, 1)]

    await eventually(only_the_other_waits, "the run of the late one waits no more")
    assert not await is_rejected(hasty, early)


async def test_what_nobody_begins_in_the_fleet_s_time_is_rejected(
    nats_server: NatsProcess, valkey: ValkeyProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "EVERY", 0.1)
    async with open_task_states(
        nats_server.url, valkey.url, sweep_after=0.2, start_within=0.5
    ) as fleet:
        begun, log = submitted(), submitted()
        begun.begin_attempt()
        for each in (begun, log):
            await fleet.store(each)
        await fleet.start()
        await eventually(lambda: is_rejected(fleet, log), "it is rejected")
        assert not await is_rejected(fleet, begun)


async def test_a_run_that_is_asked_for_again_keeps_its_terms(hasty: TaskStates) -> None:
    log = LegalLog(new_key())
    log.submit("hello", {events.PRIORITY: "low", events.TRACEPARENT: "00-trace"})
    await hasty.start()
    await hasty.store(log)
    [(subject, run)] = await until_runs(hasty, 1)
    assert hasty.bus.subjects.priority_of_run(subject) == "low"
    assert run.traceparent == "00-trace"
    lane = Lane(log.key.agent, log.key.tenant, "low")
    assert await hasty.bus.js.consumer_info(hasty.bus.streams.runs, lane.consumer)
    found = await hasty.client.get(GetTask(tenant=log.key.tenant, owner=OWNER, task=log.key.task))
    assert found.traceparent == "00-trace"
