"""A gateway's metrics of the fleet: waiting runs, agents and streams.

Every gateway exports the same figures, so queries take their maximum. They are read from NATS when
Prometheus asks, at most once a second. Without a current sample they are missing, because old ones
would mislead an autoscaler.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import override

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from headrace.model.errors import BusUnavailable
from headrace_gateway.fleet_sample import Sample
from headrace_gateway.services import Services

_log = logging.getLogger(__name__)

_TIMEOUT = 3.0
"""Seconds within which a sample must be read; Prometheus waits ten for the whole page."""

_VERSION = "agent", "version"
"""Labels of the runs of one version of an agent; of runs that are not pinned, it is empty."""


class FleetMetrics(Collector):
    """The metrics, of the last sample."""

    def __init__(self, services: Services) -> None:
        """Read over `services`; there is no sample yet."""
        self._sampler, self._directory = services.fleet_sampler, services.directory
        self._bus = services.bus
        self._sample: Sample | None = None

    async def refresh(self) -> None:
        """Read a sample; without one, the metrics are missing."""
        self._sample = None
        if not self._bus.connected:
            return
        try:
            async with asyncio.timeout(_TIMEOUT):
                self._sample = await self._sampler.sample()
        except (BusUnavailable, TimeoutError) as error:
            _log.debug("no metrics of the fleet: %s", error)

    @override
    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics."""
        if self._sample is not None:
            yield from self._queues(self._sample)
            yield from _streams(self._sample)

    def _queues(self, sample: Sample) -> Iterator[GaugeMetricFamily]:
        names = {card.name for card in self._directory.cards()}
        versions = [(name, version) for name in names for version in self._versions(name)]
        waiting, oldest = dict.fromkeys(versions, 0), dict[tuple[str, ...], float]()
        for queue in sample.queues:
            version = (queue.agent, queue.version)
            # Runs of any other version wait too; its empty queues are not shown.
            if version in waiting or (queue.agent in names and queue.waiting):
                waiting[version] = waiting.get(version, 0) + queue.waiting
                if queue.oldest is not None:
                    oldest[version] = max(oldest.get(version, 0), queue.oldest)
        # Where runs wait and no age is known, 0 would look like an empty queue.
        oldest |= {version: 0.0 for version, runs in waiting.items() if not runs}
        yield _family("headrace_runs_waiting", "Runs that wait for a worker.", waiting, *_VERSION)
        yield _family(
            "headrace_oldest_run_seconds",
            "Seconds for which the oldest waiting run has waited; missing if nobody knows.",
            oldest,
            *_VERSION,
        )
        available = {(name,): float(self._directory.available(name)) for name in names}
        yield _family(
            "headrace_agent_available",
            "1 while a running worker serves the agent.",
            available,
            "agent",
        )

    def _versions(self, agent: str) -> set[str]:
        """Return the versions of `agent` that are shown even if no run waits for them.

        Workers of a version that tasks are sent to may be scaled to none, and its card expire.
        """
        return self._directory.route(agent).named() | self._directory.versions(agent).keys()


def _streams(sample: Sample) -> Iterator[GaugeMetricFamily]:
    sizes = {(one["name"],): one["bytes"] for one in sample.streams}
    yield _family(
        "headrace_stream_bytes", "Size of a stream's messages, in bytes.", sizes, "stream"
    )
    limits = {(one["name"],): one["maxBytes"] for one in sample.streams if one["maxBytes"]}
    yield _family(
        "headrace_stream_max_bytes", "Limit of a stream in bytes, if it has one.", limits, "stream"
    )
    replicas = {(one["name"],): one["replicas"] for one in sample.streams}
    yield _family("headrace_stream_replicas", "Configured replicas.", replicas, "stream")
    current = {(one["name"],): one["currentReplicas"] for one in sample.streams}
    yield _family(
        "headrace_stream_current_replicas",
        "Replicas that are online and hold the whole stream.",
        current,
        "stream",
    )


def _family[Values: tuple[str, ...]](
    name: str, help_text: str, values: Mapping[Values, float], *labels: str
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for value_of, value in values.items():
        family.add_metric(value_of, value)
    return family
