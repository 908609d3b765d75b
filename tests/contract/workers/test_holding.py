"""One writer at a time, whatever it is written in: who holds, who takes over, who falls silent.

Where two workers take part, one is of each language: they share one contract.
"""

import asyncio
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from headrace.jetstream.kv import Bucket
from headrace.model import events
from headrace.model.events import Json
from headrace.model.messages import Control, HolderReply
from headrace.model.queues import RunQueue
from headrace.model.task import CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, WORKING
from headrace.tasks.runs import ensure_queue
from tests.contract.workers.conftest import Spawn, Worker
from tests.contract.workers.scripts import (
    attempts,
    metadata,
    script,
    statuses,
    texts,
)
from tests.support.plain_client_view import as_a_plain_client_sees
from tests.support.servers import NatsProcess
from tests.support.task_submitter import Task, TaskSubmitter, user_message
from tests.support.waiting import eventually, soon

SLOW: list[Json] = [step for n in range(60) for step in ({"text": f"{n} "}, {"sleep": 50})]
SPOKEN = "".join(f"{n} " for n in range(60))
DAWDLING: list[Json] = [step for n in range(600) for step in ({"text": f"{n} "}, {"dawdle": 500})]
"""Its first attempt takes 5 min: whatever a test does to it, it does in time."""
WHOLE = "".join(f"{n} " for n in range(600))
ENDLESS: list[Json] = [{"text": "on "}, {"sleep": 600_000}]


@pytest.fixture(scope="module")
def nats_server(own_nats_server: NatsProcess) -> NatsProcess:
    """The node, which a test here restarts."""
    return own_nats_server


async def pair(spawn: Spawn, task: Task, language: str, other: str) -> tuple[Worker, Worker]:
    """Let a worker of `language` take the task up, then start one of `other`."""
    holder = await asyncio.to_thread(spawn, language)
    assert (await task.held()).worker == holder.id
    return holder, await asyncio.to_thread(spawn, other)


async def test_a_killed_workers_run_is_taken_over_by_one_of_the_other_language(
    submitter: TaskSubmitter, spawn: Spawn, language: str, other: str
) -> None:
    task = await submitter.start("repeater", message=script(*DAWDLING))
    holder, successor = await pair(spawn, task, language, other)
    await task.reaches(4)
    holder.kill()
    entries = await task.ended()
    assert attempts(entries) == [1, 2]
    taken = metadata(next(e for e in entries if e.stamp.attempt == 2).events[0])
    assert taken[events.DISCARDED_AFTER] == 1
    assert taken[events.WORKER] == successor.id
    assert list(as_a_plain_client_sees(entries).values()) == [WHOLE]
    assert entries[-1].stamp.state == COMPLETED
    assert texts((await task.found()).task) == [WHOLE]
    assert await eventually(task.is_off_the_queue)


async def test_a_thawed_worker_is_fenced_and_appends_nothing(
    submitter: TaskSubmitter, spawn: Spawn, language: str, other: str
) -> None:
    task = await submitter.start("repeater", message=script(*DAWDLING))
    holder, _ = await pair(spawn, task, language, other)
    await task.reaches(4)
    await asyncio.to_thread(holder.freeze)
    await eventually(lambda: in_attempt(task, 2))
    holder.thaw()
    await task.ended()
    await eventually(lambda: has_written(holder, "another worker has taken over"))
    entries = await task.entries()
    assert attempts(entries) == [1, 2]
    written = [entry.stamp.attempt for entry in entries]
    assert set(written[written.index(2) :]) == {2}
    assert texts((await task.found()).task) == [WHOLE]


async def test_a_second_request_for_a_held_run_starts_no_second_attempt(
    submitter: TaskSubmitter, spawn: Spawn, language: str, other: str
) -> None:
    """As after a consumer leader's crash: the other worker gets the run, asks, and steps back."""
    task = await submitter.start("repeater", message=script(*ENDLESS))
    await pair(spawn, task, language, other)
    for _ in range(8):
        await redeliver(task)
        await asyncio.sleep(0.1)
    assert await task.ask("cancel") is not None
    entries = await task.ended()
    assert attempts(entries) == [1]
    assert await eventually(task.is_off_the_queue)


@pytest.mark.usefixtures("repeater")
async def test_a_request_for_a_run_that_has_ended_is_dropped(submitter: TaskSubmitter) -> None:
    task = await submitter.start("repeater", message=script({"text": "once"}))
    before = await task.ended()
    await eventually(task.is_off_the_queue)
    # The second is what asks agents to clean up that say they do.
    for run in (1, before[-1].last_generation):
        await task.publish(run)
        assert await eventually(task.is_off_the_queue)
        assert await task.entries() == before


@pytest.mark.usefixtures("repeater")
@pytest.mark.parametrize(
    ("headers", "event", "text"),
    [
        (COMPLETED, WORKING, ""),
        (WORKING, COMPLETED, ""),
        (COMPLETED, COMPLETED, 42),
        (WORKING, COMPLETED, 42),
        (INPUT_REQUIRED, WORKING, ""),
        (WORKING, INPUT_REQUIRED, ""),
    ],
)
async def test_an_entry_that_contradicts_itself_is_skipped(
    submitter: TaskSubmitter, headers: str, event: str, text: object
) -> None:
    task = await submitter.start("repeater", message=script({"text": "once"}), publish=False)
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": text}]}
    forged = events.status_update(task.key.task, task.context, event, message)
    await task.append(forged, headers, writer="hostile", run=1, attempt=1)
    await task.publish(1)
    entries = await task.ended()
    assert attempts(entries) == [1]
    assert "hostile" not in {one.stamp.writer for one in entries}
    assert texts((await task.found()).task) == ["once"]
    assert await eventually(task.is_off_the_queue)


@pytest.mark.usefixtures("repeater")
async def test_a_run_that_does_not_parse_becomes_a_dead_letter(submitter: TaskSubmitter) -> None:
    task = await submitter.start("repeater", publish=False)
    await task.publish(1, b'{"log": 5}')
    assert await eventually(task.is_off_the_queue)
    stored = await submitter.bus.js.get_last_msg(
        submitter.bus.streams.dead, submitter.bus.subjects.dead("default", "repeater")
    )
    letter = orjson.loads(stored.data or b"")
    assert letter["reason"].startswith("log: ")
    assert letter["subject"] == submitter.bus.subjects.run(task.key, 1)


@pytest.mark.usefixtures("repeater")
async def test_a_canceled_run_ends_in_the_log(submitter: TaskSubmitter) -> None:
    task = await submitter.start("repeater", message=script(*ENDLESS))
    await task.held()
    assert await task.ask("cancel") is not None
    entries = await task.ended()
    assert entries[-1].stamp.state == CANCELED
    assert await eventually(task.is_off_the_queue)


async def test_a_leaving_worker_hands_its_run_back_at_once(
    submitter: TaskSubmitter, spawn: Spawn, language: str, other: str
) -> None:
    task = await submitter.start("repeater", message=script(*DAWDLING))
    holder = await asyncio.to_thread(spawn, language, drain_seconds=0.1)
    await task.held()
    successor = await asyncio.to_thread(spawn, other)
    await asyncio.to_thread(holder.stop)
    entries = await task.ended()
    received = [metadata(event) for entry in entries for event in entry.events]
    assert [m[events.HANDED_BACK] for m in received if events.HANDED_BACK in m] == [events.LEAVING]
    assert [m[events.WORKER] for m in received if events.WORKER in m] == [holder.id, successor.id]
    assert texts((await task.found()).task) == [WHOLE]


async def test_a_leaving_worker_ends_what_it_can(
    submitter: TaskSubmitter, spawn: Spawn, language: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    steps: list[Json] = [{"text": "a"}, {"await": str(gate)}, {"text": "b"}]
    task = await submitter.start("repeater", message=script(*steps))
    holder = await asyncio.to_thread(spawn, language, drain_seconds=60)
    await task.held()
    leaving = asyncio.create_task(asyncio.to_thread(holder.stop))
    await eventually(lambda: nobody_serves(submitter, "repeater"))
    gate.touch()
    await leaving
    assert attempts(await task.entries()) == [1]
    assert (await task.last()).stamp.state == COMPLETED
    assert texts((await task.found()).task) == ["ab"]


@pytest.mark.usefixtures("repeater")
async def test_a_message_to_a_task_at_work_is_the_next_runs_input(
    submitter: TaskSubmitter, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    task = await submitter.start(
        "repeater", message=script({"text": "first"}, {"await": str(gate)})
    )
    await task.held()
    handed_in = await hand_in(task, "second")
    assert handed_in.accepted
    again = await hand_in(task, "second")
    assert again.generation == handed_in.generation
    gate.touch()
    entries = await task.ended()
    assert texts((await task.found()).task) == ["first", "second"]
    queued = [e for entry in entries for e in entry.events if events.QUEUED in metadata(e)]
    assert len(queued) == 1
    assert handed_in.generation is not None
    assert entries[-1].stamp.run > handed_in.generation


@pytest.mark.usefixtures("repeater")
async def test_an_agent_that_takes_no_messages_meanwhile_refuses_them(
    submitter: TaskSubmitter, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    task = await submitter.start("loner", message=script({"text": "first"}, {"await": str(gate)}))
    await task.held()
    refused = await hand_in(task, "second")
    assert (refused.accepted, refused.refused) == (False, "policy")
    gate.touch()
    await task.ended()
    assert texts((await task.found()).task) == ["first"]


async def test_another_attempt_goes_on_behind_the_checkpoint(
    submitter: TaskSubmitter, spawn: Spawn, language: str, other: str
) -> None:
    saved = {"page": 7, "wörter": ["ß"]}
    begin: list[Json] = [
        {"text": "kept "},
        {"checkpoint": saved},
        {"text": "lost"},
        {"sleep": 600_000},
    ]
    resume: list[Json] = [{"text": "resumed with "}, {"echo": "checkpoint"}]
    task = await submitter.start("repeater", message=script(*begin, resume=resume))
    holder, _ = await pair(spawn, task, language, other)
    await eventually(lambda: has_said(task, "lost"))
    holder.kill()
    await task.ended()
    kept, resumed = texts((await task.found()).task)
    assert kept == "kept "
    assert orjson.loads(resumed.removeprefix("resumed with ")) == saved


@pytest.mark.usefixtures("repeater")
async def test_an_agent_that_wants_another_attempt_gets_three(submitter: TaskSubmitter) -> None:
    task = await submitter.start("repeater", message=script({"text": "no "}, {"retry": "flaky"}))
    entries = await task.ended()
    assert attempts(entries) == [1, 2, 3]
    assert entries[-1].stamp.state == FAILED
    assert "flaky" in statuses(entries)[-1]["message"]["parts"][0]["text"]
    stored = await submitter.bus.js.get_last_msg(
        submitter.bus.streams.dead, submitter.bus.subjects.dead("default", "repeater")
    )
    assert orjson.loads(stored.data or b"")["task"] == task.key.task


async def test_a_full_stream_of_letters_keeps_no_task_from_its_end(
    submitter: TaskSubmitter, spawn: Spawn, language: str
) -> None:
    dead = submitter.bus.streams.dead
    config = (await submitter.bus.js.stream_info(dead)).config
    await submitter.bus.js.update_stream(replace(config, max_bytes=1))
    task = await submitter.start("repeater", message=script({"retry": "flaky"}))
    worker = await asyncio.to_thread(spawn, language)
    entries = await task.ended()
    assert entries[-1].stamp.state == FAILED
    assert await eventually(task.is_off_the_queue)
    await soon(lambda: "there is no room for a dead letter" in worker.output(), "it is logged")


async def test_a_restart_of_nats_restarts_no_run(
    submitter: TaskSubmitter, spawn: Spawn, language: str, nats_server: NatsProcess
) -> None:
    task = await submitter.start("repeater", message=script(*SLOW))
    await asyncio.to_thread(spawn, language)
    await task.reaches(10)
    await asyncio.to_thread(nats_server.restart)
    entries = await task.ended()
    assert attempts(entries) == [1]
    assert texts((await task.found()).task) == [SPOKEN]


async def test_queues_of_other_tenants_and_priorities_get_their_turn(
    submitter: TaskSubmitter, spawn: Spawn, language: str
) -> None:
    queues = [
        RunQueue("repeater", "acme"),
        RunQueue("repeater", "acme", "low"),
        RunQueue("repeater", "b", "high"),
    ]
    await asyncio.to_thread(spawn, language, concurrency=1)
    for queue in queues:
        await ensure_queue(submitter.bus, queue)
    tasks = [await submitter.start_in(queue, f"{n}") for n in range(3) for queue in queues]
    await submitter.bus.publish(submitter.bus.subjects.queue("repeater"), b"")
    for number, task in enumerate(tasks):
        await task.ended()
        assert texts((await task.found()).task) == [str(number // len(queues))]


async def hand_in(task: Task, text: str) -> HolderReply:
    """Hand a message to the holder, as a gateway does; the name makes it one."""
    message = Control(ask="input", input=text, message=user_message(text))
    subject = task.bus.subjects.control(task.key)
    answer = await task.bus.request(subject, message.encode(), 30.0)
    return HolderReply.decode(subject, answer.data)


async def redeliver(task: Task) -> None:
    """Have the work queue hand the task's run out once more."""
    stream, agent = task.bus.streams.runs, task.key.agent
    info = await task.bus.js.consumer_info(stream, agent)
    found = await task.bus.js.get_last_msg(stream, task.bus.subjects.run(task.key, 1))
    delivered = info.delivered.consumer_seq if info.delivered else 1
    subject = f"$JS.ACK.{stream}.{agent}.1.{found.seq}.{delivered}.1.0"
    await task.bus.connection.publish(subject, b"-NAK")


async def nobody_serves(submitter: TaskSubmitter, agent: str) -> bool:
    """Tell whether every worker of `agent` has withdrawn."""
    agents = Bucket(submitter.bus, submitter.bus.streams.agents)
    return not await agents.copy(f"live.{agent}.*")


async def has_written(worker: Worker, words: str) -> bool:
    """Tell whether the worker has said it."""
    return words in worker.output()


async def in_attempt(task: Task, attempt: int) -> bool:
    """Tell whether the log has come to `attempt`."""
    return (await task.last()).stamp.attempt == attempt


async def has_said(task: Task, text: str) -> bool:
    """Tell whether the log's last entry has `text`."""
    return text.encode() in (await task.last()).lines[-1]
