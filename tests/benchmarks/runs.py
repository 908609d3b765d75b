"""Runs of the counter agent: how many events and runs a server gets done, and how soon."""

import asyncio
import statistics
from collections.abc import Callable

from tests.benchmarks.http_client import Connection, Exchange
from tests.benchmarks.measure import Place, Sample
from tests.benchmarks.whole import Broken, check_stream, check_task, frames


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


def _seconds(exchanges: list[Exchange]) -> float:
    return max(one.ended for one in exchanges) - min(one.sent for one in exchanges)


async def short_runs(place: Place) -> Sample:
    """Runs per second of one chunk each, streamed to their end, many at a time."""
    exchanges = await _side_by_side(place, place.streamed)
    for one in exchanges:
        check_stream(one.body, 1, place.binding.result)
    return Sample(len(exchanges) / _seconds(exchanges), len(exchanges))


async def short_runs_awaited(place: Place) -> Sample:
    """As `short_runs`, by the blocking call that answers with the finished task."""
    exchanges = await _side_by_side(place, place.awaited)
    for one in exchanges:
        check_task(one.body, 1, place.binding.result)
    return Sample(len(exchanges) / _seconds(exchanges), len(exchanges))


async def _side_by_side(place: Place, request: Callable[[int, int], bytes]) -> list[Exchange]:
    clients = place.sizes.short_runs_at_once
    each = place.sizes.short_runs // clients
    with place.contestant.connections(clients) as lent:
        await asyncio.gather(*(connection.open() for connection in lent))
        results = await asyncio.gather(
            *(_in_a_row(connection, request, at, each) for at, connection in enumerate(lent))
        )
    return [exchange for result in results for exchange in result]


async def _in_a_row(
    connection: Connection, request: Callable[[int, int], bytes], at: int, count: int
) -> list[Exchange]:
    return [await connection.ask(request(1, at)) for _ in range(count)]


async def first_event(place: Place) -> Sample:
    """Milliseconds from a request to an idle server until its first event, one run at a time."""
    exchanges = []
    with place.contestant.connections(1) as lent:
        await lent[0].open()
        for _ in range(place.sizes.first_events):
            await asyncio.sleep(place.sizes.pause)
            exchanges.append(await lent[0].ask(place.streamed(1)))
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
