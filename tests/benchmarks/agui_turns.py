"""AG-UI runs of one chunk: the first of a thread, and the second, which repeats its messages."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from tests.benchmarks.agui_runs import check_events, input_of, new_thread, run_of
from tests.benchmarks.bindings import request
from tests.benchmarks.http_client import Exchange
from tests.benchmarks.measure import Place, Sample
from tests.benchmarks.runs import (
    Request,
    median_milliseconds,
    one_by_one,
    per_second,
    side_by_side,
)

_FIRST = ("1",)
_SECOND = (*_FIRST, "1 ", "1")
"""What was said in a thread when its run begins, by the user and the agent."""

type _Send = Callable[[Place, Sequence[Request]], Awaitable[list[Exchange]]]


async def many_threads(place: Place) -> Sequence[str]:
    """Return the ids of as many threads, of one run each, as there are short runs."""
    return await _threads(place, place.sizes.short_runs)


async def some_threads(place: Place) -> Sequence[str]:
    """Return the ids of as many such threads as are continued one by one."""
    return await _threads(place, place.sizes.first_events)


async def _threads(place: Place, count: int) -> Sequence[str]:
    threads = [new_thread() for _ in range(count)]
    await _run(place, side_by_side, threads, _FIRST)
    return threads


async def first_at_once(place: Place) -> Sample:
    """Runs per second in as many new threads, many at a time."""
    threads = [new_thread() for _ in range(place.sizes.short_runs)]
    return per_second(await _run(place, side_by_side, threads, _FIRST))


async def second_at_once(place: Place) -> Sample:
    """The same of the threads that were prepared."""
    return per_second(await _run(place, side_by_side, place.prepared, _SECOND))


async def first_idle(place: Place) -> Sample:
    """Milliseconds until the end of a run in a new thread of an idle server, one at a time."""
    threads = [new_thread() for _ in range(place.sizes.first_events)]
    return median_milliseconds(await _run(place, one_by_one, threads, _FIRST))


async def second_idle(place: Place) -> Sample:
    """The same of the threads that were prepared."""
    return median_milliseconds(await _run(place, one_by_one, place.prepared, _SECOND))


async def _run(
    place: Place, send: _Send, threads: Sequence[str], said: Sequence[str]
) -> list[Exchange]:
    """Run each thread once, and check that each run is whole."""
    exchanges = await send(place, [partial(_request, place, each, said) for each in threads])
    for thread, one in zip(threads, exchanges, strict=True):
        check_events(one.body, 1, run_of(thread, said))
    return exchanges


def _request(place: Place, thread: str, said: Sequence[str], index: int) -> bytes:
    hosts, path = place.contestant.hosts, f"{place.contestant.base}/ag-ui"
    return request(hosts[index % len(hosts)], path, input_of(thread, said), "text/event-stream")
