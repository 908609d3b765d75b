"""A task state beside `TaskSubmitter` and the workers, on streams of each test's own."""

from collections.abc import AsyncIterator

import pytest

from headrace_task_state.main import TaskState
from headrace_task_state.settings import TaskStateSettings
from tests.support.servers import NatsProcess, ValkeyProcess


@pytest.fixture(autouse=True)
async def task_state(
    nats_server: NatsProcess, valkey: ValkeyProcess, names: dict[str, str]
) -> AsyncIterator[TaskState]:
    """Task state of the test's fleet."""
    given = {"nats_url": nats_server.url, "redis_url": valkey.url, **names}
    replica = TaskState(TaskStateSettings.model_validate(given))
    await replica.start()
    yield replica
    await replica.stop()
