"""The view is rebuilt while traffic goes on and replicas die, and then lists as it did before."""

import asyncio
import signal
from pathlib import Path

import orjson

from headrace.model.task import COMPLETED
from tests.support.legal_logs import LegalLog
from tests.support.task_states import TaskStates, folded, new_key
from tests.support.waiting import eventually

_BEFORE, _AFTER = 20, 40
"""Tasks that are stored when the view is lost, and when it has been lost for a while."""


class Traffic:
    """Tasks that are run and read without a pause until somebody has seen enough."""

    def __init__(self, fleet: TaskStates) -> None:
        self._fleet = fleet
        self.logs: list[LegalLog] = []
        self._enough = asyncio.Event()

    async def run(self) -> None:
        """Run one task after the other, and get each at once: reads don't wait for the view."""
        while not self._enough.is_set():
            log = LegalLog(new_key(len(self.logs) % 16), context=f"context {len(self.logs) % 3}")
            log.submit("hello")
            log.begin_attempt()
            log.append([log.chunk("a", "some "), log.chunk("a", "text")])
            log.append([log.status(COMPLETED)], state=COMPLETED)
            await self._fleet.store(log)
            assert (await self._fleet.get(log.key)).task == folded(log)
            self.logs.append(log)

    async def has_run(self, tasks: int) -> None:
        """Return when that many tasks have been run."""

        async def has_run() -> bool:
            return len(self.logs) >= tasks

        await eventually(has_run, f"{tasks} tasks are run")

    def stop(self) -> None:
        """Let the task that is being run be the last one."""
        self._enough.set()


async def pages(fleet: TaskStates) -> bytes:
    """Return every page of the list, as it is answered."""
    answers: list[object] = []
    token = ""
    while True:
        page = await fleet.list(page_size=7, page_token=token)
        answers.append(page.model_dump())
        if not (token := page.next_page_token):
            return orjson.dumps(answers)


async def test_a_rebuild_amid_traffic_survives_the_kill_of_its_replica(
    fleet: TaskStates, tmp_path: Path
) -> None:
    [place] = fleet.ranges
    replicas = {name: await fleet.spawn(tmp_path, name) for name in ("one", "two")}
    await fleet.followed()
    traffic = Traffic(fleet)
    running = asyncio.create_task(traffic.run())
    await traffic.has_run(_BEFORE)
    await fleet.lose_view()

    async def is_begun() -> bool:
        return (await fleet.reader.positions([place]))[0] > 0

    await eventually(is_begun, "the rebuild has begun")
    [lease] = await fleet.redis.ask(["GET", fleet.keys.lease(place)])
    holder = f"replica {lease.decode().partition('.')[0]}"
    [active] = [name for name in replicas if holder in (tmp_path / f"{name}.log").read_text()]
    replicas[active].send_signal(signal.SIGKILL)
    await traffic.has_run(_AFTER)
    traffic.stop()
    await running
    assert await fleet.listed() == {log.key.task: folded(log) for log in traffic.logs}
    before = await pages(fleet)
    await fleet.lose_view()
    await fleet.followed()
    assert await pages(fleet) == before
