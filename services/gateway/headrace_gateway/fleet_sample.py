"""The fleet at one moment, read from the bus once for all who ask.

A read costs a request per stream, one for all queues, and one per queue with waiting runs. It is
kept for a second.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version

from headrace.directory import Directory
from headrace.jetstream.api import get_message, stream_info
from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import consumers
from headrace.jetstream.headers import nanoseconds
from headrace.model import json_text
from headrace.model.errors import BusUnavailable
from headrace.model.events import Json
from headrace.model.subjects import NORMAL, decode_token
from headrace_gateway.server.open_requests import OpenRequests
from headrace_gateway.streaming.open_streams import StreamLimits

EVERY = 1.0
"""Seconds for which a sample is used."""

_TIMEOUT = 2.0
_OLDEST_OF = 100
"""Maximum queues per sample whose oldest run is looked up."""

_UNSTATED = ("", "", "", "", NORMAL, "")
"""Tokens of a queue's filter that it may leave out: tenant, agent, task, run, priority, version."""

_NANO = 1_000_000_000


@dataclass(frozen=True, slots=True)
class QueueState:
    """The waiting runs of one agent, tenant, priority and version."""

    agent: str
    tenant: str
    """As a subject token."""
    priority: str
    version: str
    """The version that its tasks are pinned to; empty: they are not pinned."""
    waiting: int
    running: int
    """Runs that workers have received and not acknowledged, with those that sleep or wait for
    an earlier run of their context."""
    oldest: float | None
    """Seconds for which the oldest waiting run has waited; None: none waits, or it is unknown."""

    def shown(self) -> Json:
        """Return it without the tenant, which is the reader's."""
        return {
            "agent": self.agent,
            "priority": self.priority,
            **({"version": self.version} if self.version else {}),
            "waiting": self.waiting,
            "running": self.running,
            "oldestSeconds": self.oldest,
        }


@dataclass(frozen=True, slots=True)
class Sample:
    """The fleet at one moment."""

    at: datetime
    workers: list[Json] = field(default_factory=list)
    queues: list[QueueState] = field(default_factory=list)
    streams: list[Json] = field(default_factory=list)
    ranges: list[Json] = field(default_factory=list)
    gateway: Json = field(default_factory=dict)
    rates: Json = field(default_factory=dict)


class FleetSampler:
    """Reads samples, each for all who ask within `EVERY` seconds."""

    def __init__(
        self, bus: Bus, directory: Directory, stream_limits: StreamLimits, requests: OpenRequests
    ) -> None:
        """Read over `bus`; the others are this gateway's."""
        self._bus, self._directory = bus, directory
        self._stream_limits, self._requests = stream_limits, requests
        self._latest: Sample | None = None
        self._sequences: tuple[float, int, int] | None = None
        self._read_at = 0.0
        self._reading: asyncio.Task[Sample] | None = None

    async def sample(self) -> Sample:
        """Return a sample that is at most `EVERY` seconds old.

        Raises:
            BusUnavailable: JetStream does not answer.
        """
        loop = asyncio.get_running_loop()
        if self._latest is not None and loop.time() - self._read_at < EVERY:
            return self._latest
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read(), name="fleet sample")
        return await asyncio.shield(self._reading)

    async def _read(self) -> Sample:
        self._read_at = asyncio.get_running_loop().time()
        bus, names = self._bus, self._bus.streams
        events = [names.events(k) for k in range(bus.settings.event_streams)]
        every = [*events, names.runs, names.dead, names.pushes, f"OBJ_{names.files}"]
        every.append(f"KV_{names.memory}")
        found = await asyncio.gather(
            *(stream_info(bus, name, timeout=_TIMEOUT) for name in every), return_exceptions=True
        )
        infos = {name: one for name, one in zip(every, found, strict=True) if isinstance(one, dict)}
        if not all(name in infos for name in (*events, names.runs)):
            raise BusUnavailable("streams do not answer")
        now = nanoseconds(infos[names.runs]["ts"])
        self._latest = Sample(
            datetime.now(UTC),
            self._workers(),
            await self._queues(now),
            [_fill(name, info) for name, info in infos.items()],
            await self._ranges({name: int(infos[name]["state"]["last_seq"]) for name in events}),
            self._gateway(),
            self._rates(
                sum(int(infos[name]["state"]["last_seq"]) for name in events),
                int(infos[names.runs]["state"]["last_seq"]),
            ),
        )
        return self._latest

    def _workers(self) -> list[Json]:
        return [
            {
                "id": name,
                "agents": list(worker.agents),
                "heartbeatSeconds": round(worker.silent, 1),
            }
            for name, worker in sorted(self._directory.workers().items())
        ]

    async def _queues(self, now: int) -> list[QueueState]:
        bus, start = self._bus, f"{self._bus.subjects.prefix}.run."
        listed = await consumers(bus, bus.streams.runs, _TIMEOUT)
        waiting = _looked_up([one for one in listed if one["num_pending"]], start)
        ages = await asyncio.gather(*(self._oldest(one, now) for one in waiting))
        age_of = {one["name"]: age for one, age in zip(waiting, ages, strict=True)}
        queues = list[QueueState]()
        for one in listed:
            tenant, agent, _, _, priority, version = _tokens(one, start)
            figures = int(one["num_pending"]), int(one["num_ack_pending"])
            pinned = decode_token(version)
            queues.append(
                QueueState(agent, tenant, priority, pinned, *figures, age_of.get(one["name"]))
            )
        return sorted(queues, key=lambda one: (one.agent, one.tenant, one.priority, one.version))

    async def _oldest(self, consumer: Json, now: int) -> float | None:
        """Return the age of the consumer's next message in seconds."""
        subject = consumer["config"].get("filter_subject", "")
        sequence = int(consumer["delivered"]["stream_seq"]) + 1
        query = {"seq": sequence, "next_by_subj": subject}
        try:
            found = await get_message(self._bus, self._bus.streams.runs, query, _TIMEOUT)
        except BusUnavailable:
            return None
        if found is None:
            return None
        return round(max(0.0, (now - nanoseconds(found["time"])) / _NANO), 1)

    async def _ranges(self, heads: Mapping[str, int]) -> list[Json]:
        """Return how far task state is; the positions are read after the heads."""
        positions: Json = {}
        try:
            answer = await self._bus.request(self._bus.subjects.state("ready"), b"", _TIMEOUT)
            positions = json_text.decode(answer.data).get("positions") or {}
        except (BusUnavailable, ValueError, AttributeError):
            pass  # Task state is down: its positions are unknown, and the rest is not.
        return [
            _range(str(number), name, heads[name], positions) for number, name in enumerate(heads)
        ]

    def _gateway(self) -> Json:
        return {
            "version": version("headrace"),
            "openStreams": len(self._stream_limits),
            "openRequests": len(self._requests),
        }

    def _rates(self, entries: int, runs: int) -> Json:
        """Return messages per second since the last sample; null if that was long ago."""
        then, self._sequences = self._sequences, (self._read_at, entries, runs)
        if then is None or not EVERY / 2 < (passed := self._read_at - then[0]) < 10 * EVERY:
            return {"entriesPerSecond": None, "runsPerSecond": None}
        return {
            "entriesPerSecond": round((entries - then[1]) / passed, 1),
            "runsPerSecond": round((runs - then[2]) / passed, 1),
        }


def _tokens(consumer: Json, start: str) -> tuple[str, ...]:
    """Return the tokens of a queue's filter, as `_UNSTATED`; `start` is what comes before them."""
    tokens = str(consumer["config"].get("filter_subject", "")).removeprefix(start).split(".")
    return (*tokens, *_UNSTATED[len(tokens) :])[:6]


def _looked_up(waiting: list[Json], start: str) -> list[Json]:
    """Return the queues whose oldest run is looked up: the longest, but one of each agent first."""
    numbers, ranked = Counter[str](), list[tuple[int, Json]]()
    for one in sorted(waiting, key=lambda one: -int(one["num_pending"])):
        agent = _tokens(one, start)[1]
        ranked.append((numbers[agent], one))
        numbers[agent] += 1
    # Stable: among the first queues of the agents, and so on, the longest stay first.
    return [one for _, one in sorted(ranked, key=lambda two: two[0] > 0)][:_OLDEST_OF]


def _fill(name: str, info: Json) -> Json:
    state, most = info["state"], int(info["config"].get("max_bytes", -1))
    others = (info.get("cluster") or {}).get("replicas") or []
    current = sum(bool(one.get("current")) and not one.get("offline") for one in others)
    return {
        "name": name,
        "messages": int(state["messages"]),
        "bytes": int(state["bytes"]),
        "maxBytes": most if most > 0 else None,
        "replicas": int(info["config"].get("num_replicas", 1)),
        "currentReplicas": 1 + current,  # the leader has answered
    }


def _range(number: str, stream: str, head: int, positions: Json) -> Json:
    position = positions.get(number)
    lag = None if position is None else max(0, head - int(position))
    return {"stream": stream, "head": head, "position": position, "lag": lag}
