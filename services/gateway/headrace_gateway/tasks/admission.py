"""Whether one more run may wait: bounds per agent, and per tenant of an agent.

How many runs wait is read in the background, about once a second, from the work queue's consumers,
and this gateway counts what it has admitted since, so that a request costs no round trip. Only
where that says too little (a bound is reached, or much of what was left below it has been used up)
is it read anew first. What other gateways admit meanwhile is not seen, so a bound may be exceeded
by as much: see ``docs/back-pressure.md``.
"""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.background import keep_running
from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import consumers
from headrace.log import Appended
from headrace.model.errors import BusUnavailable
from headrace.model.events import Json
from headrace.model.task import TaskKey
from headrace.tasks.background_runs import BackgroundRuns
from headrace.tasks.begin import Input
from headrace_gateway.refusals import TooManyWaiting
from headrace_gateway.settings import GatewaySettings


class Scope(NamedTuple):
    """Whose runs are counted: an agent's, or those of one of its tenants."""

    agent: str
    tenant: str = ""
    """Empty: all."""


@dataclass(slots=True)
class Figures:
    """One look at the queue."""

    waiting: Counter[Scope] = field(default_factory=Counter)
    """Runs that no worker has been handed."""
    handed_out: Counter[Scope] = field(default_factory=Counter)
    """Runs that workers have been handed, ever."""
    queues: int = 0


async def read_figures(bus: Bus, timeout: float) -> Figures:
    """Look at the queue, within `timeout` seconds.

    Raises:
        BusUnavailable: JetStream does not answer.
    """
    figures, start = Figures(), f"{bus.subjects.prefix}.run."
    for consumer in await consumers(bus, bus.streams.runs, timeout):
        _count(figures, consumer, start)
        figures.queues += 1
    return figures


def _count(figures: Figures, consumer: Json, start: str) -> None:
    tokens = consumer["config"].get("filter_subject", "").removeprefix(start).split(".")
    tenant, agent = (*tokens, "", "")[:2]
    for scope in (Scope(agent), Scope(agent, tenant)):
        figures.waiting[scope] += consumer["num_pending"]
        figures.handed_out[scope] += consumer["delivered"]["consumer_seq"]


_log = logging.getLogger(__name__)

LOOK_EVERY = 1.0
"""Seconds between looks at what is queued; longer with very many queues."""

QUEUES_A_SECOND = 500
"""Queues that are looked at per second, on the whole."""

YOUNG = 0.1
"""Seconds for which a look that ended in a refusal is good for others."""

SHARE = 4
"""A gateway looks again before it has used up this part of what was left below a bound."""

_PAUSES = (0.0, 0.0, 0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
"""Seconds before each look at the queue for one run, until it is clear whether it may wait."""

_TIMEOUT = 1.0
_SOONEST, _LATEST, _UNKNOWN = 1, 30, 5
"""Seconds that a refused client is told to wait: at least, at most, and if nothing is known."""


@dataclass(slots=True)
class Admitted:
    """A run that is about to wait; to be settled once it is in the queue, or will never be."""

    admission: "Admission"
    scopes: list[Scope]
    settled: bool = False

    def settle(self) -> None:
        """Tell that looks at the queue see the run from now on."""
        if not self.settled:
            self.settled = True
            self.admission.settle(self.scopes)


@dataclass(slots=True)
class _QueueLook:
    """A look at the queue, and what this gateway has put there since it was begun."""

    at: float = -math.inf
    figures: Figures = field(default_factory=Figures)
    since: Counter[Scope] = field(default_factory=Counter)


class Admission:
    """Admits runs as long as few enough wait."""

    def __init__(self, bus: Bus, settings: GatewaySettings) -> None:
        """Keep to the bounds that `settings` give."""
        self._bus = bus
        self._per_agent = settings.max_waiting_per_agent
        self._per_tenant = settings.max_waiting_per_tenant
        self._look, self._begun = _QueueLook(), _QueueLook()
        self._under_way = Counter[Scope]()
        self._pace = Counter[Scope]()
        self._looking: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look at the queue."""
        if self._per_agent >= 0 or self._per_tenant >= 0:
            self._task = keep_running(self._keep_looking, "admission")

    async def stop(self) -> None:
        """Look no more."""
        tasks = [task for task in (self._task, self._looking) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def admit(self, key: TaskKey) -> Admitted:
        """Count one more run of that tenant's that is to wait for that agent.

        Raises:
            TooManyWaiting: as many wait as may.
        """
        bounds = self._bounds(key)
        for pause in _PAUSES:
            if not any(self._is_doubtful(scope, bound) for scope, bound in bounds):
                break
            if pause:
                if not any(self._is_full(scope, bound) for scope, bound in bounds):
                    break
                # A run that is on its way into the queue is counted twice once it is there.
                await asyncio.sleep(pause)
            await self._look_together()
        for scope, bound in bounds:
            if self._is_full(scope, bound):
                whose = "yours" if scope.tenant else "all clients"
                what = f"{bound} runs of {whose} wait for agent {key.agent} already"
                raise TooManyWaiting(what, self._retry_after(scope))
        scopes = [scope for scope, _ in bounds]
        self._under_way.update(scopes)
        return Admitted(self, scopes)

    def settle(self, scopes: list[Scope]) -> None:
        """See `Admitted.settle`."""
        self._under_way.subtract(scopes)
        for look in {id(one): one for one in (self._look, self._begun)}.values():
            look.since.update(scopes)

    def _bounds(self, key: TaskKey) -> list[tuple[Scope, int]]:
        agent, tenant = Scope(key.agent), Scope(key.agent, key.tenant)
        both = ((agent, self._per_agent), (tenant, self._per_tenant))
        return [(scope, bound) for scope, bound in both if bound >= 0]

    def _waiting(self, scope: Scope) -> int:
        look = self._look
        return look.figures.waiting[scope] + look.since[scope] + self._under_way[scope]

    def _is_full(self, scope: Scope, bound: int) -> bool:
        return self._waiting(scope) >= bound

    def _is_doubtful(self, scope: Scope, bound: int) -> bool:
        if not math.isfinite(self._look.at):
            return True  # Nothing is known yet; what waits since before this gateway counts, too.
        left = bound - self._look.figures.waiting[scope]
        used = self._waiting(scope) - self._look.figures.waiting[scope]
        if 0 < left <= used:
            # What came into the queue during the look may count twice; a further look tells.
            return True
        if left <= 0:
            return asyncio.get_running_loop().time() - self._look.at > YOUNG
        return used >= max(1, left // SHARE)

    async def _look_together(self) -> None:
        """Look at the queue, together with whoever wants to at the moment."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_once())
        await asyncio.shield(self._looking)

    async def _look_once(self) -> None:
        now = asyncio.get_running_loop().time()
        begun = self._begun = _QueueLook(now)
        try:
            begun.figures = await read_figures(self._bus, _TIMEOUT)
        except BusUnavailable as trouble:
            _log.info("can't count waiting runs: %s", trouble)
            # What was known is still the best guess, and asking at every request would not help.
            self._look.at, self._begun = now, self._look
        else:
            self._look = begun

    async def _keep_looking(self) -> None:
        while True:
            last = self._look
            await self._look_together()
            passed = self._look.at - last.at
            if math.isfinite(passed) and passed > 0:
                handed_out = self._look.figures.handed_out - last.figures.handed_out
                self._pace = Counter({s: round(n / passed) for s, n in handed_out.items()})
            await asyncio.sleep(max(LOOK_EVERY, self._look.figures.queues / QUEUES_A_SECOND))

    def _retry_after(self, scope: Scope) -> int:
        """Return in how many seconds a tenth of what waits will have been begun, at this pace."""
        pace = self._pace[scope]
        if not pace:
            return _UNKNOWN
        return min(max(math.ceil(self._waiting(scope) / 10 / pace), _SOONEST), _LATEST)


class AdmittedRuns:
    """Admits runs, and asks workers for them."""

    def __init__(self, bus: Bus, admission: Admission) -> None:
        """Ask on `bus` for what `admission` admits."""
        self._requests, self._admission = BackgroundRuns(bus), admission

    @asynccontextmanager
    async def admitted(self, key: TaskKey) -> AsyncIterator[Admitted]:
        """Yield leave to put one more run into the queue, for a block that appends its input.

        Raises:
            TooManyWaiting: as many wait as may.
        """
        admitted = await self._admission.admit(key)
        try:
            yield admitted
        except BaseException:
            admitted.settle()
            raise

    def request(self, asked: Input, admitted: Admitted, appended: Appended) -> None:
        """Ask workers for the run on an input that was appended."""
        request = asked.run_request(appended)
        asking = self._requests.publish_soon(asked.key, asked.stamp.run, request, asked.priority)
        asking.add_done_callback(lambda _: admitted.settle())
