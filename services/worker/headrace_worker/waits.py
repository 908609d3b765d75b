"""Waits of an attempt: what has arrived, what it waits for, and when it gives its worker up."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NoReturn, Protocol

from headrace import clock
from headrace.model import events
from headrace.model.events import Draft, Json, timestamp
from headrace.model.step import FAILED, STARTED, ShownStep, StepRecord
from headrace.model.wait import SIGNING_STEP, SourceEvent, WebhookAddress, shown_name, timed_out
from headrace.sdk.errors import Misused
from headrace.sdk.source import called_at
from headrace.sdk.step_call import StepCall
from headrace.sdk.step_ids import step_scope
from headrace.sdk.steps import Steps
from headrace.sdk.waits import WaitSource, is_set_within
from headrace_worker.appender import Appender
from headrace_worker.assignment import Assignment
from headrace_worker.claim import ClaimedRun
from headrace_worker.emitter import Emitter
from headrace_worker.offload import Offload
from headrace_worker.resources import WorkerResources
from headrace_worker.wait_requests import request_events

_LOOKS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds between looks at the log: together longer than `watch.SILENCE`."""


class Waiter(Protocol):
    """An attempt, as its waits use it."""

    resources: WorkerResources
    assignment: Assignment
    claimed: ClaimedRun
    appender: Appender
    output: Emitter

    @property
    def files(self) -> Offload:
        """The task's files."""

    @property
    def steps(self) -> Steps:
        """The run's steps."""

    def working(self, metadata: Json | None = None) -> Draft:
        """Return a WORKING status."""

    async def fall_asleep(self, end: datetime) -> NoReturn:
        """End the attempt until `end`."""


class AttemptWaits:
    """The waits of one attempt; a `RunWaits`."""

    def __init__(self, attempt: Waiter) -> None:
        """Wait for `attempt`."""
        self._attempt, self._recovered = attempt, attempt.claimed.recovered
        self.asleep_for = set[str]()
        """The sources of the waits for which the attempt ends."""
        self._changed = asyncio.Event()
        """Set when something has arrived."""
        self._begun = asyncio.Event()
        """Set while no wait is being recorded."""
        self._beginning = 0

    @property
    def is_over(self) -> bool:
        """Whether what the attempt ends for has arrived."""
        return not self.asleep_for.isdisjoint(self._recovered.arrivals)

    def note(self, record: StepRecord) -> None:
        """Note what has arrived during the attempt."""
        self._recovered.note_wait(record)
        self._changed.set()

    async def url_of(self, name: str) -> str:
        """Return the URL of the run's webhook `name`."""
        base, assignment = self._attempt.resources.settings.public_url, self._attempt.assignment
        _check_scope("ctx.webhook", "get the URL before the step, and pass it as an argument")
        if not base:
            raise Misused(
                "ctx.webhook needs the address at which others reach the gateways: set"
                f" HEADRACE_PUBLIC_URL for workers, too{called_at()}"
            )
        secret = await self._attempt.steps.run(
            StepCall(name=SIGNING_STEP, function=_mint, key=SIGNING_STEP, is_shown=False)
        )
        address = WebhookAddress(assignment.key, assignment.run.generation, name)
        return f"{base.rstrip('/')}/v1/waits/{address.token(secret)}"

    async def wait(
        self, sources: Sequence[WaitSource], until: datetime
    ) -> tuple[WaitSource, SourceEvent]:
        """Return what has arrived first from one of `sources`, and from which.

        The wait is recorded before its attempt ends, under an id that is the same in each attempt,
        and so is that it has timed out.
        """
        _check_scope("ctx.wait", "wait between steps")
        by_name = {one.source: one for one in sources}
        name, record = await self._awaited(by_name, until)
        text = record.value
        if text is None:
            text = (await self._attempt.files.content(record.link)).decode()
        return by_name[name], SourceEvent.decode(text)

    async def _awaited(
        self, by_name: Mapping[str, WaitSource], until: datetime
    ) -> tuple[str, StepRecord]:
        attempt, recovered, sources = self._attempt, self._recovered, list(by_name)
        wait = attempt.output.new_id("wait")
        if wait in recovered.timed_out:
            raise _timeout(sources)
        if (first := self._first(sources)) is None and wait not in recovered.sleeps:
            # Before the log says that the run waits: another attempt would not ask again.
            run = attempt.assignment.run
            await request_events(attempt.resources.bus, run, by_name.values())
            await self._begin(wait, sources, until)
            first = self._first(sources)
        end, timing = recovered.sleeps.get(wait, until), attempt.resources.timing
        while first is None:
            left = (end - clock.now()).total_seconds()
            if left > timing.waking and not timing.keeps_sleepers:
                self.asleep_for.update(sources)
                await attempt.fall_asleep(end)
            if not await self._arrives_within(left):
                await self._time_out(wait, sources)
            first = self._first(sources)
        return first

    async def _arrives_within(self, seconds: float) -> bool:
        """Return whether something arrives within `seconds`, which the attempt spends here.

        The worker's watch follows the log of a run that has been silent for a while. Until then,
        the attempt looks itself.
        """
        self._changed.clear()
        for pause in _LOOKS:
            if pause < seconds:
                if await is_set_within(self._changed, pause):
                    return True
                self._attempt.appender.look()
                seconds -= pause
        return await is_set_within(self._changed, seconds)

    async def _begin(self, wait: str, sources: Sequence[str], until: datetime) -> None:
        """Record the wait, and return when other waits of the same time are recorded, too."""
        begun = {events.SLEEP: {"id": wait, "until": timestamp(until), "for": list(sources)}}
        begun |= _shown(sources, STARTED)
        self._beginning += 1
        try:
            await self._attempt.appender.deliver(self._attempt.working(begun))
        finally:
            self._beginning -= 1
            if not self._beginning:
                self._begun.set()
                self._begun = asyncio.Event()
        if self._beginning:
            await self._begun.wait()

    async def _time_out(self, wait: str, sources: Sequence[str]) -> NoReturn:
        record = StepRecord(timed_out(wait), "null")
        attempt = self._attempt
        shown = _shown(sources, FAILED)
        await attempt.appender.deliver(attempt.working(shown), step=record.encode())
        raise _timeout(sources)

    def _first(self, sources: Sequence[str]) -> tuple[str, StepRecord] | None:
        arrivals = self._recovered.arrivals
        found = [(one, arrivals[one]) for one in sources if one in arrivals]
        return min(found, key=lambda one: one[1].generation, default=None)


def _check_scope(what: str, remedy: str) -> None:
    if step_scope() is not None:
        raise Misused(f"a step's function can't use {what}: {remedy}{called_at()}")


def _shown(sources: Sequence[str], state: str) -> Json:
    """Return the metadata that shows the wait as a step; empty: which one it is, is not known."""
    return ShownStep(shown_name(sources[0]), state).metadata() if len(sources) == 1 else {}


def _timeout(sources: Sequence[str]) -> TimeoutError:
    return TimeoutError(f"nothing has come in time from {', '.join(map(shown_name, sources))}")


def _mint() -> str:
    return secrets.token_urlsafe(24)
