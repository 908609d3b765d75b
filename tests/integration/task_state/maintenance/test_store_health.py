"""What Redis refuses is told by readiness and metrics."""

import pytest
from redis.asyncio import Redis

from headrace_task_state.maintenance import store_health
from headrace_task_state.maintenance.store_health import StoreHealth
from headrace_task_state.store_redis.settings import RedisSettings
from headrace_task_state.store_redis.store import Keys, RedisStore
from tests.integration.task_state.store_redis.test_credentials import OwnValkey

FULL = ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0")
"""Without eviction, as a fleet's Redis is."""
NO_REPLICA = ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0")
READ_ONLY = ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE")


@pytest.mark.parametrize("how", [FULL, NO_REPLICA, READ_ONLY], ids=["full", "quorum", "replica"])
async def test_a_redis_that_refuses_writes_is_reported_until_it_accepts_them(
    tmp_path_factory: pytest.TempPathFactory, how: tuple[str, str]
) -> None:
    with OwnValkey(tmp_path_factory.mktemp("valkey"), "valkey") as server:
        url = f"redis://127.0.0.1:{server.port}"
        store = RedisStore(RedisSettings(redis_url=url), Keys.of("p", "s"), [])
        operator = Redis.from_url(url)
        health = StoreHealth(store)
        found = []
        for command in ("PING", *how):
            await operator.execute_command(*command.split())  # type: ignore[no-untyped-call]
            await health.look()
            found.append((bool(health.refusal), store_health.WRITABLE._value.get()))
        await operator.aclose()
        await store.close()
    assert found == [(False, 1), (True, 0), (False, 1)]
