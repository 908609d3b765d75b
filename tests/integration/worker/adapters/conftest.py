"""Task state, which adapters ask for a conversation's earlier tasks."""

from collections.abc import AsyncIterator

import pytest

from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.task_states import open_task_states
from tests.support.task_submitter import TaskSubmitter


@pytest.fixture
async def task_state(
    nats_server: NatsProcess, valkey: ValkeyProcess, names: dict[str, str], submitter: TaskSubmitter
) -> AsyncIterator[None]:
    """Task state that follows the logs of the test's tasks."""
    del submitter
    async with open_task_states(nats_server.url, valkey.url, **names) as states:
        await states.start()
        await states.followed()
        yield
