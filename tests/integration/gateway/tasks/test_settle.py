"""Several gateways while one of them does not know whether it has stored a message."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from functools import partial

import pytest
import pytest_asyncio

from headrace.jetstream.connection import Bus
from headrace.model.errors import OutcomeUnknown, StateUnavailable, TaskUnknown
from headrace.model.task import TaskKey, mint_task_id
from headrace_gateway.background_work import BackgroundWork
from headrace_gateway.problems import Problem, problem_of
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.tasks.settle import InputAppends, Unsettled
from headrace_gateway.tasks.stream_health import LogSilent
from tests.support.clients.bindings import Talk
from tests.support.servers import NatsProcess
from tests.support.waiting import eventually

GONE = TaskUnknown("this task was deleted")


class Gateway:
    """As much of a gateway as settles messages."""

    def __init__(self, server: NatsProcess) -> None:
        self.bus = Bus(GatewaySettings(nats_url=server.url))
        self.background = BackgroundWork()
        self.appends = InputAppends(self.bus, self.background, 1.0)
        self.key = TaskKey("default", "echo", mint_task_id(0))
        self.open = list[asyncio.Event]()

    async def accept(self) -> tuple[asyncio.Event, asyncio.Event]:
        """Take a message in; return what makes known that it is stored, and what tells so."""
        known, stored = asyncio.Event(), asyncio.Event()
        self.open.append(known)

        async def attempt() -> None:
            if known.is_set():
                stored.set()
                return
            raise OutcomeUnknown("no ack")

        with pytest.raises(Unsettled):
            await self.appends.carry_out(self.key, "context", attempt)
        await self.bus.connection.flush()
        return known, stored

    async def denies(self, key: TaskKey) -> bool:
        """Tell whether it says that there is no such task."""
        try:
            await self.appends.check(key.tenant, key.task, TaskUnknown())
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
        for known in one.open:
            known.set()
        await one.background.drain()
        await one.bus.close()


async def test_no_gateway_reports_a_missing_task_while_one_settles_it(
    gateways: list[Gateway],
) -> None:
    here, there = gateways
    assert await there.denies(here.key)
    known, _ = await here.accept()
    assert not await here.denies(here.key)
    assert not await there.denies(here.key)
    assert await there.denies(there.key)
    known.set()
    for one in gateways:
        await eventually(partial(one.denies, here.key), "it is known again")


async def test_a_task_that_is_open_twice_is_open_until_both_are_known(
    gateways: list[Gateway],
) -> None:
    here, there = gateways
    known, stored = await here.accept()
    await here.accept()
    known.set()
    await stored.wait()
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
    await there.appends.check(here.key.tenant, here.key.task, GONE)


async def test_a_message_to_a_stream_that_is_silent_is_refused_before_it_is_sent(
    gateways: list[Gateway],
) -> None:
    here, there = gateways
    known, stored = await here.accept()
    other = TaskKey("default", "echo", mint_task_id(0))
    problem = await refusal(here, other)
    assert (problem.http_status, problem.retry_after, problem.metadata) == (503, 1, {})
    assert "no append" in here.appends.streams.trouble()
    await here.appends.ready(TaskKey("default", "echo", mint_task_id(16)))  # another stream's
    await there.appends.ready(other)
    assert there.appends.streams.trouble() == ""
    known.set()
    await stored.wait()
    await here.appends.ready(other)
    assert here.appends.streams.trouble() == ""


async def refusal(gateway: Gateway, key: TaskKey) -> Problem:
    with pytest.raises(LogSilent) as refused:
        await gateway.appends.ready(key)
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
    appends = InputAppends(elsewhere, BackgroundWork(), 1.0)
    async with appends._is_open(TaskKey("default", "assistant", task)):
        await elsewhere.connection.flush()
        assert (await talk.refused(operation, params)).status == 503
    await elsewhere.close()
    assert (await talk.refused(operation, params)).reason == "TASK_NOT_FOUND"
