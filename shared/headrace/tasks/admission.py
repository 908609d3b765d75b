"""Limits on waiting runs, per agent and per tenant of an agent.

A background task reads the number of waiting runs from the work queue's consumers, about once a
second. The process adds what it has admitted since, so a request costs no round trip. The queue is
read again first only if that number is not enough to decide: a bound is reached, or much of the
room below it is used up. Runs that other processes admit meanwhile are not counted, so a bound may
be exceeded by that number: see ``docs/back-pressure.md``.
"""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, Self

from headrace.background import keep_running
from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import consumers
from headrace.model.errors import BusUnavailable, HeadraceError
from headrace.model.events import Json
from headrace.model.task import TaskKey
from headrace.settings import RunLimitSettings
from headrace.tasks.quotas import SOFT, LimitWarnings, Quotas, QuotaSubject, QuotaWarning
from headrace.ticks import tick, until_tick


class TooManyWaiting(HeadraceError):
    """The limit of runs waiting for the agent is reached; nothing was started."""

    code = "too_many_waiting"
    retryable = True

    def __init__(self, message: str, retry_after: int = 1) -> None:
        """Keep the seconds after which to retry."""
        super().__init__(message)
        self.retry_after = retry_after


class Scope(NamedTuple):
    """The runs that a bound counts: an agent's, or those of one of its tenants."""

    agent: str
    tenant: str = ""
    """Empty for all tenants."""

    def __str__(self) -> str:
        """Return it for a log."""
        return f"tenant={self.tenant or '-'} agent={self.agent}"


@dataclass(slots=True)
class QueueCounts:
    """The counts of one read of the queue."""

    waiting: Counter[Scope] = field(default_factory=Counter)
    """Runs that no worker has received."""
    handed_out: Counter[Scope] = field(default_factory=Counter)
    """Total number of runs that workers have received."""
    queues: int = 0


async def read_figures(bus: Bus, timeout: float) -> QueueCounts:
    """Read the queue's figures, within `timeout` seconds.

    Raises:
        BusUnavailable: JetStream does not answer.
    """
    figures, start = QueueCounts(), f"{bus.subjects.prefix}.run."
    for consumer in await consumers(bus, bus.streams.runs, timeout):
        _count(figures, consumer, start)
        figures.queues += 1
    return figures


def _count(figures: QueueCounts, consumer: Json, start: str) -> None:
    tokens = consumer["config"].get("filter_subject", "").removeprefix(start).split(".")
    tenant, agent = (*tokens, "", "")[:2]
    for scope in (Scope(agent), Scope(agent, tenant)):
        figures.waiting[scope] += consumer["num_pending"]
        figures.handed_out[scope] += consumer["delivered"]["consumer_seq"]


_log = logging.getLogger(__name__)

QUEUES_A_SECOND = 500
"""Maximum number of queues read per second, on average."""

YOUNG = 0.1
"""Seconds for which the figures behind one refusal are reused for other requests."""

SHARE = 4
"""A process reads again before it has used 1/SHARE of the room left below a bound."""

_PAUSES = (0.0, 0.0, 0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
"""Seconds before each read of the queue for one run, until it is clear whether it may wait."""

_OF_AGENT, _OF_TENANT = "waiting-agent", "waiting-tenant"
"""Names of the bounds in warnings."""

_SOONEST, _LATEST, _UNKNOWN = 1, 30, 5
"""Seconds in ``Retry-After``: minimum, maximum, and the value if the pace is unknown."""


@dataclass(slots=True)
class AdmittedRun:
    """An admitted run; settle it once it is in the queue, or if it never will be.

    As the context manager of a block that appends its input, it is settled if the block raises.
    """

    admission: "Admission | None"
    """None: no run is counted, as for a `question`."""
    scopes: list[Scope]
    question: str = ""
    """What the task's user is asked instead of the run, at a quota that asks."""
    settled: bool = False

    def __enter__(self) -> Self:
        """Begin the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Settle the run if its input is not appended."""
        if raised is not None:
            self.settle()

    def settle(self) -> None:
        """Record that reads of the queue include the run from now on."""
        if not self.settled and self.admission is not None:
            self.settled = True
            self.admission.settle(self.scopes)


@dataclass(slots=True)
class _QueueLook:
    """One read of the queue, and the runs that this process has queued since it began."""

    at: float = -math.inf
    figures: QueueCounts = field(default_factory=QueueCounts)
    since: Counter[Scope] = field(default_factory=Counter)


class Admission:
    """Admits runs while the number of waiting runs is below the bounds."""

    def __init__(
        self,
        bus: Bus,
        settings: RunLimitSettings,
        answer: float = 1.0,
        interval: float = 1.0,
        *,
        at_rest: float = 30.0,
        warn: Callable[[QuotaWarning], None] = lambda _: None,
    ) -> None:
        """Apply the bounds in `settings`.

        Args:
            bus: The connection.
            settings: The bounds.
            answer: Seconds for a read of the queue.
            interval: Minimum seconds between two reads, unless one is asked for.
            at_rest: The same while no run is to be admitted.
            warn: Called in the task of each run that is admitted although its tenant's bound is
                near. A bound of all tenants together is only logged and counted.
        """
        self._warnings = LimitWarnings[Scope]((_OF_TENANT,), warn, (_OF_AGENT,))
        self._bus, self._answer, self._interval = bus, answer, interval
        self._at_rest = at_rest
        self._per_agent = settings.max_waiting_per_agent
        self._per_tenant = settings.max_waiting_per_tenant
        self._look, self._next_look = _QueueLook(), _QueueLook()
        self._asked = asyncio.Event()
        """Set: a run was admitted, or nearly, since the last read."""
        self._under_way = Counter[Scope]()
        self._pace = Counter[Scope]()
        self._looking: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read the queue in the background."""
        if self._per_agent >= 0 or self._per_tenant >= 0:
            self._task = keep_running(self._keep_looking, "admission")

    async def stop(self) -> None:
        """Stop reading the queue."""
        tasks = [task for task in (self._task, self._looking) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def admit(self, key: TaskKey) -> AdmittedRun:
        """Count one more run of `key`'s tenant and agent as waiting.

        Raises:
            TooManyWaiting: a bound is reached.
        """
        self._asked.set()
        bounds = self._bounds(key)
        if not self._is_far_from(bounds):
            await self._check(bounds)
        scopes = [scope for scope, _ in bounds]
        for scope in scopes:
            self._under_way[scope] += 1
        return AdmittedRun(self, scopes)

    def _is_far_from(self, bounds: list[tuple[Scope, int]]) -> bool:
        """Return whether the last read shows that none of `bounds` is near, as for nearly all runs.

        Then `_check` would find nothing to read, to refuse or to warn of.
        """
        look = self._look
        if not math.isfinite(look.at):
            return False
        for scope, bound in bounds:
            known = look.figures.waiting[scope]
            used = look.since[scope] + self._under_way[scope]
            if SHARE * (used + 1) > bound - known or known + used >= bound * SOFT:
                return False
        return True

    async def _check(self, bounds: list[tuple[Scope, int]]) -> None:
        """Read the queue until it is clear whether one more run may wait; warn of a near bound.

        Raises:
            TooManyWaiting: as `admit`.
        """
        for pause in _PAUSES:
            if not any(self._is_doubtful(scope, bound) for scope, bound in bounds):
                break
            if pause:
                if self._full(bounds) is None:
                    break
                # A run on its way into the queue is counted twice once it is there.
                await asyncio.sleep(pause)
            await self._look_together()
        if (full := self._full(bounds)) is not None:
            raise self._refusal(*full)
        for scope, bound in bounds:
            if (waiting := self._waiting(scope)) >= bound * SOFT:
                name = _OF_TENANT if scope.tenant else _OF_AGENT
                self._warnings.look(name, scope, waiting, bound)

    def settle(self, scopes: list[Scope]) -> None:
        """See `AdmittedRun.settle`."""
        look, next_look = self._look, self._next_look
        for scope in scopes:
            self._under_way[scope] -= 1
            look.since[scope] += 1
            if next_look is not look:
                next_look.since[scope] += 1

    def _bounds(self, key: TaskKey) -> list[tuple[Scope, int]]:
        agent, tenant = Scope(key.agent), Scope(key.agent, key.tenant)
        both = ((agent, self._per_agent), (tenant, self._per_tenant))
        return [(scope, bound) for scope, bound in both if bound >= 0]

    def _waiting(self, scope: Scope) -> int:
        look = self._look
        return look.figures.waiting[scope] + look.since[scope] + self._under_way[scope]

    def _full(self, bounds: list[tuple[Scope, int]]) -> tuple[Scope, int] | None:
        """Return the first of `bounds` that is reached."""
        for scope, bound in bounds:
            if self._waiting(scope) >= bound:
                return scope, bound
        return None

    def _refusal(self, scope: Scope, bound: int) -> TooManyWaiting:
        whose = "yours" if scope.tenant else "all clients"
        what = f"{bound} runs of {whose} are already waiting for agent {scope.agent}, the limit"
        return TooManyWaiting(what, self._retry_after(scope))

    def _forget_what_is_far(self) -> None:
        for name, scope in list(self._warnings.near):
            bound = self._per_tenant if scope.tenant else self._per_agent
            if self._waiting(scope) < bound * SOFT:
                self._warnings.forget(name, scope)

    def _is_doubtful(self, scope: Scope, bound: int) -> bool:
        if not math.isfinite(self._look.at):
            return True  # No figures yet; runs queued before the start count, too.
        left = bound - self._look.figures.waiting[scope]
        used = self._waiting(scope) - self._look.figures.waiting[scope]
        if 0 < left <= used:
            # A run queued during the read may be counted twice; another read corrects that.
            return True
        if left <= 0:
            return asyncio.get_running_loop().time() - self._look.at > YOUNG
        return used >= max(1, left // SHARE)

    async def _look_together(self) -> None:
        """Read the queue once for all concurrent callers."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_once())
        await asyncio.shield(self._looking)

    async def _look_once(self) -> None:
        now = asyncio.get_running_loop().time()
        look = self._next_look = _QueueLook(now)
        try:
            look.figures = await read_figures(self._bus, self._answer)
        except BusUnavailable as error:
            _log.info("can't count waiting runs: %s", error)
            # The last figures are the best estimate, and a read for every request would not help.
            self._look.at, self._next_look = now, self._look
        else:
            self._look = look
            self._forget_what_is_far()

    async def _keep_looking(self) -> None:
        while True:
            last = self._look
            self._asked.clear()
            await self._look_together()
            passed = self._look.at - last.at
            if math.isfinite(passed) and passed > 0:
                handed_out = self._look.figures.handed_out - last.figures.handed_out
                self._pace = Counter({s: round(n / passed) for s, n in handed_out.items()})
            by_number = self._look.figures.queues / QUEUES_A_SECOND
            await tick(max(self._interval, by_number))
            with suppress(TimeoutError):
                async with asyncio.timeout(until_tick(self._at_rest)):
                    await self._asked.wait()

    def _retry_after(self, scope: Scope) -> int:
        """Return the seconds until a tenth of the waiting runs will have begun, at this pace."""
        pace = self._pace[scope]
        if not pace:
            return _UNKNOWN
        return min(max(math.ceil(self._waiting(scope) / 10 / pace), _SOONEST), _LATEST)


class RunLimits:
    """What a run is checked against before it begins: quotas, and the limits of waiting runs."""

    def __init__(self, admission: Admission, quotas: Quotas | None = None) -> None:
        """Begin runs that `admission` and `quotas` admit."""
        self._admission, self._quotas = admission, quotas

    async def check(self, key: TaskKey, owner: str) -> None:
        """Return if the quotas let `owner` use the agent of `key` for a task that is open already.

        Raises:
            QuotaExceeded: a quota is used up.
        """
        if self._quotas is not None:
            await self._quotas.check(QuotaSubject(key.tenant, owner, key.agent), opens=False)

    async def admit(self, key: TaskKey, owner: str) -> AdmittedRun:
        """Count one more run of `key`'s tenant and agent as waiting.

        Raises:
            QuotaExceeded: a quota is used up.
            TooManyWaiting: a limit of waiting runs is reached.
        """
        if self._quotas is None:  # One call less for each run of a fleet without quotas.
            return await self._admission.admit(key)
        use = QuotaSubject(key.tenant, owner, key.agent)
        await self._quotas.check(use)
        admitted = await self._admission.admit(key)
        self._quotas.began(use)
        return admitted
