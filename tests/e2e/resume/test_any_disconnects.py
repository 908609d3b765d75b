"""Whatever tears, wherever it goes on: what a client puts together is the log."""

import asyncio
from collections.abc import Awaitable, Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.support.fleet import Fleet
from tests.support.resuming import Client
from tests.support.resuming_bindings import Refused
from tests.support.resuming_gateway import OwnGateway
from tests.support.resuming_log import whole_log
from tests.support.resuming_plans import ClientPlan, TaskPlan, tasks
from tests.support.resuming_sizes import SEED, sized

_PATIENCE = 200.0


@pytest.mark.soak
@pytest.mark.timeout(sized(900, 3600))
@seed(SEED)
@settings(
    max_examples=sized(80, 3000),
    # A fleet is never twice in the same state: an example says all there is, smaller or not.
    phases=[Phase.generate],
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(plans=st.lists(tasks(), min_size=1, max_size=3))
async def test_what_every_client_puts_together_is_the_log(
    fleet: Fleet, tight_gateway: OwnGateway, plans: list[TaskPlan]
) -> None:
    gateways = [*fleet.gateways, tight_gateway.url]
    async with asyncio.timeout(_PATIENCE):
        await asyncio.gather(*(_live(fleet.nats_url, gateways, plan) for plan in plans))


async def _live(nats_url: str, gateways: Sequence[str], plan: TaskPlan) -> None:
    starter = Client(plan.agent, plan.text)
    clients = [starter]
    async with asyncio.TaskGroup() as following:
        started = following.create_task(starter.follow(plan.starter.steps(gateways)))
        await starter.told.wait()
        for later in plan.followers:
            clients.append(client := plan.follower(later, starter))
            came = started if later.late else asyncio.sleep(0)
            following.create_task(_follow(client, later, gateways, came))
    log = await whole_log(nats_url, plan.agent, starter.task)
    for client in (each for each in clients if each.over):
        client.assert_exact(log)
        assert await client.has_nothing_left(next(plan.starter.steps(gateways)))


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
