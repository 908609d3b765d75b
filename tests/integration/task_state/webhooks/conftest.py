"""Task states that tell webhooks, quickly and on loopback, and receivers for them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from headrace.model.subjects import encode_token
from headrace.webhooks import CURRENT, Address, TaskWebhook, WebhookProgress, Webhooks
from headrace_task_state.maintenance.timing import MaintenanceTiming
from tests.support.legal_logs import LegalLog
from tests.support.receiver import Receiver, receiving
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.task_states import TaskStates, new_key, open_task_states

SETTINGS = {
    "push_allow": "127.0.0.0/8",
    "push_backoff": 0.05,
    "push_backoff_max": 0.4,
    "push_attempts": 4,
    "push_timeout": 60.0,
}

type Opening = Callable[..., Awaitable[TaskStates]]


@pytest.fixture
def timing() -> MaintenanceTiming:
    """Durations of task state that are not settings."""
    return MaintenanceTiming()


@pytest.fixture
async def open_fleet(
    nats_server: NatsProcess, valkey: ValkeyProcess, timing: MaintenanceTiming
) -> AsyncIterator[Opening]:
    """Opens a fleet with other settings than those of this folder's tests."""
    async with AsyncExitStack() as stack:

        async def opening(**settings: object) -> TaskStates:
            given = {**SETTINGS, **settings}
            opened = open_task_states(nats_server.url, valkey.url, timing, **given)
            return await stack.enter_async_context(opened)

        yield opening


@pytest.fixture
async def fleet(open_fleet: Opening) -> TaskStates:
    """A fleet without replicas yet."""
    return await open_fleet()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver that takes everything, unless told otherwise."""
    async with receiving() as listening:
        yield listening


class Hooked:
    """One task with webhooks."""

    def __init__(self, fleet: TaskStates) -> None:
        self.fleet, self.webhooks = fleet, Webhooks(fleet.bus)
        self.log = LegalLog(new_key())
        self._stored = 0

    async def hook(
        self,
        url: str,
        name: str = "hook",
        *,
        version: str = CURRENT,
        base: str = "",
        owner: str = "anonymous",
        **address: str,
    ) -> None:
        """Have `url` told everything."""
        webhook = TaskWebhook(
            id=name,
            owner=owner,
            address=Address(url=url, **address),
            progress=WebhookProgress(generation=0),
            version=version,
            base=base,
        )
        await self.webhooks.put(self.log.key, webhook)

    async def store(self) -> None:
        """Put into the log what has been added to it."""
        await self.fleet.store(self.log, self._stored)
        self._stored = len(self.log.messages)

    async def progress(self, name: str = "hook") -> WebhookProgress:
        """Return how far a webhook has been told."""
        kept = await self.webhooks.get(self.log.key, encode_token(name))
        assert kept is not None
        return kept.webhook.progress


@pytest.fixture
def hooked(fleet: TaskStates) -> Hooked:
    """A task of `fleet`."""
    return Hooked(fleet)
