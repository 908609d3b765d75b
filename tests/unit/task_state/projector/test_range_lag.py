"""Whose lag and position of a range are scraped, if two follow it in one process."""

from prometheus_client import REGISTRY

from headrace_task_state.projector.applied import RangeLag
from headrace_task_state.store import Range
from tests.support.fake_bus import FakeBus

PLACE = Range(0)


def scraped() -> tuple[float | None, float | None]:
    """Return the range's position and lag."""
    named = {"range": PLACE.name}
    return (
        REGISTRY.get_sample_value("headrace_position", named),
        REGISTRY.get_sample_value("headrace_lag", named),
    )


async def test_a_follower_that_ends_leaves_the_figures_of_the_next_one() -> None:
    bus = FakeBus()
    before, after = RangeLag(bus, PLACE), RangeLag(bus, PLACE)
    before.begin(10, 3)
    assert scraped() == (10, 3)
    after.begin(20, 7)
    before.position = 11
    before.remove()
    assert scraped() == (20, 7)
    after.position, after.waiting = 25, 2
    assert scraped() == (25, 2)
    after.remove()
    assert scraped() == (None, None)
    after.remove()
