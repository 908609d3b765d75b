"""Streams at a model's pace: when a client has a token, and (see `rounds`) what a token costs."""

import asyncio
import statistics

from tests.benchmarks.measure import Place, Sample
from tests.benchmarks.replicas import latencies
from tests.benchmarks.runs import p99
from tests.benchmarks.whole import Broken, check_stream

_HOLD = 500
"""Milliseconds until the first token, when all streams are open."""


async def few(place: Place) -> Sample:
    """Milliseconds from an agent's yield to the client, median, of a third of the streams."""
    return await _paced(place, max(1, place.sizes.paced_streams // 3))


async def usual(place: Place) -> Sample:
    """The same of all streams."""
    return await _paced(place, place.sizes.paced_streams)


async def many(place: Place) -> Sample:
    """The same of five times as many."""
    return await _paced(place, place.sizes.paced_streams * 5)


async def alone(place: Place) -> Sample:
    """The same of one stream."""
    return await _paced(place, 1)


async def _paced(place: Place, count: int) -> Sample:
    chunks, pace = place.sizes.paced_tokens, place.sizes.token_pace
    with place.contestant.connections(count) as lent:
        await asyncio.gather(*(connection.open() for connection in lent))
        exchanges = await asyncio.gather(
            # Tokens of different streams come at different times, as those of a model do.
            *(
                connection.ask(place.paced(chunks, pace, _HOLD + at * pace // count))
                for at, connection in enumerate(lent)
            )
        )
    for one in exchanges:
        check_stream(one.body, chunks, place.binding.result)
    times = [each for one in exchanges for each in latencies(one)]
    if len(times) != chunks * count:
        raise Broken(f"{len(times)} tokens with their times")
    return Sample(statistics.median(times), len(times), {"p99": p99(times)})
