"""A fleet of task states of each test's own, on the servers that all tests share."""

from collections.abc import AsyncIterator

import pytest

from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.task_states import TaskStates, open_task_states


@pytest.fixture
async def fleet(nats_server: NatsProcess, valkey: ValkeyProcess) -> AsyncIterator[TaskStates]:
    """A fleet without replicas yet, with one event stream."""
    async with open_task_states(nats_server.url, valkey.url) as opened:
        yield opened
