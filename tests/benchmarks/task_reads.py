"""Reads of short tasks that have ended, as clients that poll do them."""

from collections.abc import Sequence
from functools import partial

import orjson

from tests.benchmarks.measure import Place, Sample
from tests.benchmarks.runs import per_second, side_by_side
from tests.benchmarks.whole import check_read, check_task


async def ended(place: Place) -> Sequence[str]:
    """Return the ids of tasks that have ended, of one chunk each."""
    exchanges = await side_by_side(place, [partial(place.awaited, 1)] * place.sizes.short_runs)
    for one in exchanges:
        check_task(one.body, 1, place.binding.result)
    return [place.binding.result(orjson.loads(one.body))["task"]["id"] for one in exchanges]


async def at_once(place: Place) -> Sample:
    """Reads per second of the tasks that were prepared, each once, many at a time."""
    exchanges = await side_by_side(place, [partial(place.read, one) for one in place.prepared])
    for task, one in zip(place.prepared, exchanges, strict=True):
        check_read(one.body, task, 1, place.binding.result)
    return per_second(exchanges)
