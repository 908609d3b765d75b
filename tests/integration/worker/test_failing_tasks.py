"""``headrace tasks fail``: FAILED once, also while a worker holds the task."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from headrace import Emission, RunContext, agent
from headrace.model import events
from headrace.model.errors import HeadraceError
from headrace.model.queues import RunQueue
from headrace.model.task import COMPLETED, FAILED, TERMINAL
from headrace.tasks.end import AlreadyOver, fail_task
from headrace.tasks.runs import ensure_queue
from tests.integration.worker.conftest import Spawn, Working
from tests.support.servers import NatsProcess
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.terminal import Terminal
from tests.support.waiting import eventually


@pytest.fixture
def terminal(nats_server: NatsProcess, names: dict[str, str]) -> Terminal:
    """The operator's."""
    return Terminal(nats_server.url, names)


async def ends(task: Task) -> list[str]:
    states = [entry.stamp.state for entry in await task.entries()]
    return [state for state in states if state in TERMINAL]


async def test_an_unstarted_task_is_failed_with_the_given_reason_and_no_longer_waits(
    submitter: TaskSubmitter, terminal: Terminal
) -> None:
    await ensure_queue(submitter.bus, RunQueue("nobodys"))
    task = await submitter.start("nobodys")
    printed = await terminal.run("tasks", "fail", task.key.task, "--reason", "Its agent is retired")
    assert (printed.code, printed.out) == (0, f"task {task.key.task} FAILED\n")
    status = (await task.entries())[-1].events[-1]["statusUpdate"]["status"]
    assert status["state"] == FAILED
    assert status["message"]["parts"][0]["text"] == "Its agent is retired"
    assert await task.runs_waiting() == 0


async def test_the_holder_of_a_failed_task_is_fenced_and_its_agent_stopped(
    submitter: TaskSubmitter, working: Working, terminal: Terminal
) -> None:
    stopped = asyncio.Event()

    @agent()
    async def stuck(ctx: RunContext) -> AsyncIterator[Emission]:
        yield ctx.prompt
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with working(stuck):
        task = await submitter.start("stuck", "one")
        await task.reaches(3)
        assert (await terminal.run("tasks", "fail", task.key.task)).code == 0
        async with asyncio.timeout(60):
            await stopped.wait()

        await eventually(task.is_off_the_queue)
    assert await ends(task) == [FAILED]


async def test_a_task_held_by_a_stopped_worker_is_failed_and_stays_so(
    submitter: TaskSubmitter, spawn: Spawn, terminal: Terminal
) -> None:
    worker = await asyncio.to_thread(spawn, "headrace.demo:agents")
    task = await submitter.start("counter", "100000 20")
    await task.reaches(5)
    worker.freeze()
    assert (await terminal.run("tasks", "fail", task.key.task)).code == 0
    worker.thaw()

    async def gave_up() -> bool:
        return "another worker has taken over" in worker.output()

    await eventually(gave_up)
    assert await ends(task) == [FAILED]


async def test_a_task_that_is_over_stays_as_it_is(
    submitter: TaskSubmitter, terminal: Terminal
) -> None:
    task = await submitter.start("echo", publish=False)
    end = events.status_update(task.key.task, task.context, COMPLETED)
    await task.append(end, COMPLETED, writer="w", run=1, attempt=1)
    printed = await terminal.run("tasks", "fail", task.key.task)
    assert printed.code == 1
    assert printed.err == f"Error: task {task.key.task} is over: COMPLETED\n"
    assert await ends(task) == [COMPLETED]


async def test_racing_with_the_end_there_is_one_terminal_state(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def quick(ctx: RunContext) -> str:
        return ctx.prompt

    async def fail(task: Task, pause: float) -> str:
        await asyncio.sleep(pause)
        try:
            await fail_task(submitter.bus, task.key, "too late?")
        except AlreadyOver:
            return COMPLETED
        return FAILED

    async with working(quick):
        tasks = [await submitter.start("quick", "x") for _ in range(20)]
        received = await asyncio.gather(*(fail(t, n * 0.002) for n, t in enumerate(tasks)))
        for task in tasks:
            await task.ended()
    assert [await ends(task) for task in tasks] == [[state] for state in received]


async def test_several_operators_fail_a_task_once(submitter: TaskSubmitter) -> None:
    task = await submitter.start("nobodys")
    tried = [fail_task(submitter.bus, task.key, f"operator {n}") for n in range(8)]
    done = await asyncio.gather(*tried, return_exceptions=True)
    assert sum(result is None for result in done) == 1
    assert all(result is None or isinstance(result, HeadraceError) for result in done)
    assert await ends(task) == [FAILED]


@pytest.mark.parametrize(
    ("task", "rule"),
    [
        ("0-00000000000000000000000000000000", "task 0-0000"),
        ("nonsense", "task 'nonsense' is not a task id"),
        ("9999-00000000000000000000000000000000", "stream"),
    ],
)
async def test_a_missing_task_is_reported(
    submitter: TaskSubmitter, terminal: Terminal, task: str, rule: str
) -> None:
    assert submitter.bus.connected
    printed = await terminal.run("tasks", "fail", task)
    assert printed.code == 1
    assert rule in printed.err
    assert "Traceback" not in printed.err
