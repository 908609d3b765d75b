"""A worker among others: how much it takes on, what it survives, how it leaves."""

import asyncio
import os
import re
import threading
import time
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import pytest
from nats.js.errors import NotFoundError

from headrace import Agent, Agents, Emission, Limits, RunContext, agent
from headrace.demo import counter, echo
from headrace.directory import Directory
from headrace.jetstream.durables import ACK_WAIT
from headrace.model.entry import Entry
from headrace.model.messages import DeadLetter, HolderReply
from headrace.model.task import COMPLETED
from headrace.settings import BusSettings
from headrace_worker.concurrency import LEAST
from headrace_worker.heartbeats import HEARTBEAT
from headrace_worker.settings import WorkerSettings
from headrace_worker.worker import Worker
from tests.integration.worker.conftest import Spawn, Working
from tests.integration.worker.test_holding import DEMO, attempts, texts
from tests.support.resuming_sizes import IS_SOAK
from tests.support.servers import NatsProcess
from tests.support.service_process import ServiceProcess
from tests.support.task_submitter import Task, TaskSubmitter, fresh_names, open_submitter
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerProcess


def holder_of(
    held: HolderReply, workers: list[WorkerProcess]
) -> tuple[WorkerProcess, WorkerProcess]:
    """Return the holder and the other one of two workers."""
    first, second = workers
    return (first, second) if first.id == held.worker else (second, first)


async def started(spawn: Spawn, count: int = 2) -> list[WorkerProcess]:
    return await asyncio.gather(*(asyncio.to_thread(spawn, DEMO) for _ in range(count)))


class Turnstile:
    """An agent that counts how many of it are at work, and waits to be let go."""

    def __init__(self, name: str, concurrency: int | None = None) -> None:
        self.inside = self.most = 0
        self.open = asyncio.Event()
        self.agent: Agent = agent(name=name, limits=Limits(concurrency=concurrency))(self.enter)

    async def enter(self, _: RunContext) -> None:
        """Count, and wait."""
        self.inside += 1
        self.most = max(self.most, self.inside)
        await self.open.wait()
        self.inside -= 1

    async def has_inside(self, count: int) -> bool:
        return self.inside >= count


async def test_a_worker_takes_no_more_runs_than_it_has_room_for(
    submitter: TaskSubmitter, working: Working
) -> None:
    gate = Turnstile("gate")
    both = agent(name="other")(gate.enter)
    async with working(gate.agent, both, concurrency=3):
        tasks = [await submitter.start(name) for name in ("gate", "other") for _ in range(4)]
        await eventually(lambda: gate.has_inside(3))
        await asyncio.sleep(0.5)
        assert gate.most == 3

        async def three_began() -> bool:
            return [len(await task.entries()) for task in tasks].count(1) == 5

        await eventually(three_began)
        gate.open.set()
        await asyncio.gather(*(task.ended() for task in tasks))
    assert gate.most == 3


async def test_a_worker_takes_hundreds_of_runs_that_wait(
    submitter: TaskSubmitter, working: Working
) -> None:
    gate = Turnstile("gate")
    async with working(gate.agent):
        tasks = await asyncio.gather(*(submitter.start("gate") for _ in range(3 * LEAST)))
        await eventually(lambda: gate.has_inside(len(tasks)))
        gate.open.set()
        logs = await asyncio.gather(*(task.ended() for task in tasks))
    assert (gate.most, {log[-1].stamp.state for log in logs}) == (3 * LEAST, {COMPLETED})


async def test_an_agents_own_limit_leaves_room_for_others(
    submitter: TaskSubmitter, working: Working
) -> None:
    gate = Turnstile("gate", concurrency=2)
    async with working(gate.agent, echo, concurrency=3):
        held = [await submitter.start("gate") for _ in range(4)]
        await eventually(lambda: gate.has_inside(2))
        others = [await submitter.start("echo", "x") for _ in range(5)]
        await asyncio.gather(*(task.ended() for task in others))
        assert gate.most == 2
        gate.open.set()
        await asyncio.gather(*(task.ended() for task in held))


async def test_agents_take_turns_where_there_is_room_for_one(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(echo, counter, concurrency=1):
        tasks = [await submitter.start(n, "1") for n in ("echo", "counter") for _ in range(3)]
        logs = await asyncio.gather(*(task.ended() for task in tasks))
    assert {log[-1].stamp.state for log in logs} == {COMPLETED}


async def test_a_burst_goes_through_one_worker_whole(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(echo):
        tasks = await asyncio.gather(*(submitter.start("echo", f"{n}") for n in range(200)))
        logs = await asyncio.gather(*(task.ended() for task in tasks))
    assert [texts(log, 1) for log in logs] == [[f"{n}"] for n in range(200)]
    assert all(attempts(log) == [1] for log in logs)


async def test_an_agent_that_blocks_its_loop_for_9_s_keeps_its_run(
    submitter: TaskSubmitter, spawn: Spawn
) -> None:
    sleeper, other = await asyncio.gather(
        *(asyncio.to_thread(spawn, "tests.support.agents:agents") for _ in range(2))
    )
    task = await submitter.start("sleeper")
    entries = await task.ended()
    assert attempts(entries) == [1]
    assert texts(entries, 1) == ["before ", "after"]
    received = sleeper.output() + other.output()
    # From 2 s on; the thread that looks may get its turn later.
    assert re.search(r"agent 'sleeper' has blocked the event loop for [2-8]\.", received)
    assert "`time.sleep(LONG_NAP)" in received


async def test_a_blocked_worker_answers_the_caller(
    submitter: TaskSubmitter, working: Working
) -> None:
    answered = threading.Event()

    @agent()
    async def blocking(_: RunContext) -> str:
        return "answered" if answered.wait(60) else "nobody answered"

    async def ask_from_elsewhere() -> HolderReply:
        async with open_submitter(submitter.bus.settings) as other:
            held = await Task(other.bus, task.key, task.log, task.context).held()
            answered.set()
            return held

    async with working(blocking) as worker:
        task = await submitter.start("blocking", publish=False)
        # This loop is the blocked one.
        asking = asyncio.create_task(asyncio.to_thread(asyncio.run, ask_from_elsewhere()))
        await task.publish(1)
        assert (await asking).worker == worker.id
        assert texts(await task.ended(), 1) == ["answered"]


def _block(seconds: float) -> None:
    time.sleep(seconds)


async def test_the_output_of_a_blocking_agent_is_sent_while_it_runs(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def blocking(_: RunContext) -> AsyncIterator[Emission]:
        for number in range(10):
            _block(0.05)
            yield f"{number} "

    async with working(blocking):
        task = await submitter.start("blocking")
        entries = await task.ended()
    assert "".join(texts(entries, 1)) == "0 1 2 3 4 5 6 7 8 9 "
    assert len(entries) > 3, "it was sent in one piece"


async def test_an_agent_that_never_awaits_lets_its_neighbours_begin_and_end(
    submitter: TaskSubmitter, working: Working
) -> None:
    answered = threading.Event()

    @agent()
    async def busy_loop(_: RunContext) -> AsyncIterator[Emission]:
        begun = time.monotonic()
        while not answered.is_set() and time.monotonic() < begun + 60:
            _block(0.002)
            yield "more "
        yield "shared the loop" if answered.is_set() else "kept the loop to itself"

    async with working(busy_loop, echo):
        task = await submitter.start("busy-loop")
        await eventually(lambda: _has_begun(task))
        for number in range(3):
            neighbour = await submitter.start("echo", f"{number}")
            assert texts(await neighbour.ended(), 1) == [f"{number}"]
        answered.set()
        text = texts(await task.ended(), 1)
    assert text[-1].endswith("shared the loop")


async def _has_begun(task: Task) -> bool:
    return bool(texts(await task.entries(), 1))


async def test_what_is_no_run_becomes_a_dead_letter(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(echo):
        task = await submitter.start("echo", publish=False)
        await task.publish(1, b'{"log": 5}')
        letter = await eventually(lambda: _dead_letter(submitter, "echo"))
        assert await eventually(task.is_off_the_queue)
        good = await submitter.start("echo", "still here")
        assert texts(await good.ended(), 1) == ["still here"]
    assert letter.subject == submitter.bus.subjects.run(task.key, 1)
    assert "log" in letter.reason
    assert letter.body == "eyJsb2ciOiA1fQ=="


@pytest.mark.parametrize("tokens", ["default.echo.not-a-task.1", "default.echo.0-abc.x"])
async def test_a_run_on_an_impossible_subject_becomes_a_dead_letter(
    tokens: str, submitter: TaskSubmitter, working: Working
) -> None:
    subject = f"{submitter.bus.subjects.prefix}.run.{tokens}"
    async with working(echo):
        await submitter.bus.request(subject, b"{}", 30.0)
        letter = await eventually(lambda: _dead_letter(submitter, "echo"))
    assert letter.subject == subject


async def test_an_agent_is_announced_and_withdrawn(
    submitter: TaskSubmitter, working: Working
) -> None:
    directory = Directory(submitter.bus)
    await directory.start()
    try:
        async with working(echo):
            await eventually(lambda: _is_available(directory, "echo"))
        await eventually(lambda: _is_gone(directory, "echo"))
        card = directory.card("echo")
        assert card is not None
        assert card.skills[0]["id"] == "echo"
    finally:
        await directory.stop()


async def test_a_drained_worker_hands_the_rest_to_others_at_once(
    submitter: TaskSubmitter, spawn: Spawn
) -> None:
    workers = await started(spawn)
    task = await submitter.start("counter", "100 50")
    holder, other = holder_of(await task.held(), workers)
    await task.reaches(5)
    await asyncio.to_thread(holder.stop)
    entries = await task.ended()
    assert attempts(entries) == [1, 2]
    assert entries[-1].stamp.writer.startswith(other.id)
    # Sooner than a lease could have run out, by the server's own clock.
    last, first = (next(e for e in log if e.stamp.attempt == n) for n, log in _ends(entries))
    gap = datetime.fromisoformat(first.time) - datetime.fromisoformat(last.time)
    assert gap.total_seconds() < (ACK_WAIT - HEARTBEAT if IS_SOAK else 20)


async def test_a_drained_worker_takes_no_new_runs(submitter: TaskSubmitter, spawn: Spawn) -> None:
    [worker] = await started(spawn, 1)
    await (await submitter.start("slow-counter")).held()
    stopping = asyncio.create_task(asyncio.to_thread(worker.stop))
    await eventually(lambda: _has_said(worker, "1 runs have 2 s to end"))
    late = await submitter.start("echo", "late")
    await stopping
    assert len(await late.entries()) == 1

    async def waits() -> bool:
        info = await submitter.bus.js.consumer_info(submitter.bus.streams.runs, "echo")
        return (info.num_pending, info.num_ack_pending) == (1, 0)

    await eventually(waits)
    [successor] = await started(spawn, 1)
    entries = await late.ended()
    assert entries[-1].stamp.writer.startswith(successor.id)


async def test_an_idle_worker_leaves_at_once_and_reports_it_by_its_exit_code(spawn: Spawn) -> None:
    [worker] = await started(spawn, 1)
    process = worker._process
    assert process is not None
    await asyncio.to_thread(worker.stop)
    assert process.poll() == 0


async def test_output_made_while_nats_is_away_is_kept(tmp_path: Path) -> None:
    with NatsProcess(tmp_path / "nats") as server:
        names = {"nats_url": server.url, **fresh_names()}
        worker = Worker(WorkerSettings.model_validate(names), Agents([counter]))
        await worker.start()
        async with open_submitter(BusSettings.model_validate(names)) as submitter:
            task = await submitter.start("counter", "60 50")
            await task.reaches(8)
            await asyncio.to_thread(server.kill)
            await asyncio.sleep(1)
            await asyncio.to_thread(server.start)
            entries = await task.ended()
        await worker.stop()
    assert attempts(entries) == [1]
    assert texts(entries, 1) == [f"{n} " for n in range(1, 61)]


async def test_runs_flow_again_after_nats_was_away(tmp_path: Path) -> None:
    with NatsProcess(tmp_path / "nats") as server:
        names = {"nats_url": server.url, **fresh_names()}
        worker = Worker(WorkerSettings.model_validate(names), Agents([echo]))
        await worker.start()
        async with open_submitter(BusSettings.model_validate(names)) as submitter:
            await asyncio.to_thread(server.restart)
            task = await eventually(lambda: _started(submitter, "echo"))
            entries = await task.ended()
        await worker.stop()
    assert texts(entries, 1) == ["back"]


@pytest.mark.parametrize("frozen", [True, False])
async def test_a_worker_leaves_also_when_nats_is_away(tmp_path: Path, frozen: bool) -> None:  # noqa: FBT001  # a case
    with NatsProcess(tmp_path / "nats") as server:
        names = {"nats_url": server.url, "drain_seconds": 0, **fresh_names()}
        worker = Worker(WorkerSettings.model_validate(names), Agents([counter]))
        await worker.start()
        async with open_submitter(BusSettings.model_validate(names)) as submitter:
            task = await submitter.start("counter", "600 50")
            await task.reaches(4)
            await asyncio.to_thread(server.freeze if frozen else server.kill)
            async with asyncio.timeout(60):
                await worker.stop()
            await asyncio.to_thread(server.thaw)


async def test_a_consumer_that_was_deleted_is_made_again(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(echo):
        await submitter.bus.js.delete_consumer(submitter.bus.streams.runs, "echo")
        task = await submitter.start("echo", "x")
        assert texts(await task.ended(), 1) == ["x"]


async def test_the_agent_waits_when_it_is_far_ahead_of_the_log(
    submitter: TaskSubmitter, working: Working
) -> None:
    outputs: list[int] = []

    @agent()
    async def fast(_: RunContext) -> AsyncIterator[Emission]:
        for number in range(5000):
            outputs.append(number)
            yield "x"

    async with working(fast, emit_buffer_events=100):
        task = await submitter.start("fast")
        entries = await task.ended()
    assert len(texts(entries, 1)) == 5000
    assert max(len(entry.events) for entry in entries) <= 101


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("no_such_module:agents", "no module named no_such_module"),
        ("headrace.demo:nobody", "module headrace.demo has no attribute nobody"),
        ("headrace.demo:MAX_COUNT", "is not an agent or a list of agents"),
    ],
)
def test_a_target_that_names_no_agents_is_one_clear_line(
    target: str, words: str, tmp_path: Path
) -> None:
    process = ServiceProcess("worker", tmp_path, ["worker", target], {}, lambda: True)
    running = process._launched()
    assert running.wait(90) == os.EX_CONFIG
    [line] = process.log.read_text().splitlines()
    assert words in line


def test_a_file_of_prices_that_cannot_be_read_is_one_clear_line(tmp_path: Path) -> None:
    variables = {"HEADRACE_PRICES": str(tmp_path / "prices.toml")}
    arguments = ["worker", "headrace.demo:agents"]
    process = ServiceProcess("worker", tmp_path, arguments, variables, lambda: True)
    running = process._launched()
    assert running.wait(90) == os.EX_CONFIG
    [line] = process.log.read_text().splitlines()
    assert f"{tmp_path}/prices.toml: " in line


async def _has_said(worker: WorkerProcess, words: str) -> bool:
    return words in worker.output()


async def _dead_letter(submitter: TaskSubmitter, agent_name: str) -> DeadLetter | None:
    subject = submitter.bus.subjects.dead("default", agent_name)
    try:
        found = await submitter.bus.js.get_last_msg(submitter.bus.streams.dead, subject)
    except NotFoundError:
        return None
    return DeadLetter.decode(subject, found.data or b"")


async def _started(submitter: TaskSubmitter, agent_name: str) -> Task | None:
    return await submitter.start(agent_name, "back") if submitter.bus.connected else None


async def _is_available(directory: Directory, agent_name: str) -> bool:
    return directory.available(agent_name)


async def _is_gone(directory: Directory, agent_name: str) -> bool:
    return not directory.available(agent_name)


def _ends(entries: list[Entry]) -> list[tuple[int, list[Entry]]]:
    """Return where to look for the first attempt's last entry and the second one's first."""
    return [(1, entries[::-1]), (2, entries)]
