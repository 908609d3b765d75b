"""Counters and histograms that only the event loop's thread changes.

Those of Prometheus' library take a lock and five or six function calls for each change. A run and
a request change several, so theirs are of these classes, which take one call. They are registered
and exported as the library's are, and may be read in any thread.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import override

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import INF, floatToGoString


class LoopCount:
    """A series of a counter."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        """Begin at zero."""
        self.total = 0.0
        """What has been counted."""

    def inc(self, amount: float = 1) -> None:
        """Add `amount`, which must not be negative."""
        self.total += amount


class LoopCounter(Collector):
    """A counter with labels."""

    def __init__(
        self,
        name: str,
        documentation: str,
        labels: Sequence[str],
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        """Export the series of `name` from `registry`."""
        self._name, self._documentation, self._labels = name, documentation, labels
        self._series: dict[tuple[str, ...], LoopCount] = {}
        registry.register(self)

    def labels(self, *values: str) -> LoopCount:
        """Return the series with these labels' values, which is exported from now on."""
        _check(values, self._labels)
        return self._series.setdefault(values, LoopCount())

    @override
    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self._name, self._documentation, labels=self._labels)
        # A copy, as a series may be added meanwhile.
        for values, series in list(self._series.items()):
            family.add_metric(values, series.total)
        yield family


class LoopTimes:
    """A series of a histogram."""

    __slots__ = "_bounds", "counts", "total"

    def __init__(self, bounds: Sequence[float]) -> None:
        """Begin without observations. `bounds` are the buckets' inclusive upper bounds."""
        self._bounds = bounds
        self.counts = [0] * len(bounds)
        """Observations by bucket."""
        self.total = 0.0
        """Sum of the observations."""

    def observe(self, amount: float) -> None:
        """Count an observation."""
        self.counts[bisect_left(self._bounds, amount)] += 1
        self.total += amount


class LoopHistogram(Collector):
    """A histogram with labels."""

    def __init__(
        self,
        name: str,
        documentation: str,
        labels: Sequence[str],
        buckets: Sequence[float],
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        """Export the series of `name` from `registry`. `buckets` are upper bounds in order."""
        self._name, self._documentation, self._labels = name, documentation, labels
        self._bounds = [*map(float, buckets), INF]
        self._series: dict[tuple[str, ...], LoopTimes] = {}
        registry.register(self)

    def labels(self, *values: str) -> LoopTimes:
        """Return the series with these labels' values, which is exported from now on."""
        _check(values, self._labels)
        return self._series.setdefault(values, LoopTimes(self._bounds))

    @override
    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self._name, self._documentation, labels=self._labels)
        names = [floatToGoString(one) for one in self._bounds]  # type: ignore[no-untyped-call]
        for values, series in list(self._series.items()):
            total, counts = series.total, accumulate(series.counts)
            family.add_metric(values, list(zip(names, counts, strict=True)), total)
        yield family


def _check(values: Sequence[str], labels: Sequence[str]) -> None:
    if len(values) != len(labels):
        raise ValueError(f"{len(values)} values for the labels {', '.join(labels)}")
