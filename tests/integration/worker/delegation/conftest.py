"""A task state beside `TaskSubmitter` and the workers, on streams of each test's own."""

from collections.abc import AsyncIterator

import pytest

from headrace_task_state.main import TaskState
from headrace_task_state.maintenance.timing import MaintenanceTiming
from headrace_task_state.settings import TaskStateSettings
from tests.integration.worker.conftest import UNHURRIED
from tests.support.servers import NatsProcess, ValkeyProcess


@pytest.fixture(autouse=True)
async def task_state(
    nats_server: NatsProcess, valkey: ValkeyProcess, names: dict[str, str]
) -> AsyncIterator[TaskState]:
    """Task state of the test's fleet."""
    given = {"nats_url": nats_server.url, "redis_url": valkey.url, **names}
    timing = MaintenanceTiming(cancel=UNHURRIED)
    replica = TaskState(TaskStateSettings.model_validate(given), timing)
    await replica.start()
    yield replica
    await replica.stop()
