"""Runs of the counter by AG-UI, as server-sent events and in the binary form."""

import itertools
from collections.abc import Sequence

import orjson

from tests.benchmarks.bindings import Json, request
from tests.benchmarks.contestants import HEADRACE
from tests.benchmarks.measure import Place, Sample
from tests.benchmarks.whole import Broken, frames

BESIDE_CHUNKS = 4
"""Events of a run that are no chunks: the run begins and ends, and so does its message."""

_BINARY = "application/vnd.ag-ui.event+proto"
_ROLES = ("user", "assistant")
_threads = itertools.count(1)


async def sse(place: Place) -> Sample:
    """Events per second of a single stream of server-sent events."""
    body, chunks, seconds = await _run(place, "text/event-stream")
    return Sample(check_events(body, chunks) / seconds, chunks + BESIDE_CHUNKS)


async def binary(place: Place) -> Sample:
    """Events per second of a single stream in the binary form."""
    body, chunks, seconds = await _run(place, _BINARY)
    return Sample(_check_frames(body, chunks) / seconds, chunks + BESIDE_CHUNKS)


async def _run(place: Place, accept: str) -> tuple[bytes, int, float]:
    # As many for each server: none of them falls behind as a stream grows.
    chunks = place.sizes.one_stream[HEADRACE]
    path, host = f"{place.contestant.base}/ag-ui", place.contestant.hosts[0]
    with place.contestant.connections(1) as [connection]:
        await connection.open()
        run_input = input_of(new_thread(), [str(chunks)])
        exchange = await connection.ask(request(host, path, run_input, accept))
    return exchange.body, chunks, exchange.seconds


def new_thread() -> str:
    """Return the id of a thread that no server knows."""
    return f"benchmark-{next(_threads)}"


def input_of(thread: str, said: Sequence[str]) -> Json:
    """Return the input of the next run of a thread.

    `said` are the texts of its messages, in turn by the user, who begins, and the agent.
    """
    return {
        "threadId": thread,
        "runId": run_of(thread, said),
        "protocolVersion": "1.0",
        "state": {},
        "messages": [
            {"id": f"{thread}-{at}", "role": _ROLES[at % 2], "content": text}
            for at, text in enumerate(said)
        ],
        "tools": [],
        "context": [],
        "forwardedProps": {},
    }


def run_of(thread: str, said: Sequence[str]) -> str:
    """Return the id of the run with that input."""
    return f"{thread}-run-{len(said)}"


def check_events(body: bytes, chunks: int, run: str = "") -> int:
    """Return how many events there are in the stream of a run of `chunks`.

    Raises:
        Broken: it is another run than `run`, does not begin or end, or lacks some of the chunks.
    """
    events = [orjson.loads(frame) for frame in frames(body)]
    kinds = [events[0]["type"], events[-1]["type"]] if events else []
    if kinds != ["RUN_STARTED", "RUN_FINISHED"]:
        raise Broken(f"the run does not begin and end as it should: {kinds}")
    if run not in {"", events[0]["runId"]}:
        raise Broken(f"{events[0]['runId']} instead of the run {run}")
    deltas = [event["delta"] for event in events if "delta" in event]
    if deltas != [f"{number} " for number in range(1, chunks + 1)]:
        raise Broken(f"the {chunks} chunks are not whole: {len(deltas)}, to {deltas[-3:]}")
    return len(events)


def _check_frames(body: bytes, chunks: int) -> int:
    events, at = list[bytes](), 0
    while at < len(body):
        size = int.from_bytes(body[at : at + 4])
        events.append(body[at + 4 : at + 4 + size])
        at += 4 + size
    if at != len(body) or len(events) != chunks + BESIDE_CHUNKS:
        raise Broken(f"{len(events)} frames for {chunks} chunks")
    for number, event in enumerate(events[2:-2], 1):
        if not event.endswith(f"{number} ".encode()):
            raise Broken(f"frame {number} is not chunk {number}: {event!r}")
    return len(events)
