"""Run requests in the background are sent at once, and awaited later."""

import asyncio
from typing import Any

import pytest

from headrace.jetstream.api import sequence_of
from headrace.model.errors import BusUnavailable
from headrace.model.run import Run
from headrace.model.task import TaskKey
from headrace.tasks.background_runs import BackgroundRuns
from tests.support.fake_bus import FakeBus
from tests.support.spans import RecordedSpans

KEY = TaskKey("default", "echo", "0-" + "0" * 32)
RUN = Run(KEY, 1, "abcdefgh", "c", "o")


async def test_a_run_request_is_sent_before_the_loops_next_iteration() -> None:
    bus = FakeBus(lambda *_: {"stream": "RUNS", "seq": 1})
    runs = BackgroundRuns(bus)
    # Its queue was opened a moment ago.
    runs._queues._known[RUN.queue] = asyncio.get_running_loop().time()
    runs.publish_soon(RUN)
    assert bus.asked == [bus.subjects.run(KEY, 1)]


def requests_answered(*answers: dict[str, Any] | BusUnavailable) -> tuple[FakeBus, BackgroundRuns]:
    """Return a bus that gives these answers in turn, and runs whose queue is known."""
    coming = iter(answers)
    bus = FakeBus(lambda *_: next(coming))
    runs = BackgroundRuns(bus)
    runs._queues._known[RUN.queue] = asyncio.get_running_loop().time()
    return bus, runs


async def test_a_stored_run_request_is_sent_once_and_reported() -> None:
    bus, runs = requests_answered({"stream": "RUNS", "seq": 1})
    stored = asyncio.Event()
    runs.publish_soon(RUN, then=stored.set)
    await asyncio.wait_for(stored.wait(), 10)
    assert bus.asked == [bus.subjects.run(KEY, 1)]


async def test_an_unanswered_run_request_is_sent_again_before_it_is_reported() -> None:
    bus, runs = requests_answered(BusUnavailable("no answer"), {"stream": "RUNS", "seq": 1})
    stored = asyncio.Event()
    runs.publish_soon(RUN, then=stored.set)
    assert bus.asked == [bus.subjects.run(KEY, 1)]
    await asyncio.wait_for(stored.wait(), 10)
    assert bus.asked == [bus.subjects.run(KEY, 1)] * 2


async def test_with_traces_it_is_sent_before_the_loops_next_iteration_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spans = RecordedSpans(monkeypatch)
    bus, runs = requests_answered(
        BusUnavailable("no answer"), {"stream": "RUNS", "seq": 1}, {"stream": "RUNS", "seq": 2}
    )
    stored = [asyncio.Event(), asyncio.Event()]
    for generation, event in enumerate(stored, start=1):
        runs.publish_soon(RUN._replace(generation=generation), then=event.set)
    assert bus.asked == [bus.subjects.run(KEY, 1), bus.subjects.run(KEY, 2)]
    for event in stored:
        await asyncio.wait_for(event.wait(), 10)
    found = [dict(span.attributes or {}) for span in spans.all()]
    # A request that is published again has a span for each time.
    assert sorted((one["headrace.run"], one.get("error.type", "")) for one in found) == [
        (1, ""),
        (1, "BusUnavailable"),
        (2, ""),
    ]


async def test_the_answer_is_read_once_for_the_span_and_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spans, read = RecordedSpans(monkeypatch), list[object]()

    def noting(*arguments: Any) -> int:  # noqa: ANN401 - of the function in whose place it is
        read.append(arguments)
        return sequence_of(*arguments)

    monkeypatch.setattr("headrace.tasks.runs.sequence_of", noting)
    _, runs = requests_answered({"stream": "RUNS", "seq": 1})
    stored = asyncio.Event()
    runs.publish_soon(RUN, then=stored.set)
    await asyncio.wait_for(stored.wait(), 10)
    assert len(spans.all()) == len(read) == 1
