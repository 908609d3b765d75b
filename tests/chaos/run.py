"""A run: a fleet, its clients, what is done to it, and the verdict."""

import asyncio
import itertools
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field

import httpx

from headrace.jetstream.connection import Bus
from headrace_cli.dev.readiness import until_ready
from tests.chaos.clients import Client, Place, client_of
from tests.chaos.console import Console
from tests.chaos.faults import Fault, Tormentor, plan
from tests.chaos.firings import FiringJudge, Sources
from tests.chaos.fleet import Fleet
from tests.chaos.record import Record
from tests.chaos.verdict import Judge
from tests.support.waiting import eventually

_log = logging.getLogger(__name__)

_SETTLES = 240.0
"""Seconds that clients have to see their tasks end once nothing is done to the fleet any more."""
_TIMEOUT = httpx.Timeout(20.0)


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it."""

    seed: int
    tasks: int
    at_a_time: int
    faults: int | None = None
    """So many, and tasks begin until the last is done; None: as many as there is time for.

    A count, for on a slow machine processes that die by the clock would never come to work.
    """
    nodes: int = 1
    """Of NATS: one, or three."""
    long: float = 30.0
    """Seconds that the longest freezes last."""
    retention: float = 60.0
    """Seconds after which what has ended is erased: more than the longest freezes last, or what a
    frozen gateway sends yet would begin a log anew."""
    events: int = 0
    """Of a stream, each of which begins a task."""
    schedules: int = 0
    is_upgrade: bool = False
    """Whether an operator looks at the console meanwhile, and triggers and schedules state only
    what every release knows."""

    @property
    def has_triggers(self) -> bool:
        """Whether it needs services for events and schedules."""
        return self.events + self.schedules > 0


@dataclass(slots=True)
class Outcome:
    """What came of a run."""

    faults: Counter[str] = field(default_factory=Counter[str])
    clients: Counter[str] = field(default_factory=Counter[str])
    ends: Counter[str] = field(default_factory=Counter[str])
    """By what came of it, as its client knows."""
    events: int = 0
    connections: int = 0
    follow_ups: int = 0
    """Messages that tasks at work accepted."""
    further_attempts: int = 0
    orphans: int = 0
    children: int = 0
    forks: int = 0
    """Forks that clients have seen at rest."""
    by_events: int = 0
    by_schedules: int = 0
    """Tasks that these have begun."""
    console: int = 0
    """Requests of the console that were answered."""
    answers: int = 0
    """Of events' tasks, on the bus."""
    erased: int = 0
    unrecorded: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


async def run(
    fleet: Fleet,
    size: Size,
    begun_tasks: Callable[[int], None] = lambda _: None,
    *,
    faults: Iterator[tuple[float, Fault]] | None = None,
) -> Outcome:
    """Let clients work with `fleet` while it is tormented, then judge.

    Args:
        fleet: What they work with.
        size: How much of it.
        begun_tasks: Gets how many tasks have begun, whenever another one does.
        faults: What is done instead of what the seed decides; tasks begin until all is done.
    """
    outcome, begun = Outcome(), time.monotonic()
    tormentor = Tormentor(fleet)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    async with (
        httpx.AsyncClient(limits=limits, timeout=_TIMEOUT) as http,
        fleet.bus() as bus,
        _recorded(bus) as record,
    ):
        place = Place(http, fleet.gateways, size.seed)
        crowd = Crowd(place, size, begun_tasks)
        sources = Sources(bus, size.events, size.schedules, is_basic=size.is_upgrade)
        console = Console(place, sources)
        is_endless = faults is None and size.faults is None
        possible = plan(size.seed, size.nodes, size.long, has_triggers=size.has_triggers)
        planned = itertools.islice(possible, size.faults)
        await sources.declare(http, fleet.gateways[0], size.nodes)
        tormenting = asyncio.create_task(tormentor.torment(faults or planned))

        def share() -> float:
            if tormenting.done():
                return 1.0
            done = tormentor.done.total() / size.faults if size.faults else 1.0
            return min(crowd.share, done)

        async with sources.firing(share), console.open() if size.is_upgrade else nullcontext():
            try:
                await crowd.work(lambda: is_endless or tormenting.done())
            finally:
                tormenting.cancel()
                await asyncio.wait([tormenting])
                await tormentor.leave_in_peace()
        _log.warning("all tasks begun, and nothing is done to the fleet any more")
        outcome.wrong += await crowd.settle()
        _log.warning("all clients are done")
        if size.is_upgrade:
            outcome.wrong += await console.settle()
            outcome.console = console.calls
        outcome.wrong += await sources.settle()
        fired, answers = await sources.firings(), await sources.answers()
        await until_ready(fleet.gateways, with_agents=True, timeout=60)
        outcome.wrong += await _rested(record)
        outcome.wrong += await _left_over(fleet, bus, record)
        if not tormenting.cancelled():
            tormenting.result()
    outcome.seconds, outcome.faults = time.monotonic() - begun, tormentor.done
    _judge(record, crowd.clients, outcome)
    firings = FiringJudge(record.logs.values(), outcome.unrecorded)
    outcome.by_events = sum(one.is_of_event for one in firings.tasks)
    outcome.by_schedules = len(firings.tasks) - outcome.by_events
    outcome.orphans -= len(firings.tasks)
    outcome.answers = len(answers)
    outcome.wrong += [
        *firings.of_each(),
        *firings.of_events(sources.published),
        *(firings.of_answers(answers) if sources.has_answers else ()),
        *firings.of_schedules(fired, sources.away),
    ]
    return outcome


class Crowd:
    """Clients, some at a time."""

    def __init__(self, place: Place, size: Size, begun: Callable[[int], None]) -> None:
        """Nobody yet."""
        self._begun = begun
        self.clients: list[Client] = []
        self._place, self._size = place, size
        self._working: set[asyncio.Task[None]] = set()
        self._wrong: list[str] = []

    @property
    def share(self) -> float:
        """Which share of its clients has begun."""
        return len(self.clients) / self._size.tasks

    async def work(self, is_enough: Callable[[], bool]) -> None:
        """Start all of them, the next as soon as one is done; return when the last has begun.

        Others follow them as long as it is not enough.
        """
        while len(self.clients) < self._size.tasks or not is_enough():
            if len(self._working) >= self._size.at_a_time:
                await asyncio.wait(self._working, return_when=asyncio.FIRST_COMPLETED)
            self._begin()
            self._begun(len(self.clients))
            if len(self.clients) % 100 == 0:
                _log.warning("%d tasks begun", len(self.clients))

    async def settle(self) -> list[str]:
        """Return what went wrong, once all have seen their tasks end, or too much time is up."""
        if self._working:
            await asyncio.wait(self._working, timeout=_SETTLES)
        for task in list(self._working):
            task.cancel()
            self._wrong.append(f"it still works: {task.get_coro()!r}")
        if self._working:
            await asyncio.wait(self._working)
        return self._wrong

    def _begin(self) -> None:
        client = client_of(self._place, len(self.clients))
        self.clients.append(client)
        task = asyncio.create_task(client.work())
        self._working.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._working.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._wrong += [f"{type(cause).__name__}: {cause}" for cause in _causes(error)]


def _causes(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _causes(each)
    else:
        yield error


def _judge(record: Record, clients: list[Client], outcome: Outcome) -> None:
    judge = Judge(record)
    outcome.clients = Counter(type(client).__name__ for client in clients)
    outcome.ends = Counter(client.came_to or "waits" for client in clients)
    outcome.events = sum(len(client.follower.received) for client in clients)
    outcome.connections = sum(1 + len(client.follower.interruptions) for client in clients)
    outcome.follow_ups = sum(len(client.accepted) for client in clients)
    for client in clients:
        outcome.wrong += judge.of_client(client)
    outcome.wrong += judge.of_all()
    outcome.further_attempts = judge.attempts
    outcome.children, outcome.forks = judge.families.size, judge.forks
    outcome.orphans = len(record.logs) - len(judge.followed) - outcome.children
    outcome.erased = sum(log.is_erased for log in record.logs.values())
    outcome.unrecorded = judge.unrecorded


@asynccontextmanager
async def _recorded(bus: Bus) -> AsyncIterator[Record]:
    record = Record(bus)
    keeping = asyncio.create_task(record.keep())
    try:
        yield record
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
    if not keeping.cancelled():
        keeping.result()


async def _rested(record: Record) -> list[str]:
    """Return which tasks do not end, though nobody touches the fleet any more."""

    async def all_rest() -> bool:
        return all(log.rests for log in record.logs.values())

    try:
        await eventually(all_rest, "every task has ended, or waits for its user", _SETTLES)
    except AssertionError as late:
        return [str(late)]
    return []


_USAGE = "headrace:usage:"


async def _left_over(fleet: Fleet, bus: Bus, record: Record) -> list[str]:
    """Return what is left of tasks that are kept no more."""
    left = list[str]()

    async def nothing_is_left() -> bool:
        found = list[str]()
        erased = {log.key.task for log in record.logs.values() if log.has_ended}
        # The tombstone of what a client has deleted stands for a day.
        deleted = {bus.subjects.event(log.key) for log in record.logs.values() if log.is_deleted}
        for stream in (bus.streams.events(0), bus.streams.runs, "KV_PUSH", "OBJ_FILES"):
            answer = await fleet.ask_nats(f"$JS.API.STREAM.INFO.{stream}", {"subjects_filter": ">"})
            if "state" not in answer:
                found.append(f"{stream} does not answer: {answer}")
                continue
            subjects = answer["state"].get("subjects") or {}
            found.extend(
                f"{stream} has {number} of {subject}"
                for subject, number in subjects.items()
                if _tasks_in(subject) & erased and (number > 1 or subject not in deleted)
            )
        async with fleet.redis() as redis:
            [keys] = await redis.ask(["KEYS", "*"])
            names = [key.decode() for key in keys if _tasks_in(key.decode()) & erased]
            times = await redis.ask(*(["TTL", name] for name in names)) if names else []
            # Up to where a log's usage is counted is known for some minutes more.
            expiring = {n for n, left in zip(names, times, strict=True) if left >= 0}
            found.extend(
                f"Redis has {name}"
                for name in names
                if not (name in expiring and name.startswith(_USAGE))
            )
        # The last whole look is reported, even if the time ends during the next one.
        left[:] = found
        return not found

    try:
        await eventually(nothing_is_left, "nothing is left of what is past retention", _SETTLES)
    except AssertionError as late:
        return [f"{late}: {len(left)} things, {left[:5]}"]
    return []


def _tasks_in(name: str) -> set[str]:
    """Return what may be a task's id in a subject or a key."""
    return set(name.replace(":", ".").replace("/", ".").split("."))
