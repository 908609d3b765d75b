"""What is done to the fleet, decided by a seed alone. A new fault is a class and a line in `KINDS`.

Every fault that lasts returns what undoes it.
"""

import asyncio
import logging
import os
import random
import signal
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from headrace.model.errors import StateUnavailable
from headrace_cli.dev.dev_file import Role
from tests.chaos.fleet import GATEWAYS, TASK_STATES, TRIGGERS, WORKERS, Fleet
from tests.support.waiting import eventually

_log = logging.getLogger(__name__)

type Undo = Callable[[], Awaitable[None]]

EVENTS = "EVENTS"
_STREAMS = (EVENTS, "RUNS", "KV_IDEMPOTENCY")
_SIZES: dict[Role, int] = {
    "worker": WORKERS,
    "gateway": GATEWAYS,
    "task-state": TASK_STATES,
    "triggers": TRIGGERS,
    "nats": 1,
    "redis": 1,
}
_SHORTEST, _LONGEST = 0.3, 1.7
_STOPPED = 8.0
_SERVER_STOPPED = 2.0
_DRAINED = 6.0
"""Longer than a gateway has to drain."""
_FULL = 4.0
_NODE_AWAY = 6.0
_ANSWERS = 5.0
_TIMEOUT = 120.0


class NotNow(Exception):
    """What it is to be done to is in no state for it."""


@dataclass(frozen=True, slots=True)
class Fault(ABC):
    """Something that is done once."""

    lasts: float
    """Seconds until it is undone; 0: it is not."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is counted as."""

    @abstractmethod
    async def do(self, fleet: Fleet) -> Undo | None:
        """Do it.

        Raises:
            NotNow: it can't be done at this moment.
        """


@dataclass(frozen=True, slots=True)
class Signal(Fault):
    """A process gets a signal: SIGKILL, or SIGTERM, on which it drains."""

    role: Role
    index: int
    number: signal.Signals

    @property
    def name(self) -> str:
        return f"{'kill' if self.number == signal.SIGKILL else 'drain'} {self.role}"

    async def do(self, fleet: Fleet) -> None:
        os.kill(_pid(fleet, self.role, self.index), self.number)


@dataclass(frozen=True, slots=True)
class KillAll(Fault):
    """All processes of a role die."""

    role: Role

    @property
    def name(self) -> str:
        return f"kill all {self.role.removesuffix('s')}s"

    async def do(self, fleet: Fleet) -> None:
        for pid in fleet.stack.pids(self.role):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Freeze(Fault):
    """A process stops, with its connections open, and goes on later."""

    role: Role
    index: int
    is_long: bool

    @property
    def name(self) -> str:
        return f"freeze {self.role}{' for long' if self.is_long else ''}"

    async def do(self, fleet: Fleet) -> Undo:
        pid = _pid(fleet, self.role, self.index)
        os.kill(pid, signal.SIGSTOP)

        async def go_on() -> None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

        return go_on


@dataclass(frozen=True, slots=True)
class DrainInSilence(Fault):
    """A gateway drains while NATS, frozen, answers nothing that it waits for."""

    index: int

    @property
    def name(self) -> str:
        return "drain gateway in silence"

    async def do(self, fleet: Fleet) -> Undo:
        go_on = await Freeze(self.lasts, "nats", 0, is_long=False).do(fleet)
        with suppress(NotNow, ProcessLookupError):
            os.kill(_pid(fleet, "gateway", self.index), signal.SIGTERM)
        return go_on


@dataclass(frozen=True, slots=True)
class Flush(Fault):
    """Redis loses everything."""

    @property
    def name(self) -> str:
        return "flush redis"

    async def do(self, fleet: Fleet) -> None:
        async with fleet.redis() as redis:
            try:
                async with asyncio.timeout(_ANSWERS):
                    await redis.ask(["FLUSHALL"])
            except (TimeoutError, StateUnavailable) as gone:
                raise NotNow from gone


@dataclass(frozen=True, slots=True)
class Fill(Fault):
    """The event stream takes nothing more, for a while."""

    @property
    def name(self) -> str:
        return "fill the event stream"

    async def do(self, fleet: Fleet) -> Undo:
        now = await fleet.ask_nats(f"$JS.API.STREAM.INFO.{EVENTS}")
        if not now.get("state", {}).get("bytes"):
            raise NotNow
        if not await _limited(fleet, now["config"], now["state"]["bytes"]):
            # Its answer may have been lost.
            await _until_limited(fleet, now["config"], -1)
            raise NotNow
        return lambda: _until_limited(fleet, now["config"], -1)


@dataclass(frozen=True, slots=True)
class LoseNode(Fault):
    """One of three nodes dies or freezes; the others elect whom they need."""

    index: int
    frozen: bool

    @property
    def name(self) -> str:
        return f"{'freeze' if self.frozen else 'kill'} a node"

    async def do(self, fleet: Fleet) -> Undo:
        assert fleet.cluster is not None
        cluster, node = fleet.cluster, fleet.cluster.nodes[self.index]
        if not await asyncio.to_thread(cluster.is_whole):
            raise NotNow
        await asyncio.to_thread(node.freeze if self.frozen else node.kill)

        async def come_back() -> None:
            if self.frozen:
                node.thaw()
            else:
                await asyncio.to_thread(node.start, wait=False)

        return come_back


@dataclass(frozen=True, slots=True)
class HandOver(Fault):
    """The leader of a stream steps down."""

    stream: str

    @property
    def name(self) -> str:
        return f"elect a leader of {self.stream}"

    async def do(self, fleet: Fleet) -> None:
        answer = await fleet.ask_nats(f"$JS.API.STREAM.LEADER.STEPDOWN.{self.stream}")
        if not answer.get("success"):
            raise NotNow


def _pid(fleet: Fleet, role: Role, index: int) -> int:
    try:
        return fleet.stack.pids(role)[index]
    except IndexError:
        raise NotNow from None


async def _limited(fleet: Fleet, config: dict[str, object], most: int) -> bool:
    """Tell whether the event stream is known to take at most that many bytes now."""
    changed = config | {"max_bytes": most}
    answer = await fleet.ask_nats(f"$JS.API.STREAM.UPDATE.{EVENTS}", changed)
    return bool(answer.get("config", {}).get("max_bytes") == most)


async def _until_limited(fleet: Fleet, config: dict[str, object], most: int) -> None:
    what = f"the event stream takes {most} bytes"
    await eventually(lambda: _limited(fleet, config, most), what, _TIMEOUT)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault."""

    weight: int
    """How often it happens in relation to the others."""
    draw: Callable[[random.Random, float], Fault]
    """Returns one, with the seconds that a long one lasts."""
    nodes: int | None = None
    """On so many NATS nodes only; None: on any number."""
    of_triggers: bool = False
    """Whether it needs services for events and schedules."""

    def is_possible(self, nodes: int, *, has_triggers: bool) -> bool:
        """Return whether it can be done to a fleet."""
        return self.nodes in {None, nodes} and (has_triggers or not self.of_triggers)


def _signal(role: Role, number: signal.Signals) -> Callable[[random.Random, float], Fault]:
    return lambda chance, _: Signal(0.0, role, chance.randrange(_SIZES[role]), number)


def _freeze(
    role: Role, longest: float = _STOPPED, *, is_long: bool = False
) -> Callable[[random.Random, float], Fault]:
    def draw(chance: random.Random, long: float) -> Fault:
        lasts = long if is_long else min(chance.uniform(0.2, longest), long)
        return Freeze(lasts, role, chance.randrange(_SIZES[role]), is_long)

    return draw


def _drain_in_silence(chance: random.Random, long: float) -> Fault:
    return DrainInSilence(min(_DRAINED, long), chance.randrange(GATEWAYS))


def _lose_node(*, frozen: bool) -> Callable[[random.Random, float], Fault]:
    return lambda chance, long: LoseNode(min(_NODE_AWAY, long), chance.randrange(3), frozen)


KINDS: tuple[Kind, ...] = (
    Kind(8, _signal("worker", signal.SIGKILL)),
    Kind(5, _freeze("worker")),
    Kind(1, _freeze("worker", is_long=True)),
    Kind(3, _signal("worker", signal.SIGTERM)),
    Kind(1, lambda _, __: KillAll(0.0, "worker")),
    Kind(4, _signal("gateway", signal.SIGKILL)),
    Kind(1, _signal("gateway", signal.SIGTERM)),
    Kind(1, _freeze("gateway")),
    Kind(1, _freeze("gateway", is_long=True)),
    Kind(4, _signal("task-state", signal.SIGKILL)),
    Kind(2, _freeze("task-state")),
    Kind(1, _freeze("task-state", is_long=True)),
    Kind(4, _signal("triggers", signal.SIGKILL), of_triggers=True),
    Kind(1, _signal("triggers", signal.SIGTERM), of_triggers=True),
    Kind(2, _freeze("triggers"), of_triggers=True),
    Kind(1, _freeze("triggers", is_long=True), of_triggers=True),
    Kind(1, lambda _, __: KillAll(0.0, "triggers"), of_triggers=True),
    Kind(1, _signal("nats", signal.SIGKILL), nodes=1),
    Kind(1, _freeze("nats", _SERVER_STOPPED), nodes=1),
    Kind(1, _drain_in_silence, nodes=1),
    Kind(1, _lose_node(frozen=False), nodes=3),
    Kind(1, _lose_node(frozen=True), nodes=3),
    Kind(2, lambda chance, _: HandOver(0.0, chance.choice(_STREAMS)), nodes=3),
    Kind(1, _signal("redis", signal.SIGKILL)),
    Kind(1, lambda _, __: Flush(0.0)),
    Kind(1, lambda chance, long: Fill(min(chance.uniform(1, _FULL), long))),
)


def plan(
    seed: int, nodes: int, long: float, *, has_triggers: bool = False
) -> Iterator[tuple[float, Fault]]:
    """Yield the seconds since the fault before, and a fault, without end.

    One of each kind comes first, so that a short run has them all. `long` is how many seconds the
    longest last.
    """
    chance = random.Random(f"{seed}/faults")
    kinds = [kind for kind in KINDS if kind.is_possible(nodes, has_triggers=has_triggers)]
    weights = [kind.weight for kind in kinds]
    once = chance.sample(kinds, len(kinds))
    while True:
        kind = once.pop() if once else chance.choices(kinds, weights)[0]
        yield chance.uniform(_SHORTEST, _LONGEST), kind.draw(chance, long)


class Tormentor:
    """Does what is planned to a fleet, until it is told to leave it in peace."""

    def __init__(self, fleet: Fleet) -> None:
        """Do it to `fleet`."""
        self.done = Counter[str]()
        self._fleet = fleet
        self._lasting = list[asyncio.Task[None]]()
        self._in_peace = asyncio.Event()

    async def torment(self, faults: Iterator[tuple[float, Fault]]) -> None:
        """Do it all, one after the other."""
        for after, fault in faults:
            await asyncio.sleep(after)
            with suppress(NotNow, ProcessLookupError):  # It is dead just now.
                undo = await fault.do(self._fleet)
                self.done[fault.name] += 1
                _log.info("%s", fault)
                if undo is not None:
                    self._undo_later(fault, undo)

    async def leave_in_peace(self) -> None:
        """Undo at once what lasts; return when it is undone."""
        self._in_peace.set()
        await asyncio.gather(*self._lasting)

    def _undo_later(self, fault: Fault, undo: Undo) -> None:
        async def wait() -> None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._in_peace.wait(), fault.lasts)
            await undo()

        self._lasting.append(asyncio.create_task(wait()))
