"""A worker dies when an outside agent was asked, and nobody here knows its task yet."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from headrace.model.task import COMPLETED
from tests.integration.worker.adapters.behaviour import until_printed
from tests.integration.worker.conftest import Spawn
from tests.support.cutting_proxy import CuttingProxy
from tests.support.log_reading import answer, folded
from tests.support.other_headrace import OtherHeadrace, another_headrace
from tests.support.scripted_agent import BurstingAgent, serving
from tests.support.scripted_executor import BINDINGS, ScriptedExecutor
from tests.support.sdk_server import sdk_server
from tests.support.servers import NatsProcess
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.waiting import eventually

_TARGET = "tests.support.outside_agent:outside"
_TEXT = "reply once"


@pytest.fixture
async def other(nats_server: NatsProcess) -> AsyncIterator[OtherHeadrace]:
    async with another_headrace(nats_server.url) as it:
        yield it


async def killed_once_it_has_asked(
    submitter: TaskSubmitter,
    spawn: Spawn,
    proxies: tuple[CuttingProxy, ...],
    was_asked: Callable[[], Awaitable[bool]],
    **settings: str,
) -> Task:
    """Let the question arrive but not the answer, kill who asked, and start it again."""
    worker = await asyncio.to_thread(spawn, _TARGET, **settings)
    for proxy in proxies:
        proxy.withholds = _TEXT.encode()
    task = await submitter.start("outside", _TEXT)
    await eventually(was_asked)
    await asyncio.to_thread(worker.kill)
    assert "remote_task" not in (await task.found()).task.get("metadata", {})
    for proxy in proxies:
        proxy.withholds = b""
    await asyncio.to_thread(worker.start)
    return task


@pytest.mark.parametrize("binding", BINDINGS)
async def test_another_headrace_gets_the_request_once(
    submitter: TaskSubmitter, spawn: Spawn, other: OtherHeadrace, binding: str
) -> None:
    async def was_asked() -> bool:
        return bool(other.fleet.runs)

    task = await killed_once_it_has_asked(
        submitter,
        spawn,
        (other.proxy, other.grpc),
        was_asked,
        outside_url=other.url("patient"),
        outside_binding=binding,
    )
    [run] = other.fleet.runs
    run.go_on.set()
    done = await folded(task)
    assert (done["status"]["state"], answer(done)) == (COMPLETED, "abc")
    assert done["metadata"]["remote_task"] == run.key.task
    assert len(other.fleet.runs) == 1


@pytest.mark.parametrize("binding", BINDINGS)
async def test_an_agent_that_does_not_recognize_repeated_requests_gets_them_at_least_once(
    submitter: TaskSubmitter, spawn: Spawn, binding: str
) -> None:
    executor = ScriptedExecutor()

    async def was_asked() -> bool:
        return bool(executor.received)

    async with sdk_server(executor) as server:
        task = await killed_once_it_has_asked(
            submitter,
            spawn,
            (server.proxy, server.by_grpc),
            was_asked,
            outside_url=server.url,
            outside_binding=binding,
        )
        done = await folded(task)
    assert (done["status"]["state"], answer(done)) == (COMPLETED, f"Reply: {_TEXT}")
    assert executor.received == [_TEXT, _TEXT]


async def test_the_successor_emits_what_came_in_one_write_after_the_last_that_was_sent(
    submitter: TaskSubmitter, spawn: Spawn
) -> None:
    agent = BurstingAgent()
    async with serving(agent) as url:
        target = "tests.support.outside_agent:outside"
        worker = await asyncio.to_thread(spawn, target, outside_url=url)
        task = await submitter.start("outside", "x")
        await until_printed(task, '"c"')
        await asyncio.to_thread(worker.kill)
        await asyncio.to_thread(worker.start)
        done = await folded(task)
    assert (done["status"]["state"], answer(done)) == (COMPLETED, "abc")
    assert agent.asked == [None, "1"]
