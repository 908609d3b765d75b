"""Faults, drawn from a seed. A new fault is a class and a line in `KINDS`.

A fault that lasts returns a function that undoes it.
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
_UNANSWERED = 10.0
"""The longest wait for a client's end before the next fault."""
_LOOK = 0.05
_AT_ONCE = 5
"""One of this many faults waits for no client, so that faults also meet in an outage."""
_DRAINED = 6.0
"""Longer than a gateway has to drain."""
_FULL = 4.0
_NODE_AWAY = 6.0
_ANSWERS = 5.0
_TIMEOUT = 120.0


class NotPossibleNow(Exception):
    """The target is not in a state for the fault."""


@dataclass(frozen=True, slots=True)
class Fault(ABC):
    """A fault that is injected once."""

    lasts: float
    """Seconds until it is undone; 0 if nothing is to undo."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name under which it is counted."""

    @abstractmethod
    async def do(self, fleet: Fleet) -> Undo | None:
        """Inject the fault, and return what undoes it.

        Raises:
            NotPossibleNow: the target is not in a state for it.
        """


@dataclass(frozen=True, slots=True)
class Signal(Fault):
    """Send a signal to a process: SIGKILL, or SIGTERM, which drains it."""

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
    """Kill all processes of a role."""

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
    """Stop a process with its connections open, and continue it later."""

    role: Role
    index: int
    is_long: bool

    @property
    def name(self) -> str:
        return f"freeze {self.role}{' for long' if self.is_long else ''}"

    async def do(self, fleet: Fleet) -> Undo:
        pid = _pid(fleet, self.role, self.index)
        os.kill(pid, signal.SIGSTOP)

        async def resume() -> None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

        return resume


@dataclass(frozen=True, slots=True)
class DrainWithoutNats(Fault):
    """Drain a gateway while NATS is frozen."""

    index: int

    @property
    def name(self) -> str:
        return "drain gateway without NATS"

    async def do(self, fleet: Fleet) -> Undo:
        resume = await Freeze(self.lasts, "nats", 0, is_long=False).do(fleet)
        with suppress(NotPossibleNow, ProcessLookupError):
            os.kill(_pid(fleet, "gateway", self.index), signal.SIGTERM)
        return resume


@dataclass(frozen=True, slots=True)
class Flush(Fault):
    """Delete everything in Redis."""

    @property
    def name(self) -> str:
        return "flush redis"

    async def do(self, fleet: Fleet) -> None:
        async with fleet.redis() as redis:
            try:
                async with asyncio.timeout(_ANSWERS):
                    await redis.ask(["FLUSHALL"])
            except (TimeoutError, StateUnavailable) as gone:
                raise NotPossibleNow from gone


@dataclass(frozen=True, slots=True)
class Fill(Fault):
    """Limit the event stream to its present size for a while."""

    @property
    def name(self) -> str:
        return "fill the event stream"

    async def do(self, fleet: Fleet) -> Undo:
        now = await fleet.ask_nats(f"$JS.API.STREAM.INFO.{EVENTS}")
        if not now.get("state", {}).get("bytes"):
            raise NotPossibleNow
        if not await _is_limited(fleet, now["config"], now["state"]["bytes"]):
            # Its answer may have been lost.
            await _until_limited(fleet, now["config"], -1)
            raise NotPossibleNow
        return lambda: _until_limited(fleet, now["config"], -1)


@dataclass(frozen=True, slots=True)
class LoseNode(Fault):
    """Kill or freeze one of three nodes; the others elect new leaders."""

    index: int
    frozen: bool

    @property
    def name(self) -> str:
        return f"{'freeze' if self.frozen else 'kill'} a node"

    async def do(self, fleet: Fleet) -> Undo:
        assert fleet.cluster is not None
        cluster, node = fleet.cluster, fleet.cluster.nodes[self.index]
        if not await asyncio.to_thread(cluster.is_whole):
            raise NotPossibleNow
        await asyncio.to_thread(node.freeze if self.frozen else node.kill)

        async def restore() -> None:
            if self.frozen:
                node.thaw()
            else:
                await asyncio.to_thread(node.start, wait=False)

        return restore


@dataclass(frozen=True, slots=True)
class HandOver(Fault):
    """Let the leader of a stream step down."""

    stream: str

    @property
    def name(self) -> str:
        return f"elect a leader of {self.stream}"

    async def do(self, fleet: Fleet) -> None:
        answer = await fleet.ask_nats(f"$JS.API.STREAM.LEADER.STEPDOWN.{self.stream}")
        if not answer.get("success"):
            raise NotPossibleNow


def _pid(fleet: Fleet, role: Role, index: int) -> int:
    try:
        return fleet.stack.pids(role)[index]
    except IndexError:
        raise NotPossibleNow from None


async def _is_limited(fleet: Fleet, config: dict[str, object], most: int) -> bool:
    """Set the event stream's limit in bytes, and return whether it is confirmed."""
    changed = config | {"max_bytes": most}
    answer = await fleet.ask_nats(f"$JS.API.STREAM.UPDATE.{EVENTS}", changed)
    return bool(answer.get("config", {}).get("max_bytes") == most)


async def _until_limited(fleet: Fleet, config: dict[str, object], most: int) -> None:
    what = f"the event stream's limit is {most} bytes"
    await eventually(lambda: _is_limited(fleet, config, most), what, _TIMEOUT)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault."""

    weight: int
    """Relative frequency."""
    draw: Callable[[random.Random, float], Fault]
    """Returns a fault; its second parameter is the duration of a long one in seconds."""
    nodes: int | None = None
    """Number of NATS nodes that it needs; None for any."""
    of_triggers: bool = False
    """Whether it needs services for events and schedules."""

    def is_possible(self, nodes: int, *, has_triggers: bool) -> bool:
        """Return whether it can be injected into a fleet."""
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


def _drain_without_nats(chance: random.Random, long: float) -> Fault:
    return DrainWithoutNats(min(_DRAINED, long), chance.randrange(GATEWAYS))


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
    Kind(1, _drain_without_nats, nodes=1),
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
    """Yield faults without end, each with the seconds after the previous one.

    One of each kind comes first, so that a short run has them all. The longest faults last `long`
    seconds.
    """
    chance = random.Random(f"{seed}/faults")
    kinds = [kind for kind in KINDS if kind.is_possible(nodes, has_triggers=has_triggers)]
    weights = [kind.weight for kind in kinds]
    once = chance.sample(kinds, len(kinds))
    while True:
        kind = once.pop() if once else chance.choices(kinds, weights)[0]
        yield chance.uniform(_SHORTEST, _LONGEST), kind.draw(chance, long)


class FaultInjector:
    """Injects faults into a fleet, and undoes them.

    A fault follows the previous one after the time that is drawn for it, and most not before a
    client has ended in between: on a machine where starting a process takes longer than the time
    between faults, these would otherwise end each process before it serves, and no task would end.
    """

    def __init__(self, fleet: Fleet, ended: Callable[[], int]) -> None:
        """Inject into `fleet`; `ended` returns how many clients have seen their tasks end."""
        self.injected = Counter[str]()
        self._fleet, self._ended = fleet, ended
        self._lasting = list[asyncio.Task[None]]()
        self._stopped = asyncio.Event()

    async def inject_all(self, faults: Iterator[tuple[float, Fault]]) -> None:
        """Inject all faults, one after the other."""
        for number, (after, fault) in enumerate(faults):
            ended = self._ended()
            await asyncio.sleep(after)
            if number % _AT_ONCE:
                await self._until_more_than(ended)
            await self._inject(fault)

    async def _until_more_than(self, ended: int) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_UNANSWERED):
                while self._ended() <= ended:  # noqa: ASYNC110  # clients end on their own
                    await asyncio.sleep(_LOOK)

    async def _inject(self, fault: Fault) -> None:
        with suppress(NotPossibleNow, ProcessLookupError):  # The process is down at this moment.
            undo = await fault.do(self._fleet)
            self.injected[fault.name] += 1
            _log.info("%s", fault)
            if undo is not None:
                self._undo_later(fault, undo)

    async def undo_all(self) -> None:
        """Undo all lasting faults now; return when they are undone."""
        self._stopped.set()
        await asyncio.gather(*self._lasting)

    def _undo_later(self, fault: Fault, undo: Undo) -> None:
        async def wait() -> None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), fault.lasts)
            await undo()

        self._lasting.append(asyncio.create_task(wait()))
