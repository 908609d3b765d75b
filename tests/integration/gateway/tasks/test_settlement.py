"""Several gateways while one of them does not know whether it has stored a message."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from functools import partial
from typing import NamedTuple

import pytest
import pytest_asyncio

from headrace.jetstream.connection import Bus
from headrace.model.errors import OutcomeUnknown, StateUnavailable, TaskUnknown
from headrace.model.task import TaskKey, mint_task_id
from headrace_gateway.background_work import BackgroundWork
from headrace_gateway.problems import Problem, problem_of
from headrace_gateway.refusals import Unsettled
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.tasks.settlement import Settlement
from headrace_gateway.tasks.stream_health import LogSilent
from tests.support.clients.bindings import Talk
from tests.support.servers import NatsProcess
from tests.support.submitting_gateway import SubmittingGateway
from tests.support.waiting import eventually

GONE = TaskUnknown("this task was deleted")


class Doubtful(NamedTuple):
    """An append whose outcome is not known until it is made known."""

    key: TaskKey
    context: str
    known: asyncio.Event
    stored: asyncio.Event

    async def store(self) -> None:
        if not self.known.is_set():
            raise OutcomeUnknown("no ack")
        self.stored.set()


class Gateway(SubmittingGateway):
    """Accepts messages whose outcome is not known."""

    def __init__(self, server: NatsProcess) -> None:
        super().__init__(Bus(GatewaySettings(nats_url=server.url)), 1.0)
        self.key = TaskKey("default", "echo", mint_task_id(0))
        self.doubtful = list[Doubtful]()

    async def accept(self) -> Doubtful:
        """Accept a message."""
        append = Doubtful(self.key, "context", asyncio.Event(), asyncio.Event())
        self.doubtful.append(append)
        with pytest.raises(Unsettled):
            await self.appends.append(append)
        await self.bus.connection.flush()
        return append

    async def denies(self, key: TaskKey) -> bool:
        """Tell whether it says that there is no such task."""
        try:
            await self.settlement.check(key.tenant, key.task, TaskUnknown())
        except StateUnavailable:
            return False
        return True


@pytest_asyncio.fixture(loop_scope="module")
async def gateways(nats_server: NatsProcess) -> AsyncIterator[list[Gateway]]:
    """Two of them."""
    both = [Gateway(nats_server), Gateway(nats_server)]
    for one in both:
        await one.bus.dial(secrets.token_hex(4))
    yield both
    for one in both:
        for append in one.doubtful:
            append.known.set()
        await one.background.drain()
        await one.bus.close()


async def test_no_gateway_reports_a_missing_task_while_one_settles_it(
    gateways: list[Gateway],
) -> None:
    here, there = gateways
    assert await there.denies(here.key)
    append = await here.accept()
    assert not await here.denies(here.key)
    assert not await there.denies(here.key)
    assert await there.denies(there.key)
    append.known.set()
    for one in gateways:
        await eventually(partial(one.denies, here.key), "it is known again")


async def test_a_task_that_is_open_twice_is_open_until_both_are_known(
    gateways: list[Gateway],
) -> None:
    here, there = gateways
    append = await here.accept()
    await here.accept()
    append.known.set()
    await append.stored.wait()
    assert not await here.denies(here.key)
    assert not await there.denies(here.key)


async def test_what_a_dead_gateway_settled_is_no_task_where_no_log_has_it(
    gateways: list[Gateway],
) -> None:
    here, there = gateways
    await here.accept()
    assert not await there.denies(here.key)
    await here.bus.close()
    await eventually(partial(there.denies, here.key), "nobody settles it any more")


async def test_the_answer_is_unknown_for_a_moment_after_an_outage_of_nats(
    gateways: list[Gateway],
) -> None:
    """The gateway that settles it may not be connected again yet."""
    here, there = gateways
    there.bus.connection.health.back_since = asyncio.get_running_loop().time()
    assert not await there.denies(here.key)
    await there.settlement.check(here.key.tenant, here.key.task, GONE)


async def test_a_message_to_a_stream_that_is_silent_is_refused_before_it_is_sent(
    gateways: list[Gateway],
) -> None:
    here, there = gateways
    append = await here.accept()
    other = TaskKey("default", "echo", mint_task_id(0))
    problem = await refusal(here, other)
    assert (problem.http_status, problem.retry_after, problem.metadata) == (503, 1, {})
    assert "no append" in here.settlement.health.trouble()
    await here.settlement.ready(TaskKey("default", "echo", mint_task_id(16)))  # another stream's
    await there.settlement.ready(other)
    assert there.settlement.health.trouble() == ""
    append.known.set()
    await append.stored.wait()
    await here.settlement.ready(other)
    assert here.settlement.health.trouble() == ""


async def refusal(gateway: Gateway, key: TaskKey) -> Problem:
    with pytest.raises(LogSilent) as refused:
        await gateway.settlement.ready(key)
    return problem_of(refused.value)


READS: dict[str, dict[str, str | None]] = {
    "GetTask": {"id": None},
    "CancelTask": {"id": None},
    "SubscribeToTask": {"id": None},
    "ListTaskPushNotificationConfigs": {"taskId": None},
    "CreateTaskPushNotificationConfig": {"taskId": None, "url": "https://hooks.example/"},
}


@pytest.mark.parametrize("operation", READS)
async def test_no_operation_reports_a_missing_task_while_it_is_settled(
    talk: Talk, settings: GatewaySettings, operation: str
) -> None:
    elsewhere, task = Bus(settings), mint_task_id(0)
    params = {name: value or task for name, value in READS[operation].items()}
    await elsewhere.dial(secrets.token_hex(4))
    settlement = Settlement(elsewhere, BackgroundWork(), 1.0)
    async with settlement.announced(TaskKey("default", "assistant", task)):
        await elsewhere.connection.flush()
        assert (await talk.refused(operation, params)).status == 503
    await elsewhere.close()
    assert (await talk.refused(operation, params)).reason == "TASK_NOT_FOUND"
