"""A worker that stops while NATS is silent leaves nothing behind that goes on in its process."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from headrace import Emission, RunContext, agent
from headrace.model.task import COMPLETED
from tests.integration.worker.conftest import Working
from tests.support.nats_proxy import NatsProxy
from tests.support.servers import NatsProcess
from tests.support.task_submitter import TaskSubmitter
from tests.support.waiting import eventually


@pytest.fixture
async def proxy(nats_server: NatsProcess) -> AsyncIterator[NatsProxy]:
    async with NatsProxy(nats_server.port) as proxy:
        yield proxy


async def test_a_run_whose_end_is_not_acknowledged_is_left_to_the_queue(
    submitter: TaskSubmitter, working: Working, proxy: NatsProxy
) -> None:
    gate = asyncio.Event()

    @agent()
    async def gated_word(_: RunContext) -> AsyncIterator[Emission]:
        yield "begun"
        await gate.wait()
        yield "done"

    before = asyncio.all_tasks()
    async with working(gated_word, nats_url=proxy.url):
        run = await submitter.start("gated-word")
        await run.reaches(3)
        proxy.hold()
        gate.set()
        await asyncio.sleep(0.1)  # Its end is on its way.

    async def is_quiet() -> bool:
        return asyncio.all_tasks() <= before | {asyncio.current_task()}

    await proxy.cut()
    await eventually(is_quiet, "no task of the worker is left")
    async with working(gated_word):
        entries = await run.ended()
    assert entries[-1].stamp.state == COMPLETED
