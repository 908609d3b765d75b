"""A store that has hung up holds no connection, whoever was about to ask."""

import asyncio

import pytest

from headrace.model.errors import StateUnavailable
from headrace_task_state.store_redis.connection import Connection
from headrace_task_state.store_redis.settings import RedisSettings
from tests.support.servers import ValkeyProcess
from tests.support.waiting import eventually

STEPS = 40
"""Of the loop, in each of which a question is somewhere else on its way."""


async def test_nothing_is_open_once_it_has_hung_up(valkey: ValkeyProcess) -> None:
    settings = RedisSettings.model_validate({"redis_url": valkey.url})
    watching = Connection(settings)

    async def clients() -> int:
        [listed] = await watching.ask(["CLIENT", "LIST"])
        return len(bytes(listed).splitlines())

    before = await clients()
    stores = [Connection(settings) for _ in range(STEPS)]
    for steps, store in enumerate(stores):
        asking = asyncio.create_task(store.ask(["PING"]))
        for _ in range(steps):
            await asyncio.sleep(0)
        await store.close()
        await asyncio.gather(asking, return_exceptions=True)
        with pytest.raises(StateUnavailable):
            await store.ask(["PING"])

    async def are_gone() -> bool:
        return await clients() <= before

    await eventually(are_gone, "all connections are closed", 20)
    await watching.close()
