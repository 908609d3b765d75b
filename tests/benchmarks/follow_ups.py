"""Replies to a task that waits for its user: how many a second, and how soon they are answered."""

from collections.abc import Sequence
from functools import partial

from tests.benchmarks.http_client import Exchange
from tests.benchmarks.measure import Place, Sample
from tests.benchmarks.runs import median_milliseconds, one_by_one, per_second, side_by_side
from tests.benchmarks.whole import check_question, check_reply


async def many_waiting(place: Place) -> Sequence[str]:
    """Return the ids of as many tasks that wait as there are short runs."""
    return await _waiting(place, place.sizes.short_runs)


async def some_waiting(place: Place) -> Sequence[str]:
    """Return the ids of as many tasks that wait as are replied to one by one."""
    return await _waiting(place, place.sizes.first_events)


async def _waiting(place: Place, count: int) -> Sequence[str]:
    exchanges = await side_by_side(place, [place.asked] * count)
    return [check_question(one.body, place.binding.result) for one in exchanges]


async def at_once(place: Place) -> Sample:
    """Replies per second to the tasks that were prepared, each answered when its run has ended."""
    exchanges = await side_by_side(place, [partial(place.replied, one) for one in place.prepared])
    return per_second(_checked(place, exchanges))


async def idle(place: Place) -> Sample:
    """Milliseconds from a reply to an idle server until its answer, one at a time."""
    exchanges = await one_by_one(place, [partial(place.replied, one) for one in place.prepared])
    return median_milliseconds(_checked(place, exchanges))


def _checked(place: Place, exchanges: Sequence[Exchange]) -> Sequence[Exchange]:
    for task, one in zip(place.prepared, exchanges, strict=True):
        check_reply(one.body, task, place.binding.result)
    return exchanges
