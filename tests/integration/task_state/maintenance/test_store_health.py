"""What Redis refuses is told by readiness and metrics."""

from functools import partial
from pathlib import Path

import httpx
import pytest
from redis.asyncio import Redis

from headrace.model.events import Json
from headrace_task_state.maintenance import store_health
from headrace_task_state.maintenance.store_health import StoreHealth
from headrace_task_state.store_redis.settings import RedisSettings
from headrace_task_state.store_redis.store import Keys, RedisStore
from tests.integration.task_state.store_redis.test_credentials import OwnValkey
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import own_settings, running
from tests.support.servers import NatsProcess
from tests.support.task_states import open_task_states
from tests.support.waiting import eventually

FULL = ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0")
"""Without eviction, as a fleet's Redis is."""
NO_REPLICA = ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0")
READ_ONLY = ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE")


async def test_a_redis_that_can_not_save_is_reported_until_it_can(tmp_path: Path) -> None:
    """After a snapshot that failed, Redis and Valkey answer writes with MISCONF."""
    gone, there = tmp_path / "gone", tmp_path / "there"
    with OwnValkey(tmp_path, "valkey", "enable-protected-configs yes") as server:
        url = f"redis://127.0.0.1:{server.port}"
        store = RedisStore(RedisSettings(redis_url=url), Keys.of("p", "s"), [])
        operator, health, found = Redis.from_url(url), StoreHealth(store), []
        for folder, outcome in ((gone, "err"), (there, "ok")):
            folder.mkdir()
            await operator.config_set("dir", str(folder))
            if folder is gone:
                folder.rmdir()
            await operator.bgsave()
            await eventually(partial(_has_saved, operator, outcome), f"a snapshot: {outcome}")
            await health.look()
            found.append(("MISCONF" in health.refusal, store_health.WRITABLE._value.get()))
        await operator.aclose()
        await store.close()
    assert found == [(True, 0), (False, 1)]


async def test_a_gateway_is_degraded_with_the_reason_while_redis_can_not_save(
    tmp_path: Path, nats_server: NatsProcess
) -> None:
    (gone := tmp_path / "gone").mkdir()
    with OwnValkey(tmp_path, "valkey", "enable-protected-configs yes") as server:
        url = f"redis://127.0.0.1:{server.port}"
        async with open_task_states(nats_server.url, url) as fleet, Redis.from_url(url) as operator:
            own = fleet.settings.model_dump(include={"prefix", "stream_prefix"})
            health = (await fleet.start())._health
            async with running(own_settings(nats_server.url, **own)) as gateway:
                before = await _ready_once(gateway, health, "ready")
                await operator.config_set("dir", str(gone))
                gone.rmdir()
                await operator.bgsave()
                ready = await _ready_once(gateway, health, "degraded")
                await operator.config_set("dir", str(tmp_path))
                await operator.bgsave()
                after = await _ready_once(gateway, health, "ready")
    assert "MISCONF" in ready["note"]
    assert [ready["nats"], ready["taskState"]] == [True, False]
    assert ["note" in one for one in (before, after)] == [False, False]


async def _ready_once(gateway: str, health: StoreHealth, status: str) -> Json:
    """Return the first answer of ``/readyz`` that has the status."""
    async with httpx.AsyncClient(base_url=gateway, timeout=60, verify=NO_TLS) as http:

        async def found() -> Json | None:
            await health.look()
            answer = await http.get("/readyz")
            assert answer.status_code == 200
            ready: Json = answer.json()
            return ready if ready["status"] == status else None

        return await eventually(found, f"the gateway is {status}")


async def _has_saved(operator: Redis, outcome: str) -> bool:
    state = await operator.info("persistence")
    is_over = not state["rdb_bgsave_in_progress"]
    return is_over and state["rdb_last_bgsave_status"] == outcome


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
