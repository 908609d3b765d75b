"""The tail rule: live messages are a hint; only a read of the leader shows that nothing is missing.

Republish skips messages at server kills and leader stepdowns without any disconnect. A gap shows
with the next message. If no message comes, only a read shows it. So a process checks each log that
it follows: 250 ms after it subscribed, at once after a disturbance or on request, and while the log
is open and silent after 2 s, backing off to 10 s.
"""

import asyncio
import heapq
import itertools
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import batched, groupby
from typing import Protocol

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from headrace.background import keep_running
from headrace.jetstream.api import stream_state
from headrace.jetstream.connection import Bus
from headrace.jetstream.direct_get import direct_get
from headrace.jetstream.headers import SEQUENCE, SUBJECT
from headrace.log.read import last_raw
from headrace.model.errors import BusUnavailable
from headrace.model.subjects import stream_of_shard
from headrace.model.task import TaskKey

_log = logging.getLogger(__name__)

FEW = 8
"""Up to this many logs of a stream, each is queried at the leader. Above, one multi_last query is
used."""

_MULTI_MAX = 512


@dataclass(frozen=True, slots=True)
class Tails:
    """Last sequences of logs of one stream."""

    last: dict[TaskKey, int]
    """0: the log is empty."""
    up_to: int
    """Sequence of the stream up to which they are known; 0: unknown."""


async def tails_of(bus: Bus, keys: Sequence[TaskKey], since: int = 0) -> Tails:
    """Return the last sequences of logs of one stream.

    Logs that have not grown since sequence `since` of the stream may be left out.

    Raises:
        BusUnavailable: The leader does not answer.
    """
    stream = bus.streams.events(stream_of_shard(keys[0].shard))
    found = [await _of_some(bus, stream, some, since) for some in batched(keys, _MULTI_MAX)]
    last = {key: sequence for each in found for key, sequence in each.last.items()}
    return Tails(last, min(each.up_to for each in found))


async def _of_some(bus: Bus, stream: str, keys: tuple[TaskKey, ...], since: int) -> Tails:
    if len(keys) > FEW and (found := await _multi_last(bus, stream, keys, since)) is not None:
        return found
    sequences = await asyncio.gather(*(_one(bus, key) for key in keys))
    return Tails(dict(zip(keys, sequences, strict=True)), 0)


async def _one(bus: Bus, key: TaskKey) -> int:
    # Not parsed: what one log contains must not keep the others from being checked.
    message = await last_raw(bus, key, timeout=bus.timing.leader)
    return 0 if message is None else int(message["seq"])


async def _multi_last(
    bus: Bus, stream: str, keys: tuple[TaskKey, ...], since: int = 0
) -> Tails | None:
    """Query one replica for all logs. None: its answer is partial or behind the leader."""
    head = (await stream_state(bus, stream)).last
    if head < since:  # The stream was restored from before.
        since = 0
    subjects = {bus.subjects.event(key): key for key in keys}
    query = {"multi_last": list(subjects)} | ({"seq": since + 1} if since else {})
    answer = await direct_get(bus, stream, query, _subject_and_sequence)
    if not answer.complete or answer.pending or answer.up_to < head:
        return None
    found = {} if since else dict.fromkeys(keys, 0)
    found |= {subjects[subject]: sequence for subject, sequence in answer.messages}
    return Tails(found, head)


def _subject_and_sequence(msg: Msg) -> tuple[str, int]:
    headers = msg.headers or {}
    return headers[SUBJECT], int(headers[SEQUENCE])


FIRST_CHECK = 0.25
"""Seconds from subscribing to the first check."""


@dataclass(frozen=True, slots=True)
class TailTiming:
    """When `TailRule` checks logs; all in seconds."""

    silence: float = 2.0
    """Without a message, after which an open log is checked."""
    max_silence: float = 10.0
    """Maximum of `silence`, which doubles with each check."""
    batch: float = 0.05
    """For which a check waits for others, so that they share a query."""
    retry: float = 0.5
    """Before a check that failed is repeated."""
    whole: float = 60.0
    """After which a check asks for the tail even if nothing was appended: the log may be gone."""


class TailFollower(Protocol):
    """A follower, as the rule uses it."""

    key: TaskKey

    @property
    def last_seen(self) -> float | None:
        """When the last message of the log arrived, in loop time (seconds).

        None: that is not noted, and postpones no check.
        """

    def tail_is(self, sequence: int) -> None:
        """Receive the leader's last sequence of the log; 0: the log is empty."""


@dataclass(slots=True)
class _NextCheck:
    """When a follower's log is checked next."""

    checked: float
    """When it was last checked, in loop time (seconds)."""
    silence: float
    """How long the log may be silent from then on, in seconds."""
    ticket: int = -1
    """The only valid ticket in the queue. Earlier ones are void."""
    urgent: bool = True
    """Whether it is checked even if a message arrived recently."""
    known: int = 0
    """Sequence of the stream up to which the log's tail is known; 0: it is not."""
    whole: float = 0.0
    """When its tail was last asked for, in loop time (seconds)."""


class TailRule:
    """Checks the tails of all logs that this process follows."""

    def __init__(self, bus: Bus, timing: TailTiming | None = None) -> None:
        """Watch no log yet; `start` begins."""
        self._bus, self._timing = bus, timing or TailTiming()
        self._watched: dict[TailFollower, _NextCheck] = {}
        self._due: list[tuple[float, int, TailFollower]] = []
        self._tickets = itertools.count()
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._checks: set[asyncio.Task[None]] = set()
        self._requests: Subscription | None = None
        self._unregister = bus.on_disturbance(self.check_all)

    async def start(self) -> None:
        """Start checking and listening for requests to check a log.

        Raises:
            BusUnavailable: The connection is closed.
        """
        subject = self._bus.subjects.recheck("*")
        self._requests = await self._bus.subscribe(subject, self._on_request)
        self._task = keep_running(self._run, "tail rule")

    async def stop(self) -> None:
        """End all checks."""
        self._unregister()
        if self._requests is not None:
            await self._bus.unsubscribe(self._requests)
        running = [*self._checks, *([self._task] if self._task is not None else [])]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def watch(self, follower: TailFollower, first: float = FIRST_CHECK) -> None:
        """Check `follower`'s log from now on, for the first time after `first` seconds."""
        now = self._loop.time()
        self._watched[follower] = _NextCheck(checked=now, silence=self._timing.silence)
        self._schedule(follower, now + first, urgent=True)

    def forget(self, follower: TailFollower) -> None:
        """Stop checking `follower`'s log."""
        self._watched.pop(follower, None)

    def check_all(self) -> None:
        """Check every log at once: live messages may have been missed."""
        for follower in self._watched:
            self._check_now(follower)

    async def _on_request(self, msg: Msg) -> None:
        task = msg.subject.rpartition(".")[2]
        for follower in self._watched:
            if follower.key.task == task:
                self._check_now(follower)

    def _check_now(self, follower: TailFollower) -> None:
        plan = self._watched[follower]
        plan.silence, plan.whole = self._timing.silence, 0.0
        self._schedule(follower, self._loop.time(), urgent=True)

    def _schedule(self, follower: TailFollower, at: float, *, urgent: bool) -> None:
        """Schedule the follower's next check. An earlier schedule becomes void."""
        plan = self._watched[follower]
        plan.ticket, plan.urgent = next(self._tickets), urgent
        heapq.heappush(self._due, (at, plan.ticket, follower))
        if self._due[0][1] == plan.ticket:
            self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._sleep()
            due = sorted(self._pop_due(), key=_stream)
            for _, group in groupby(due, _stream):
                # One check per stream, so that a stream without a leader does not delay the others.
                self._start_checks(list(group))

    async def _sleep(self) -> None:
        self._wake.clear()
        delay = max(self._due[0][0] - self._loop.time(), 0) if self._due else None
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._wake.wait()
        # Checks that are due at about the same time share a query.
        await asyncio.sleep(self._timing.batch)

    def _pop_due(self) -> list[TailFollower]:
        """Return the followers to check now. Those with recent messages are postponed."""
        now, taken = self._loop.time(), []
        while self._due and self._due[0][0] <= now:
            _, ticket, follower = heapq.heappop(self._due)
            plan = self._watched.get(follower)
            if plan is None or plan.ticket != ticket:
                continue
            if plan.urgent:
                taken.append(follower)
            elif self._silent_until(follower, plan) <= now:
                taken.append(follower)
                plan.silence = min(plan.silence * 2, self._timing.max_silence)
            else:
                self._look_again(follower, plan, now)
        return taken

    def _silent_until(self, follower: TailFollower, plan: _NextCheck) -> float:
        """Return when to check the follower if no message arrives until then.

        Logs that have been silent for long are checked a little early, at times that they share:
        one query for a hundred logs costs less than ten queries for a few.
        """
        shortest = self._timing.silence
        seen = follower.last_seen or 0.0
        if seen > plan.checked:
            plan.silence = shortest
        at = max(seen, plan.checked) + plan.silence
        return at if plan.silence <= shortest else at - at % (shortest / 2)

    def _look_again(self, follower: TailFollower, plan: _NextCheck, now: float) -> None:
        at = self._silent_until(follower, plan)
        if follower.last_seen is not None:
            # At most one silence later, so that silence is measured from messages that arrive
            # meanwhile.
            at = min(at, now + self._timing.silence)
        self._schedule(follower, at, urgent=False)

    def _start_checks(self, due: list[TailFollower]) -> None:
        """Ask for what has changed since the tails were known; for all of the others' tails."""
        since = self._loop.time() - self._timing.whole
        plans = {follower: plan for follower in due if (plan := self._watched.get(follower))}
        known = {follower: plan for follower, plan in plans.items() if plan.whole > since}
        if known:
            self._start_check(list(known), min(plan.known for plan in known.values()))
        if unknown := [follower for follower in plans if follower not in known]:
            self._start_check(unknown, 0)

    def _start_check(self, due: list[TailFollower], since: int) -> None:
        check = asyncio.create_task(self._check(due, since))
        self._checks.add(check)
        check.add_done_callback(self._checks.discard)

    async def _check(self, due: list[TailFollower], since: int) -> None:
        tickets = {each: self._watched[each].ticket for each in due if each in self._watched}
        found: Tails | None = None
        try:
            keys = {follower.key for follower in tickets}
            found = await tails_of(self._bus, list(keys), since) if keys else None
        except BusUnavailable as error:
            _log.debug("check of log tails: %s", error)
        finally:
            for follower, ticket in tickets.items():
                self._checked(follower, ticket, found)

    def _checked(self, follower: TailFollower, ticket: int, found: Tails | None) -> None:
        plan = self._watched.get(follower)
        if plan is None:
            return
        now = self._loop.time()
        if found is not None:
            plan.checked = now
        # If another check was scheduled meanwhile, it stays: this answer may be older than its
        # reason.
        if plan.ticket == ticket:
            if found is None:
                self._schedule(follower, now + self._timing.retry, urgent=True)
            else:
                self._look_again(follower, plan, now)
        if found is None:
            return
        plan.known = found.up_to
        if (tail := found.last.get(follower.key)) is not None:
            plan.whole = now if found.up_to else 0.0
            follower.tail_is(tail)


def _stream(follower: TailFollower) -> int:
    return stream_of_shard(follower.key.shard)
