"""Which queues are deleted when they are unused."""

import pytest

from headrace.model.events import Json
from headrace_task_state.maintenance.queue_upkeep import QueueUpkeep
from headrace_task_state.maintenance.timing import MaintenanceTiming
from tests.support.fake_bus import FakeBus


class Told(FakeBus):
    """Remembers what it was told without an answer."""

    def __init__(self, page: Json) -> None:
        super().__init__(lambda _subject, _query: page)
        self.told: list[str] = []

    async def publish(self, subject: str, *_: object) -> None:
        self.told.append(subject)


def consumer(name: str, waiting: int = 0) -> Json:
    empty = {"num_pending": 0, "num_ack_pending": 0, "delivered": {"consumer_seq": 1}}
    return {"name": name, "num_waiting": waiting, **empty}


@pytest.mark.parametrize(
    ("name", "waiting", "deleted"),
    [
        ("shop", 0, 0),
        ("shop@acme", 1, 1),
        ("shop@default@normal@2", 1, 0),
        ("shop@default@normal@2", 0, 1),
        ("shop@acme@normal@2", 1, 1),
    ],
)
async def test_a_version_s_first_queue_is_kept_while_a_worker_pulls_from_it(
    name: str, waiting: int, deleted: int
) -> None:
    page = {"total": 1, "consumers": [consumer(name, waiting)]}
    bus = Told(page)
    await QueueUpkeep(bus, MaintenanceTiming(unused_queue=0.0)).look()
    assert bus.told == [f"$JS.API.CONSUMER.DELETE.RUNS.{name}"] * deleted
