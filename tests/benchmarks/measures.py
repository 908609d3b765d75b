"""What is measured, and how one sample of it is taken."""

import asyncio
import statistics
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.benchmarks.bindings import Binding
from tests.benchmarks.contestants import Contestant
from tests.benchmarks.http_client import Connection, Exchange
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.whole import Broken, check_stream, check_task, frames


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample, of whole runs only."""

    value: float
    done: int
    """Events, or runs, that it counts."""
    details: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sample is taken."""

    contestant: Contestant
    binding: Binding
    sizes: Sizes

    def streamed(self, chunks: int, index: int = 0) -> bytes:
        """Return a request for a streamed run of `chunks` at connection `index`'s replica."""
        return self.binding.streamed(self._host(index), self.contestant.base, str(chunks))

    def awaited(self, chunks: int, index: int = 0) -> bytes:
        """Return a request for a run of `chunks` that is answered at its end."""
        return self.binding.awaited(self._host(index), self.contestant.base, str(chunks))

    def _host(self, index: int) -> str:
        hosts = self.contestant.hosts
        return hosts[index % len(hosts)]


@dataclass(frozen=True, slots=True)
class Measure:
    """One row of the table."""

    name: str
    title: str
    unit: str
    take: Callable[[Place], Awaitable[Sample]]
    at_least: tuple[float, float] | None = None
    """Ratio, ours by theirs, to reach at this stage and in the end."""
    at_most: tuple[float, float] | None = None
    """The same where less is better."""

    @property
    def targets(self) -> tuple[float, float] | None:
        """The ratios to reach, whichever way; None: the measure is for information."""
        return self.at_least or self.at_most

    def is_met(self, target: float, ratio: float) -> bool:
        """Tell whether `ratio` reaches `target`."""
        return ratio <= target if self.at_most else ratio >= target


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
        "p99": _p99(events),
        "first chunk": statistics.median(chunks),
        "first chunk p99": _p99(chunks),
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


def _p99(values: list[float]) -> float:
    return sorted(values)[max(0, round(len(values) * 0.99) - 1)]


MEASURES = [
    Measure("one-stream", "one stream", "events/s", one_stream, at_least=(10, 25)),
    Measure("many-streams", "50 streams at once", "events/s", many_streams, at_least=(5, 12)),
    Measure(
        "short-runs", "short runs, 32 at once, streamed", "runs/s", short_runs, at_least=(1.5, 3)
    ),
    Measure("short-runs-awaited", "the same by the blocking call", "runs/s", short_runs_awaited),
    Measure("first-event", "first event, idle, median", "ms", first_event, at_most=(2, 1.2)),
]
