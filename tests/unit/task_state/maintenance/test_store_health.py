"""Metrics of Redis, as the store reports it."""

from typing import cast

from prometheus_client import REGISTRY

from headrace.model.errors import StateUnavailable
from headrace_task_state.maintenance.store_health import StoreHealth
from headrace_task_state.store import Store, StoreSize


class FakeStore:
    """Answers with a memory, or not."""

    def __init__(self) -> None:
        self.answers = True

    async def memory(self) -> StoreSize:
        if not self.answers:
            raise StateUnavailable("Redis: away")
        return StoreSize(900, 1000)

    async def check_writes(self) -> None:
        assert self.answers


def exported() -> list[float | None]:
    names = ("headrace_redis_connected", "headrace_redis_bytes", "headrace_redis_max_bytes")
    return [REGISTRY.get_sample_value(name) for name in names]


async def test_its_memory_is_exported_and_whether_it_answers() -> None:
    store = FakeStore()
    health = StoreHealth(cast("Store", store))
    await health.look()
    assert exported() == [1, 900, 1000]
    store.answers = False
    await health.look()
    assert exported() == [0, 900, 1000]
