"""A run: clients and faults on a fleet, and the verdict."""

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
from tests.chaos.awaited_calls import stored_calls
from tests.chaos.clients import Client, ClientContext, SteppingClient, client_of
from tests.chaos.console import Console
from tests.chaos.faults import Fault, FaultInjector, plan
from tests.chaos.firings import FiringJudge, Sources
from tests.chaos.fleet import Fleet
from tests.chaos.hostile import SHARE, HostileEvents
from tests.chaos.record import Record
from tests.chaos.step_journal import StepJournal
from tests.chaos.verdict import Judge
from tests.support.background import running
from tests.support.waiting import eventually

_log = logging.getLogger(__name__)

_SETTLES = 240.0
"""Seconds that clients have after the last fault to see their tasks end."""
_TIMEOUT = httpx.Timeout(20.0)
_NO_FAULTS = (
    "no fault was injected: all tasks began before the first one; raise --tasks, or set --faults"
)


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a run."""

    seed: int
    tasks: int
    at_a_time: int
    faults: int | None = None
    """Number of faults; tasks begin until the last one is injected. None: as many as fit.

    A count instead of a duration, because on a slow machine faults by the clock would leave
    processes no time to work.
    """
    nodes: int = 1
    """NATS nodes: 1 or 3."""
    long: float = 30.0
    """Duration of the longest freezes in seconds."""
    retention: float = 60.0
    """Seconds after which ended tasks are erased. Longer than the longest freezes, because a
    gateway that continues could otherwise begin an erased log again."""
    events: int = 0
    """Number of events, each of which begins a task."""
    schedules: int = 0
    is_upgrade: bool = False
    """Whether a console is open meanwhile, and triggers and schedules use only fields that every
    release knows."""

    does_steps: bool = False
    """Whether all clients use agents that do steps."""

    @property
    def has_triggers(self) -> bool:
        """Whether it needs the triggers service."""
        return self.events + self.schedules > 0


@dataclass(slots=True)
class Outcome:
    """The result of a run."""

    faults: Counter[str] = field(default_factory=Counter[str])
    clients: Counter[str] = field(default_factory=Counter[str])
    ends: Counter[str] = field(default_factory=Counter[str])
    """Clients by how their task ended, as they saw it."""
    events: int = 0
    connections: int = 0
    follow_ups: int = 0
    """Follow-ups that running tasks accepted."""
    further_attempts: int = 0
    orphans: int = 0
    children: int = 0
    stepped: int = 0
    """Completed tasks of agents that do steps."""
    steps: int = 0
    """Steps that were done, in all tasks."""
    step_calls: int = 0
    """Calls of their functions."""
    waits: int = 0
    """Waits whose event was checked."""
    stored_calls: int = 0
    """Calls of their webhooks that were answered with 202."""
    forks: int = 0
    """Forks that clients have seen end."""
    by_events: int = 0
    by_schedules: int = 0
    """Tasks begun by schedules."""
    console: int = 0
    """Console requests with a correct answer."""
    answers: int = 0
    """Answers to events on the bus."""
    hostile: Counter[str] = field(default_factory=Counter[str])
    """Hostile events by kind, and what they became: tasks, letters."""
    erased: int = 0
    unrecorded: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


async def run(
    fleet: Fleet,
    size: Size,
    begun_tasks: Callable[[int], None] = lambda _: None,
    *,
    faults: Iterator[tuple[float, Fault]] | None = None,
) -> Outcome:
    """Run clients on `fleet` while faults are injected, then check what they received and stored.

    Args:
        fleet: The stack under test.
        size: The size of the run.
        begun_tasks: Called with the number of begun tasks whenever a client begins one.
        faults: Faults instead of those drawn from the seed; tasks begin until the last one.
    """
    outcome, begun = Outcome(), time.monotonic()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    async with (
        httpx.AsyncClient(limits=limits, timeout=_TIMEOUT) as http,
        fleet.bus() as bus,
        _recorded(bus) as record,
    ):
        context = ClientContext(http, fleet.gateways, size.seed)
        pool = ClientPool(context, size, begun_tasks)
        injector = FaultInjector(fleet, lambda: pool.ended)
        sources = Sources(bus, size.events, size.schedules, is_basic=size.is_upgrade)
        console = Console(context, sources)
        is_endless = faults is None and size.faults is None
        possible = plan(size.seed, size.nodes, size.long, has_triggers=size.has_triggers)
        planned = itertools.islice(possible, size.faults)
        await sources.declare(http, fleet.gateways, size.nodes)
        # Releases before may not survive them.
        hostile = HostileEvents(bus, 0 if size.is_upgrade else size.events // SHARE)
        await hostile.declare(size.nodes)
        injecting = asyncio.create_task(injector.inject_all(faults or planned))

        def share() -> float:
            if injecting.done():
                return 1.0
            done = injector.injected.total() / size.faults if size.faults else 1.0
            return min(pool.share, done)

        async with (
            sources.firing(share),
            hostile.publishing(share),
            console.open() if size.is_upgrade else nullcontext(),
        ):
            try:
                await pool.work(lambda: is_endless or injecting.done())
            finally:
                injecting.cancel()
                await asyncio.wait([injecting])
                await injector.undo_all()
        _log.warning("all tasks have begun, and no more faults are injected")
        if is_endless and not injector.injected:
            outcome.problems.append(_NO_FAULTS)
        outcome.problems += await pool.settle()
        _log.warning("all clients have ended")
        if size.is_upgrade:
            outcome.problems += await console.settle()
            outcome.console = console.calls
        outcome.problems += await hostile.settle()
        outcome.problems += await sources.settle()
        fired, answers = await sources.firings(), await sources.answers()
        await until_ready(fleet.gateways, with_agents=True, timeout=60)
        outcome.problems += await _not_at_rest(record)
        outcome.problems += await _not_erased(fleet, bus, record)
        if not injecting.cancelled():
            injecting.result()
    outcome.seconds, outcome.faults = time.monotonic() - begun, injector.injected
    _judge(record, StepJournal(fleet.steps), pool.clients, outcome)
    outcome.answers = len(answers)
    judge = _judge_firings(record, outcome, hostile)
    outcome.problems += [
        *judge.check_tasks(),
        *judge.check_events(sources.published),
        *(judge.check_answers(answers) if sources.has_answers else ()),
        *judge.check_schedules(fired, sources.away, sources.times, is_certain=sources.is_certain),
        *hostile.problems(judge.of_others, outcome.unrecorded),
    ]
    return outcome


def _judge_firings(record: Record, outcome: Outcome, hostile: HostileEvents) -> FiringJudge:
    """Count the tasks that events and schedules began, and return what checks them."""
    firings = FiringJudge(record.logs.values(), outcome.unrecorded)
    outcome.by_events = sum(one.is_of_event for one in firings.tasks)
    outcome.by_schedules = len(firings.tasks) - outcome.by_events
    outcome.orphans -= len(firings.tasks) + len(firings.of_others)
    outcome.hostile = Counter({kind: len(each) for kind, each in hostile.published.items()})
    outcome.hostile["tasks"] = len(firings.of_others)
    outcome.hostile["letters"] = hostile.letters.total()
    return firings


class ClientPool:
    """Runs clients, a limited number at a time."""

    def __init__(self, context: ClientContext, size: Size, begun: Callable[[int], None]) -> None:
        """Start without clients."""
        self._begun = begun
        self.clients: list[Client] = []
        self._context, self._size = context, size
        self._working: set[asyncio.Task[None]] = set()
        self._problems: list[str] = []

    @property
    def share(self) -> float:
        """The share of the clients that have begun."""
        return len(self.clients) / self._size.tasks

    @property
    def ended(self) -> int:
        """The number of clients that have ended."""
        return len(self.clients) - len(self._working)

    async def work(self, is_done: Callable[[], bool]) -> None:
        """Start all clients, the next one as soon as one ends; return when the last has begun.

        Start more clients until `is_done` returns true.
        """
        while len(self.clients) < self._size.tasks or not is_done():
            if len(self._working) >= self._size.at_a_time:
                await asyncio.wait(self._working, return_when=asyncio.FIRST_COMPLETED)
            self._begin()
            self._begun(len(self.clients))
            if len(self.clients) % 100 == 0:
                _log.warning("%d tasks have begun", len(self.clients))

    async def settle(self) -> list[str]:
        """Wait until all clients have seen their tasks end, and return their problems."""
        if self._working:
            await asyncio.wait(self._working, timeout=_SETTLES)
        for task in list(self._working):
            task.cancel()
            self._problems.append(f"a client has not ended: {task.get_coro()!r}")
        if self._working:
            await asyncio.wait(self._working)
        return self._problems

    def _begin(self) -> None:
        kind = SteppingClient if self._size.does_steps else client_of
        client = kind(self._context, len(self.clients))
        self.clients.append(client)
        task = asyncio.create_task(client.work())
        self._working.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._working.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._problems += [f"{type(cause).__name__}: {cause}" for cause in _causes(error)]


def _causes(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _causes(each)
    else:
        yield error


def _judge(record: Record, steps: StepJournal, clients: list[Client], outcome: Outcome) -> None:
    judge = Judge(record, steps)
    outcome.clients = Counter(type(client).__name__ for client in clients)
    outcome.ends = Counter(client.outcome_name or "waiting" for client in clients)
    outcome.events = sum(len(client.follower.received) for client in clients)
    outcome.connections = sum(1 + len(client.follower.interruptions) for client in clients)
    outcome.follow_ups = sum(len(client.accepted) for client in clients)
    for client in clients:
        outcome.problems += judge.check_client(client)
    outcome.problems += judge.check_all()
    outcome.further_attempts = judge.attempts
    outcome.children, outcome.forks = judge.task_trees.size, judge.forks
    outcome.orphans = len(record.logs) - len(judge.followed) - outcome.children
    outcome.erased = sum(log.is_erased for log in record.logs.values())
    outcome.unrecorded = judge.unrecorded
    outcome.stepped, outcome.steps, outcome.step_calls = judge.stepped, steps.done, steps.calls
    outcome.waits, outcome.stored_calls = judge.waited, stored_calls(steps)


@asynccontextmanager
async def _recorded(bus: Bus) -> AsyncIterator[Record]:
    record = Record(bus)
    async with running(record.keep()):
        yield record


async def _not_at_rest(record: Record) -> list[str]:
    """Return the tasks that do not end although no more faults are injected."""

    async def all_rest() -> bool:
        return all(log.is_at_rest for log in record.logs.values())

    try:
        await eventually(all_rest, "every task has ended or is waiting for its user", _SETTLES)
    except AssertionError as late:
        return [str(late)]
    return []


_USAGE = "headrace:usage:"


async def _not_erased(fleet: Fleet, bus: Bus, record: Record) -> list[str]:
    """Return what remains of tasks past their retention."""
    left = list[str]()

    async def everything_is_erased() -> bool:
        found = list[str]()
        erased = {log.key.task for log in record.logs.values() if log.has_ended}
        # The tombstone of a task that a client deleted stays for a day.
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
            # The position up to which a log's usage is counted expires some minutes later.
            expiring = {n for n, left in zip(names, times, strict=True) if left >= 0}
            found.extend(
                f"Redis has {name}"
                for name in names
                if not (name in expiring and name.startswith(_USAGE))
            )
        # The last complete check is reported, even if the time ends during the next one.
        left[:] = found
        return not found

    try:
        await eventually(
            everything_is_erased, "all tasks past their retention are erased", _SETTLES
        )
    except AssertionError as late:
        return [f"{late}: {len(left)} remain, {left[:5]}"]
    return []


def _tasks_in(name: str) -> set[str]:
    """Return the parts of a subject or key that may be task ids."""
    return set(name.replace(":", ".").replace("/", ".").split("."))
