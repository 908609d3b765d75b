"""A service whose connection to NATS is closed for good ends, so that it is started again."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

import httpx
import pytest

from headrace import Agents, RunContext, agent
from headrace.jetstream.client import NatsClient
from headrace.jetstream.connection import Bus
from headrace.model.errors import BusUnavailable
from headrace.service import Stop, serve
from headrace_gateway import main as gateway
from headrace_task_state import main as task_state
from headrace_task_state.settings import TaskStateSettings
from headrace_triggers import main as triggers
from headrace_triggers.settings import TriggersSettings
from headrace_worker import main as worker
from headrace_worker.settings import WorkerSettings
from tests.support.nats_clients import connections
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import own_settings
from tests.support.servers import NatsProcess, ValkeyProcess, ports
from tests.support.task_submitter import fresh_names
from tests.support.waiting import eventually

type Serving = Callable[[Stop], AbstractAsyncContextManager[None]]


@agent(description="Does nothing.")
async def idle(ctx: RunContext) -> None:
    ctx.prompt  # noqa: B018 - an agent


def services(nats_url: str, redis_url: str, port: int) -> dict[str, Serving]:
    """Return how to serve each service; its probes are on `port`."""
    given = {"nats_url": nats_url, **fresh_names()}
    own = {**given, "metrics_port": port}
    of_task_state = TaskStateSettings.model_validate({**own, "redis_url": redis_url})
    of_worker = WorkerSettings.model_validate(own)
    agents, source = Agents([idle]), worker.CodeSource("not:loaded")
    return {
        "gateway": partial(gateway.serving, own_settings(nats_url, http_port=port)),
        "task-state": partial(task_state.serving, of_task_state),
        "triggers": partial(triggers.serving, TriggersSettings.model_validate(own)),
        "worker": lambda stop: worker.serving(of_worker, agents, source, stop, reload=False),
    }


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> list[NatsClient]:
    """The connections that this process makes, in order."""
    return connections(monkeypatch)


@pytest.mark.parametrize(
    ("service", "which"),
    [
        ("gateway", 0),
        ("worker", 0),
        ("worker", 1),
        ("task-state", 0),
        ("task-state", 1),
        ("triggers", 0),
        ("triggers", 1),
    ],
)
async def test_a_service_whose_connection_is_closed_for_good_fails(
    service: str,
    which: int,
    nats_server: NatsProcess,
    valkey: ValkeyProcess,
    clients: list[NatsClient],
) -> None:
    port = ports.pick()
    stop, started = Stop(), asyncio.Event()
    serving = services(nats_server.url, valkey.url, port)[service]
    running = asyncio.create_task(serve(serving, stop, started.set))
    await asyncio.wait_for(started.wait(), 60)
    async with httpx.AsyncClient(verify=NO_TLS) as http:
        probe = f"http://127.0.0.1:{port}/readyz"

        async def is_ready() -> bool:
            return (await http.get(probe)).is_success

        await eventually(is_ready, "the service is ready")
        client = [one for one in clients if one.is_connected][which]
        # As nats-py does it; the heartbeats of a worker have a thread and a loop of their own.
        reading = client._reading_task
        assert reading is not None
        loop = reading.get_loop()
        closing = asyncio.run_coroutine_threadsafe(client._close(NatsClient.CLOSED), loop)
        await asyncio.wrap_future(closing)
    with pytest.raises(BusUnavailable, match="closed permanently"):
        await asyncio.wait_for(running, 60)
    assert stop.is_set()


async def test_a_connection_that_is_closed_for_good_answers_no_more(
    nats_server: NatsProcess,
) -> None:
    bus = Bus(own_settings(nats_server.url))
    await bus.connect("test")
    reasons = list[BusUnavailable]()
    bus.on_closed(reasons.append)
    answered = [bus.answers]
    bus.note_closed(RuntimeError("one beside it"))
    answered.append(bus.answers)
    assert answered == [True, False]
    bus.on_closed(reasons.append)
    await bus.close()
    assert [str(one) for one in reasons] == [
        "the connection to NATS is closed permanently: one beside it"
    ] * 2
