"""Events and schedules that begin tasks during a run, and a check of those tasks."""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from statistics import median_low

import httpx
from nats.errors import Error as NatsError
from nats.js.api import StreamConfig
from nats.js.errors import Error as JetStreamError

from headrace.jetstream.api import stream_info
from headrace.jetstream.connection import Bus
from headrace.jetstream.headers import MESSAGE_ID
from headrace.model.errors import BusUnavailable
from headrace.model.events import Json
from headrace.model.parts import text_of
from headrace.model.schedule import ScheduleFirings, ScheduleKey
from headrace.model.task import COMPLETED
from headrace.schedules import Schedules
from headrace_triggers.firing import TRIGGER
from tests.chaos.agents import answer_to
from tests.chaos.answers import (
    RULES,
    AnswerJudge,
    BusAnswer,
    make_stream,
    rule_of,
    stored_answers,
)
from tests.chaos.record import Log
from tests.chaos.schedule_owner import ScheduleOwner
from tests.support.waiting import eventually

AGENT = "plain"
TENANT, OWNER = "default", "anonymous"
STREAM, SUBJECT = "CHAOS", "chaos.events"
EVENTS = "trigger/"
"""Prefix of the source of events' tasks; the trigger's name is its end."""

_EACH_SECOND = 4
"""Number of schedules that fire every second. Half of the others fire once a minute by cron,
and half every 20 to 59 seconds: 500 schedules fire 15 times a second."""
_SHORTEST, _LENGTHS = 20, 40
_LONG = 9
"""One of this many events has a task that takes longer than publishing its first answers: the
following answers depend on how far these got."""
_QUEUED = 100
"""Bound on a schedule's waiting firings: more than occur while no worker is up."""
_ZONES = ("Europe/Paris", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC")
_JITTER = 3.0
_MOVED = 2
"""Number of schedules for one time, which are moved whenever they have fired."""
_TIMEOUT = 5.0
_AGAIN = 0.3
_SETTLES = 240.0
_LOOKS = 0.25
_AWAY = 1.0
"""Seconds of silence after which NATS counts as away."""
_BACK = timedelta(seconds=15)
"""Time within which schedules fire again after NATS is back."""


class Sources:
    """What begins tasks during a run: a stream of events with triggers, and schedules."""

    def __init__(self, bus: Bus, events: int, schedules: int, *, is_basic: bool = False) -> None:
        """Create them with `declare`.

        If `is_basic`, their specifications have only fields that every release with triggers knows.
        """
        self.published = 0
        self._bus, self._events, self._is_basic = bus, events, is_basic
        self._schedules = Schedules(bus)
        keys = [ScheduleKey(TENANT, OWNER, f"s{number}") for number in range(schedules)]
        moved = 0 if is_basic else min(_MOVED, schedules // 4)
        self._keys, self._moved = keys[: schedules - moved], keys[schedules - moved :]
        self.owner: ScheduleOwner | None = None
        self.away = list[tuple[datetime, datetime]]()
        """Times when the schedules' stream did not answer."""

    @property
    def triggers(self) -> list[str]:
        """The triggers' names."""
        return list(RULES) if self._events else []

    @property
    def schedules(self) -> list[str]:
        """The schedules' names."""
        return [key.name for key in [*self._keys, *self._moved]]

    def trigger(self, name: str) -> Json:
        """Return the specification of the trigger `name`."""
        spec = {"agent": AGENT, "stream": STREAM, "text": "{body.text}"}
        rule = {} if self._is_basic else rule_of(name)
        return spec | {"subject": f"{SUBJECT}.{name}"} | rule

    async def declare(self, http: httpx.AsyncClient, gateways: Sequence[str], nodes: int) -> None:
        """Create them through a gateway, which may be of another release than this code.

        The event stream has a copy on each of `nodes` NATS nodes.
        """
        if self._events:
            config = StreamConfig(name=STREAM, subjects=[f"{SUBJECT}.*"], num_replicas=nodes)
            await self._bus.js.add_stream(config)
            await make_stream(self._bus, nodes)
        declared = {f"triggers/{name}": self.trigger(name) for name in self.triggers}
        # Basic schedules have no bound: none may fire too often while workers are replaced.
        for number, key in enumerate(self._keys, _EACH_SECOND if self._is_basic else 0):
            rule = {} if self._is_basic else varied(number)
            declared[f"schedules/{key.name}"] = schedule_of(number) | rule
        for path, content in declared.items():
            answer = await http.put(f"{gateways[0]}/v1/{path}", json=content)
            assert answer.is_success, f"{path}: {answer.text}"
        if not self._is_basic:
            stored = {key.name: declared[f"schedules/{key.name}"] for key in self._keys}
            once = {key.name: moved_schedule(key.name) for key in self._moved}
            self.owner = ScheduleOwner(http, gateways, stored | once)

    @asynccontextmanager
    async def firing(self, share: Callable[[], float]) -> AsyncIterator[None]:
        """Publish the events during a block, and record when NATS is away.

        `share` returns which share of the run is over. At the end, all events are published.
        """
        looking = asyncio.create_task(self._watch_nats())
        publishing = asyncio.create_task(self._publish_all(share))
        owning = asyncio.create_task(self.owner.run() if self.owner else asyncio.sleep(0))
        try:
            yield
            await publishing
        finally:
            for each in (looking, publishing, owning):
                each.cancel()
            ended = await asyncio.gather(looking, publishing, owning, return_exceptions=True)
        for failure in ended:
            if isinstance(failure, Exception):
                raise failure

    async def _publish_all(self, share: Callable[[], float]) -> None:
        """Publish all events, in step with `share`."""
        while self.published < self._events:
            if self.published >= self._events * share():
                await asyncio.sleep(_LOOKS)
            elif await self._publish(self.published):
                self.published += 1
            else:
                await asyncio.sleep(_AGAIN)

    async def _publish(self, number: int) -> bool:
        """Publish an event; return whether it is stored. A duplicate counts as one event."""
        data = json.dumps({"text": text_of_event(number)}).encode()
        subject = f"{SUBJECT}.{trigger_of_event(number)}"
        try:
            await self._bus.js.publish(
                subject, data, timeout=_TIMEOUT, headers={MESSAGE_ID: str(number)}
            )
        except (NatsError, JetStreamError, TimeoutError, OSError):
            return False
        return True

    async def _watch_nats(self) -> None:
        """Record when the schedules' stream does not answer, until cancelled."""
        while True:
            begun = datetime.now(UTC)
            is_there = False
            with suppress(BusUnavailable):
                await stream_info(self._bus, self._bus.streams.schedules, timeout=_AWAY)
                is_there = True
            if not is_there:
                self.away.append((begun, datetime.now(UTC) + _BACK))
            await asyncio.sleep(_LOOKS)

    async def settle(self) -> list[str]:
        """Wait until all events and firings have begun their tasks; return those that do not."""
        try:
            for key in self._keys:
                await eventually(partial(self._fires, key), f"{key.name} fires", _SETTLES)
                await self._schedules.pause(key)
            for key in self._moved:
                await eventually(partial(self._has_ended, key), f"{key.name} has ended", _SETTLES)
            for key in self._keys:
                await self._settle_firings(key)
            if self._events:
                await eventually(self._events_are_settled, "all events have fired", _SETTLES)
                await eventually(self._all_is_answered, "all answers are published", _SETTLES)
        except AssertionError as late:
            return [str(late)]
        return []

    async def firings(self) -> dict[str, ScheduleFirings]:
        """Return each schedule's firings, by the source of its tasks."""
        keys = [*self._keys, *self._moved]
        return {source_of(key): await self._schedules.firings(key) for key in keys}

    @property
    def times(self) -> dict[str, list[datetime]]:
        """The times of each schedule for one time, by the source of its tasks."""
        times = self.owner.times if self.owner else {}
        return {source_of(key): times.get(key.name, []) for key in self._moved}

    @property
    def is_certain(self) -> bool:
        """Whether each schedule for one time was stored with its last time."""
        return self.owner is None or self.owner.is_certain

    async def _has_ended(self, key: ScheduleKey) -> bool:
        found = await self._schedules.get(key)
        return found is None or bool(found.schedule.ended)

    async def _fires(self, key: ScheduleKey) -> bool:
        """Return whether the schedule has a next time in the future."""
        next_due = (await self._schedules.firings(key)).next
        return next_due is not None and datetime.fromisoformat(next_due) > datetime.now(UTC)

    async def _settle_firings(self, key: ScheduleKey) -> None:
        left = dict[str, object]()

        async def is_settled() -> bool:
            left.clear()
            left.update(await self._unsettled(key))
            return not left

        what = f"every firing of {key.name} has begun its task"
        try:
            await eventually(is_settled, what, _SETTLES)
        except AssertionError as late:
            raise AssertionError(f"{late}: {left}") from late

    async def _unsettled(self, key: ScheduleKey) -> dict[str, object]:
        """Return what is left to do for a schedule."""
        firings = await self._schedules.firings(key)
        subject = self._bus.subjects.firing(*key.tokens)
        info = await stream_info(
            self._bus, self._bus.streams.schedules, {"subjects_filter": subject}
        )
        left = {
            "in the stream": info["state"].get("subjects"),
            "waiting": firings.waiting,
            "beginning": [one for one in firings.last if one.outcome == "beginning"],
        }
        return {what: those for what, those in left.items() if those}

    async def answers(self) -> list[BusAnswer]:
        """Return the stored answers to events."""
        return await stored_answers(self._bus) if self._events else []

    @property
    def has_answers(self) -> bool:
        """Whether events are answered on the bus."""
        return not self._is_basic

    async def _events_are_settled(self) -> bool:
        consumers = await self._bus.js.consumers_info(STREAM)
        waiting = {(one.num_pending, one.num_ack_pending) for one in consumers}
        return len(consumers) == len(RULES) and waiting == {(0, 0)}

    async def _all_is_answered(self) -> bool:
        info = await stream_info(self._bus, self._bus.streams.pushes)
        return not info["state"]["messages"]


def schedule_of(number: int) -> Json:
    """Return the specification of the schedule `number`."""
    rule = {"agent": AGENT, "message": f"1 0 s{number}", "overlap": "queue"}
    if number >= _EACH_SECOND:
        every = f"{_SHORTEST + number // 2 % _LENGTHS}s"
        when = {"cron": f"{number % 60} * * * * *"} if number % 2 else {"every": every}
    else:
        when = {"cron": "* * * * * *"} if number % 2 else {"every": "1s"}
    return rule | when


def varied(number: int) -> Json:
    """Return what the schedule `number` has beyond what every release knows."""
    rule: Json = {"maxQueued": _QUEUED}
    if number % 2:
        rule["timeZone"] = _ZONES[number // 2 % len(_ZONES)]
    # The others fire before the one before has begun, if it is late by as much.
    return rule | ({"jitter": _JITTER} if number >= _EACH_SECOND and number % 3 == 0 else {})


def moved_schedule(name: str) -> Json:
    """Return the specification of a schedule for one time, whose time its owner states later."""
    return {"agent": AGENT, "message": f"1 0 {name}", "overlap": "queue", "at": None, "jitter": 2.0}


def source_of(key: ScheduleKey) -> str:
    """Return the source of the schedule's tasks."""
    return f"schedule/{key.owner}/{key.name}"


def text_of_event(number: int) -> str:
    """Return the text of the event `number`."""
    return f"8 200 e{number}" if number % _LONG == _LONG - 1 else f"3 20 e{number}"


def trigger_of_event(number: int) -> str:
    """Return the trigger of the event `number`."""
    return list(RULES)[number % len(RULES)]


@dataclass(frozen=True, slots=True)
class FiredTask:
    """A task begun by an event or a schedule."""

    source: str
    key: str
    log: Log

    @classmethod
    def of(cls, log: Log) -> "FiredTask | None":
        """Return the task of a log; None if a client or another task has begun it."""
        if not log.is_whole:
            return None
        fired: Json | None = (log.entries[0].events[0]["task"].get("metadata") or {}).get(TRIGGER)
        return None if fired is None else cls(fired["source"], fired["key"], log)

    @property
    def is_of_event(self) -> bool:
        """Whether an event began it."""
        return self.source.startswith(EVENTS)

    @property
    def trigger(self) -> str:
        """The trigger of its event."""
        return self.source.rpartition("/")[2]

    @property
    def due(self) -> datetime:
        """The time that its schedule's firing was for."""
        return datetime.fromisoformat(self.key.partition("/")[2])

    def problems(self) -> Iterator[str]:
        """Yield where it did not complete with its answer."""
        task = self.log.task()
        if task["status"]["state"] != COMPLETED:
            yield f"it ended as {task['status']['state']}"
            return
        request = text_of(task["history"][0]["parts"])
        parts = [part for artifact in task.get("artifacts", []) for part in artifact["parts"]]
        answer = "".join(part.get("text", "") for part in parts)
        if answer != answer_to(AGENT, request):
            yield f"{request!r} was answered with {answer!r}"


class FiringJudge:
    """Finds events and ticks that did not begin exactly one task."""

    def __init__(self, logs: Iterable[Log], unrecorded: int) -> None:
        """Check `logs`; `unrecorded` others were erased before they could be copied."""
        found = [one for log in logs if (one := FiredTask.of(log)) is not None]
        self.tasks = [one for one in found if one.log.key.tenant == TENANT]
        self.of_others = [one for one in found if one.log.key.tenant != TENANT]
        """Tasks of another tenant."""
        self._unrecorded = unrecorded

    def check_tasks(self) -> Iterator[str]:
        """Yield tasks that were begun twice or did not complete."""
        tasks = [*self.tasks, *self.of_others]
        times = Counter((one.source, one.key) for one in tasks)
        for (source, key), number in times.items():
            if number > 1:
                yield f"{source}: {key} has begun {number} tasks"
        for one in tasks:
            yield from (f"{one.source} {one.log.key.task}: {each}" for each in one.problems())

    def check_events(self, published: int) -> Iterator[str]:
        """Yield the events that did not begin exactly one task."""
        begun = Counter(
            text_of(one.log.task()["history"][0]["parts"]) for one in self.tasks if one.is_of_event
        )
        expected = [text_of_event(number) for number in range(published)]
        yield from (
            f"event {text!r} has begun {begun[text]} tasks" for text in expected if begun[text] > 1
        )
        missing = [text for text in expected if not begun[text]]
        if len(missing) > self._unrecorded:
            yield f"{len(missing)} events have begun no task: {missing[:5]}"

    def check_answers(self, answers: list[BusAnswer]) -> Iterator[str]:
        """Yield the events that were not answered on the bus as their trigger says."""
        answering = ((one.trigger, one.log) for one in self.tasks if one.is_of_event)
        yield from AnswerJudge(answers).check_all(answering, self._unrecorded)

    def check_schedules(
        self,
        recorded: dict[str, ScheduleFirings],
        away: list[tuple[datetime, datetime]],
        times: Mapping[str, list[datetime]] | None = None,
        *,
        is_certain: bool = True,
    ) -> Iterator[str]:
        """Yield schedules whose record differs from their tasks, or that missed a tick.

        No tick is due while NATS is `away`. Those for one time are due at `times`, of which the
        last ones may not be stored unless that `is_certain`.
        """
        of_source = defaultdict[str, list[FiredTask]](list)
        for one in self.tasks:
            of_source[one.source].append(one)
        for source, firings in recorded.items():
            begun = of_source[source]
            if not len(begun) <= firings.began <= len(begun) + self._unrecorded:
                yield f"{source} says that it has begun {firings.began} tasks, not {len(begun)}"
            dues = Counter(one.due for one in begun)
            yield from (f"{source}: {due} twice" for due, number in dues.items() if number > 1)
            if times is not None and source in times:
                lost = set(times[source]) - set(dues)
                lost -= set() if is_certain else {times[source][-1]}
                if len(lost) > self._unrecorded:
                    yield f"{source} has not fired: {sorted(lost)[:5]}"
                continue
            missed = list(_missed(sorted(one.due for one in begun), away))
            if len(missed) > self._unrecorded + firings.skipped:
                yield f"{source} has not fired: {missed[:5]}"


def _missed(
    ticks: list[datetime], away: list[tuple[datetime, datetime]]
) -> Iterator[tuple[datetime, datetime]]:
    """Yield the pairs of ticks between which at least one is missing although NATS was up."""
    gaps = list(pairwise(ticks))
    if not gaps:
        return
    usual = median_low(after - before for before, after in gaps)
    for before, after in gaps:
        is_away = any(begin < after and before < end for begin, end in away)
        if after - before > 1.5 * usual and not is_away:
            yield before, after
