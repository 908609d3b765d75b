"""Counters and histograms of one thread are exported as those of Prometheus' library."""

import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from headrace.loop_metrics import LoopCount, LoopCounter, LoopHistogram, LoopTimes

disable_created_metrics()  # type: ignore[no-untyped-call]  # as Headrace does

BOUNDS = (0.01, 0.5, 1)
LABELS = ("agent", "version")
SERIES = st.sampled_from([("echo", "1"), ("echo", "2"), ('a"\n\\', "")])


@given(st.lists(st.tuples(SERIES, st.floats(0, 1e9) | st.sampled_from(BOUNDS))))
def test_what_is_exported_is_what_the_library_exports(
    observed: list[tuple[tuple[str, str], float]],
) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    counted = LoopCounter("counted", "What.", LABELS, ours)
    timed = LoopHistogram("timed_seconds", "Long.", LABELS, BOUNDS, ours)
    their_counted = Counter("counted", "What.", LABELS, registry=theirs)
    their_timed = Histogram("timed_seconds", "Long.", LABELS, buckets=BOUNDS, registry=theirs)
    for labels, amount in observed:
        for counter in (counted, their_counted):
            counter.labels(*labels).inc(amount)
            counter.labels(*labels).inc()
        for histogram in (timed, their_timed):
            histogram.labels(*labels).observe(amount)
    assert generate_latest(ours) == generate_latest(theirs)


def test_a_series_begins_at_zero_and_is_exported_before_its_first_change() -> None:
    registry = CollectorRegistry()
    LoopCounter("counted", "What.", LABELS, registry).labels("echo", "1")
    assert registry.get_sample_value("counted_total", {"agent": "echo", "version": "1"}) == 0


@pytest.mark.parametrize(
    "metric",
    [
        LoopCounter("one", "One.", LABELS, CollectorRegistry()),
        LoopHistogram("two", "Two.", LABELS, BOUNDS, CollectorRegistry()),
    ],
)
def test_values_are_as_many_as_labels(metric: LoopCounter | LoopHistogram) -> None:
    with pytest.raises(ValueError, match="1 values for the labels agent, version"):
        metric.labels("echo")


@pytest.mark.parametrize(("change", "most"), [(LoopCount().inc, 1), (LoopTimes(BOUNDS).observe, 2)])
def test_a_change_takes_few_calls(change: Callable[[float], None], most: int) -> None:
    calls = list[str]()
    before = sys.getprofile()
    sys.setprofile(lambda _, event, __: calls.append(event))
    try:
        change(0.1)
    finally:
        sys.setprofile(before)
    # The library's take 6 and 7. One more is the call that ends the count.
    assert sum(event in {"call", "c_call"} for event in calls) <= most + 1
