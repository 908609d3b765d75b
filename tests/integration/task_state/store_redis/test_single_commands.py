"""A read of one command is no transaction, which would be three."""

from headrace_task_state.store_redis.connection import Connection
from headrace_task_state.store_redis.settings import RedisSettings
from tests.support.servers import ValkeyProcess


async def test_only_several_commands_are_a_transaction(valkey: ValkeyProcess) -> None:
    store = Connection(RedisSettings.model_validate({"redis_url": valkey.url}))
    watching = Connection(RedisSettings.model_validate({"redis_url": valkey.url}))

    async def transactions() -> int:
        [found] = await watching.ask(["INFO", "commandstats"])
        return int(found.get("cmdstat_exec", {"calls": 0})["calls"])

    try:
        before = await transactions()
        alone = await store.ask(["HGETALL", "nothing"])
        after_one = await transactions()
        together = await store.ask(["HGETALL", "nothing"], ["ZRANGE", "nothing", 0, -1])
        after_two = await transactions()
    finally:
        await store.close()
        await watching.close()

    assert alone == [{}]
    assert together == [{}, []]
    assert (after_one - before, after_two - after_one) == (0, 1)
