"""Which log a query for a task names."""

import pytest

from headrace.log.logged_task import _key_of
from headrace.model.messages import GetTask
from headrace.model.task import TaskKey, mint_task_id
from tests.support.fake_bus import FakeBus


@pytest.mark.parametrize("agent", ["shop", ""])
def test_a_task_of_a_stream_that_the_fleet_has_not_got_has_no_log(agent: str) -> None:
    bus = FakeBus()
    streams = bus.settings.event_streams
    last, beyond = mint_task_id(16 * streams - 1), mint_task_id(16 * streams)
    query = GetTask(tenant="default", owner="ann", agent=agent or None, task=last)
    assert _key_of(bus, query) == TaskKey("default", agent or "*", last)
    assert _key_of(bus, query.model_copy(update={"task": beyond})) is None
