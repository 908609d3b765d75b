"""Runs of the counter agent: how many events and runs a server gets done, and how soon."""

import asyncio
import statistics
from collections.abc import Callable, Sequence
from functools import partial

from tests.benchmarks.http_client import Connection, Exchange
from tests.benchmarks.measure import Place, Sample
from tests.benchmarks.whole import Broken, check_stream, check_task, frames

type Request = Callable[[int], bytes]
"""Makes a request to the replica of the connection with that index."""


async def one_stream(place: Place) -> Sample:
    """Events per second of a single stream."""
    return await _streams(place, 1, place.sizes.one_stream[place.contestant.name])


async def many_streams(place: Place) -> Sample:
    """Events per second of many streams at once, all of them together."""
    chunks = place.sizes.many_streams[place.contestant.name]
    return await _streams(place, place.sizes.streams, chunks)


async def _streams(place: Place, count: int, chunks: int) -> Sample:
    with place.contestant.connections(count) as lent:
        await asyncio.gather(*(connection.open() for connection in lent))
        exchanges = await asyncio.gather(
            *(connection.ask(place.streamed(chunks, at)) for at, connection in enumerate(lent))
        )
    done = sum(check_stream(one.body, chunks, place.binding.result) for one in exchanges)
    return Sample(done / _seconds(exchanges), done)


def _seconds(exchanges: Sequence[Exchange]) -> float:
    return max(one.ended for one in exchanges) - min(one.sent for one in exchanges)


async def short_runs(place: Place) -> Sample:
    """Runs per second of one chunk each, streamed to their end, many at a time."""
    exchanges = await side_by_side(place, [partial(place.streamed, 1)] * place.sizes.short_runs)
    for one in exchanges:
        check_stream(one.body, 1, place.binding.result)
    return per_second(exchanges)


async def short_runs_awaited(place: Place) -> Sample:
    """As `short_runs`, by the blocking call that answers with the finished task."""
    exchanges = await side_by_side(place, [partial(place.awaited, 1)] * place.sizes.short_runs)
    for one in exchanges:
        check_task(one.body, 1, place.binding.result)
    return per_second(exchanges)


def per_second(exchanges: Sequence[Exchange]) -> Sample:
    """Return how many answers came per second."""
    return Sample(len(exchanges) / _seconds(exchanges), len(exchanges))


async def side_by_side(place: Place, requests: Sequence[Request]) -> list[Exchange]:
    """Send requests from `short_runs_at_once` clients; return the answers in the same order."""
    clients = place.sizes.short_runs_at_once
    with place.contestant.connections(clients) as lent:
        await asyncio.gather(*(connection.open() for connection in lent))
        results = await asyncio.gather(
            *(
                _in_a_row(connection, requests[at::clients], at)
                for at, connection in enumerate(lent)
            )
        )
    return [results[at % clients][at // clients] for at in range(len(requests))]


async def _in_a_row(connection: Connection, requests: Sequence[Request], at: int) -> list[Exchange]:
    return [await connection.ask(request(at)) for request in requests]


async def one_by_one(place: Place, requests: Sequence[Request]) -> list[Exchange]:
    """Send one request after another to an idle server; return the answers."""
    exchanges = []
    with place.contestant.connections(1) as [connection]:
        await connection.open()
        for request in requests:
            await asyncio.sleep(place.sizes.pause)
            exchanges.append(await connection.ask(request(0)))
    return exchanges


def median_milliseconds(exchanges: Sequence[Exchange]) -> Sample:
    """Return how long answers took until their ends, the median, with what 99 of 100 took."""
    times = [one.seconds * 1000 for one in exchanges]
    return Sample(statistics.median(times), len(times), {"p99": p99(times)})


async def first_event(place: Place) -> Sample:
    """Milliseconds from a request to an idle server until its first event, one run at a time."""
    exchanges = await one_by_one(place, [partial(place.streamed, 1)] * place.sizes.first_events)
    for one in exchanges:
        check_stream(one.body, 1, place.binding.result)
    events = [_milliseconds_until(b"", one) for one in exchanges]
    chunks = [_milliseconds_until(b'"artifactUpdate"', one) for one in exchanges]
    details = {
        "p99": p99(events),
        "first chunk": statistics.median(chunks),
        "first chunk p99": p99(chunks),
    }
    return Sample(statistics.median(events), len(exchanges), details)


def _milliseconds_until(mark: bytes, exchange: Exchange) -> float:
    """Return when the first complete frame with `mark` in it had arrived."""
    got = b""
    for piece, arrival in zip(exchange.pieces, exchange.arrivals, strict=True):
        got = (got + piece).replace(b"\r\n", b"\n")
        complete, end, _ = got.rpartition(b"\n\n")
        if any(mark in frame for frame in frames(complete + end)):
            return (arrival - exchange.sent) * 1000
    raise Broken(f"no frame with {mark!r}")


def p99(values: list[float]) -> float:
    """Return what 99 of 100 do not exceed."""
    return sorted(values)[max(0, round(len(values) * 0.99) - 1)]
