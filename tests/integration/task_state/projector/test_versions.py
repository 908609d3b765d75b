"""A view of a new version is built beside the old one, which answers until then, and then goes."""

from dataclasses import replace

import pytest

from headrace.model.task import COMPLETED
from headrace_task_state.store_redis import store
from headrace_task_state.store_redis.store import Keys
from tests.support.legal_logs import LegalLog
from tests.support.task_states import TaskStates, folded, new_key
from tests.support.waiting import eventually


def ended() -> LegalLog:
    log = LegalLog(new_key())
    log.submit("hello")
    log.begin_attempt()
    log.append([log.status(COMPLETED)], state=COMPLETED)
    return log


async def kept(fleet: TaskStates, keys: Keys) -> int:
    """Return how many keys of a version there are."""
    return len([key async for key in fleet.redis._redis.scan_iter(f"{keys.root}*")])


async def test_lists_are_answered_throughout_and_the_old_view_goes(
    fleet: TaskStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.timing = replace(fleet.timing, version_interval=0.1)
    [place] = fleet.ranges
    old_keys, new_keys = Keys(fleet.keys.fleet, "8"), Keys(fleet.keys.fleet, "9")
    monkeypatch.setattr(store, "SHAPE", "8")
    logs = [ended() for _ in range(3)]
    expected = {log.key.task: folded(log) for log in logs}
    old = await fleet.start()
    for log in logs:
        await fleet.store(log)
    assert await fleet.listed() == expected
    monkeypatch.setattr(store, "SHAPE", "9")
    # The new one can't begin: somebody else has the lease and does nothing with it.
    await fleet.redis.ask(["SET", new_keys.lease(place), "a frozen replica"])
    new = await fleet.start()
    assert not new.is_ready, "or a rolling update would end the old one"
    for _ in range(20):
        found = await fleet.list_now()
        assert {task["id"]: task for task in found.tasks} == expected
        assert (await fleet.get_now(logs[0].key)).task == folded(logs[0])
    await fleet.redis.ask(["DEL", new_keys.lease(place)])

    async def is_built() -> bool:
        return new.is_ready

    await eventually(is_built, "the new view is built")
    assert await kept(fleet, old_keys), "somebody keeps it"
    await old.stop()

    async def is_gone() -> bool:
        return not await kept(fleet, old_keys)

    await eventually(is_gone, "the old view is deleted")
    assert await fleet.listed() == expected
    assert await kept(fleet, new_keys)


async def test_without_the_old_version_the_new_one_answers_at_once_and_cleans_up(
    fleet: TaskStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.timing = replace(fleet.timing, version_interval=0.1)
    old_keys = Keys(fleet.keys.fleet, "8")
    monkeypatch.setattr(store, "SHAPE", "8")
    old = await fleet.start()
    log = ended()
    await fleet.store(log)
    await fleet.listed()
    await old.stop()
    assert await kept(fleet, old_keys)
    monkeypatch.setattr(store, "SHAPE", "9")
    new = await fleet.start()
    assert new.is_ready
    assert await fleet.listed() == {log.key.task: folded(log)}

    async def is_gone() -> bool:
        return not await kept(fleet, old_keys)

    await eventually(is_gone, "the old view is deleted")
