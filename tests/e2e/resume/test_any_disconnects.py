"""Whatever tears, wherever it goes on: what a client puts together is the log."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support.fleet import Fleet
from tests.support.resuming import Client, Step
from tests.support.resuming_agui import AGUI, ATTACH_GET, RunClient, whole_run
from tests.support.resuming_bindings import Refused
from tests.support.resuming_gateway import OwnGateway
from tests.support.resuming_log import whole_log
from tests.support.resuming_plans import ClientPlan, TaskPlan, tasks
from tests.support.resuming_sizes import sized

pytestmark = [pytest.mark.soak, pytest.mark.timeout(sized(900, 3600))]

_TIMEOUT = 200.0


def drawn[**P, R](examples: int, full: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Have a test run with so many examples, or `full` under ``make soak``."""
    return settings(
        max_examples=sized(examples, full),
        # A fleet is never twice in the same state: an example says all there is, smaller or not.
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


@drawn(6, 3000)
@given(plans=st.lists(tasks(), min_size=1, max_size=3))
async def test_what_every_client_puts_together_is_the_log(
    fleet: Fleet, tight_gateway: OwnGateway, plans: list[TaskPlan]
) -> None:
    gateways = [*fleet.gateways, tight_gateway.url]

    async def live(plan: TaskPlan) -> None:
        starter = Client(plan.agent, plan.text)
        clients = await _followed(plan, starter, gateways)
        log = await whole_log(fleet.nats_url, plan.agent, starter.task)
        assert starter in clients
        for client in clients:
            client.assert_exact(log)
            assert await client.has_nothing_left(next(plan.starter.steps(gateways)))

    async with asyncio.timeout(_TIMEOUT):
        await asyncio.gather(*map(live, plans))


@drawn(3, 1000)
@given(plans=st.lists(tasks(AGUI), min_size=1, max_size=3))
async def test_what_every_agui_client_puts_together_is_its_run(
    fleet: Fleet, tight_gateway: OwnGateway, plans: list[TaskPlan]
) -> None:
    gateways = [*fleet.gateways, tight_gateway.url]

    async def live(plan: TaskPlan) -> None:
        starter = RunClient(plan.agent, plan.text)
        clients = await _followed(plan, starter, gateways)
        run = await whole_run(gateways[0], fleet.nats_url, plan.agent, starter)
        assert starter in clients
        for client in clients:
            client.assert_whole(run)
            assert await client.has_nothing_left(Step(gateways[-1], ATTACH_GET))

    async with asyncio.timeout(_TIMEOUT):
        await asyncio.gather(*map(live, plans))


async def _followed[C: Client](plan: TaskPlan, starter: C, gateways: Sequence[str]) -> list[C]:
    """Return all clients of a task that were let in, when they have seen it end."""
    clients = [starter]
    async with asyncio.TaskGroup() as following:
        started = following.create_task(starter.follow(plan.starter.steps(gateways)))
        await starter.told.wait()
        for later in plan.followers:
            clients.append(client := plan.follower(later, starter))
            came = started if later.late else asyncio.sleep(0)
            following.create_task(_follow(client, later, gateways, came))
    return [client for client in clients if client.over]


async def _follow(
    client: Client, plan: ClientPlan, gateways: Sequence[str], came: Awaitable[object]
) -> None:
    await came
    try:
        await client.follow(plan.steps(gateways))
    except Refused as refused:
        # Without a cursor it came too late: the task was over.
        if client.cursor or "UNSUPPORTED_OPERATION" not in str(refused):
            raise
