"""What one replica serves of the tasks of another: how soon, and how fast a long one again."""

import re
import statistics
import time
from contextlib import closing
from functools import partial

from tests.benchmarks.bindings import get
from tests.benchmarks.contestants import connection_to, host_of
from tests.benchmarks.http_client import Exchange
from tests.benchmarks.measure import Place, Sample
from tests.benchmarks.runs import p99
from tests.benchmarks.subscribers import in_time, task_of
from tests.benchmarks.whole import BESIDE_CHUNKS, Broken, check_stream, frames

_STAMP = re.compile(rb'"text":\s*"(\d+) (\d+) "')
_CURSOR = re.compile(rb"id: (\S+)\n")
_RESUMES = 5


async def latency(place: Place) -> Sample:
    """Milliseconds from an agent's word to a client of another replica, median."""
    return await in_time(partial(_latency, place), place.sizes.hold)


async def _latency(place: Place, hold: int) -> Sample:
    here, there, *_ = place.contestant.replicas
    sizes = place.sizes
    order = place.paced(sizes.paced_chunks, sizes.pace, hold, here)
    with closing(connection_to(here)) as owner, closing(connection_to(there)) as follower:
        task = await task_of(await owner.begin(order))
        exchange = await follower.ask(place.subscribed(task, there))
        await owner.end()
    check_stream(exchange.body, sizes.paced_chunks, place.binding.result)
    times = latencies(exchange)
    if len(times) != sizes.paced_chunks:
        raise Broken(f"{len(times)} chunks with their times")
    return Sample(statistics.median(times), len(times), {"p99": p99(times)})


def latencies(exchange: Exchange) -> list[float]:
    """Return the milliseconds from each chunk's stamp to its arrival."""
    ahead = time.time() - time.perf_counter()
    return [
        (arrival + ahead) * 1000 - int(stamp[2]) / 1e6
        for piece, arrival in zip(exchange.pieces, exchange.arrivals, strict=True)
        for stamp in _STAMP.finditer(piece)
    ]


async def resume(place: Place) -> Sample:
    """Milliseconds from the cursor of a long task's first event to its last, at another replica."""
    here, *_, there = place.contestant.replicas
    chunks = place.sizes.resumed_chunks
    with closing(connection_to(here)) as owner, closing(connection_to(there)) as again:
        whole = await owner.ask(place.streamed(chunks))
        task, cursor = await task_of(whole), _CURSOR.search(whole.body)
        if cursor is None:
            raise Broken("the first event has no cursor")
        path = f"{place.contestant.base}/tasks/{task}:subscribe"
        head = get(host_of(there), path, {"Last-Event-ID": cursor[1].decode()})
        await again.open()
        exchanges = [await again.ask(head) for _ in range(_RESUMES)]
    expected = chunks + BESIDE_CHUNKS - 1
    for one in exchanges:
        if len(got := frames(one.body)) != expected or b"COMPLETED" not in got[-1]:
            raise Broken(f"{len(got)} events instead of {expected}")
    return Sample(statistics.median(one.seconds for one in exchanges) * 1000, expected * _RESUMES)
