"""Both official A2A clients, through one list of scenarios over every binding that they have."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tests.support import credentials, extra_services, javascript, python_client_scenarios
from tests.support.client_scenarios import BINDINGS, EXPECTED, Order, Outcomes
from tests.support.receiver import Receiver, receiving
from tests.support.stack import Stack
from tests.support.waiting import until


async def in_javascript(order: Order) -> Outcomes:
    outcomes: Outcomes = await asyncio.to_thread(javascript.run, "scenarios.mjs", order.json)
    return outcomes


LANGUAGES = {"python": python_client_scenarios.run, "javascript": in_javascript}


@pytest.fixture(scope="module")
def known(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a gateway of the shared stack's fleet that knows Ann."""
    folder = tmp_path_factory.mktemp("known")
    process, url = extra_services.gateway(folder, stack.dev()["nats_url"])
    people = credentials.write(folder / "people.toml", credentials.ANN)
    process.environment = {**(process.environment or {}), "HEADRACE_CREDENTIALS": str(people)}
    with process:
        until(lambda: extra_services.is_served([url], "asker"), "the gateway knows the asker")
        yield url


def states_told(receiver: Receiver) -> list[str]:
    updates = [one.body.get("statusUpdate") or one.body.get("task") for one in receiver.came]
    return [update["status"]["state"] for update in updates if update]


@pytest.mark.usefixtures("extra_worker")
@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("run", LANGUAGES.values(), ids=LANGUAGES)
async def test_every_scenario_comes_out_the_same(
    stack: Stack, known: str, binding: str, run: Callable[[Order], Awaitable[Outcomes]]
) -> None:
    here, there = stack.gateways
    async with receiving() as receiver:
        order = Order(here, there, known, credentials.ANN.token, binding, receiver.url())
        assert await run(order) == EXPECTED
        await receiver.until(
            lambda: "TASK_STATE_CANCELED" in states_told(receiver), "the webhook is told the end"
        )
    assert {one.headers["x-a2a-notification-token"] for one in receiver.came} == {"s3cret"}
