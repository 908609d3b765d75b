"""Schedules on a nats-server with a shifted clock: what is done to them, and what must come of it.

Every time is the server's. What a request does happens between the times before and after it.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from headrace.directory import AgentCard, Announcer, DirectoryTiming
from headrace.jetstream.api import server_time, stream_info
from headrace.jetstream.connection import Bus
from headrace.jetstream.durables import ensure_consumer, of_firings
from headrace.model.errors import BusUnavailable
from headrace.model.events import Json
from headrace.model.schedule import Schedule, ScheduleKey
from headrace.model.schedule_machine import ScheduleOver
from headrace.schedules import Schedules, StoredSchedule
from headrace.settings import BusSettings
from headrace_triggers.firing import TRIGGER
from tests.support.deployment import get
from tests.support.schedule_times import ByInterval, Once, Timing
from tests.support.servers import ports
from tests.support.service_process import ServiceProcess
from tests.support.shifted_nats import ShiftedNats
from tests.support.task_submitter import fresh_names
from tests.support.triggers import begun
from tests.support.waiting import eventually

AGENT = "shop"
_LATE = timedelta(seconds=1.5)
"""A time that was as near to a pause, a deletion or an outage may have fired, or not."""
_RECOVERS = timedelta(seconds=2)
_ACK_WAIT = 2.0
_FAR = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Span:
    """A schedule from one change to the next."""

    name: str
    timing: Timing
    schedule: Schedule
    stored: datetime
    earliest: datetime
    """It may have begun then, and has begun at `stored`."""
    until: tuple[datetime, datetime] = (_FAR, _FAR)
    """It has ended between these."""
    is_replaced: bool = False
    """Whether it has ended by another definition, at `until`: no time before is lost."""
    is_deleted: bool = False
    filled: set[datetime] = field(default_factory=set)
    """The times for which it was back-filled."""

    @property
    def fires(self) -> bool:
        """Whether it fires by the clock."""
        return self.schedule.is_active

    def key(self, due: datetime) -> tuple[str, int, datetime]:
        """Identify one of its times."""
        return self.name, self.schedule.version, due


class ScheduleWorld:
    """A server, one triggers service, and the schedules of one owner."""

    def __init__(self, folder: Path) -> None:
        """Keep everything under `folder`; `start` starts it."""
        self.names = fresh_names()
        self.nats = ShiftedNats(folder)
        self.spans = dict[str, Span]()
        """The schedules that exist."""
        self.past, self.skipped = list[Span](), set[tuple[str, str]]()
        self.away = list[tuple[datetime, datetime]]()
        self.runs = Counter[str]()
        self._folder, self._port = folder, ports.pick()
        self.triggers = self._service()
        self.bus = Bus(BusSettings.model_validate({"nats_url": self.nats.url, **self.names}))
        self.schedules = Schedules(self.bus)

    def _service(self) -> ServiceProcess:
        environment = {
            "HEADRACE_NATS_URL": self.nats.url,
            "HEADRACE_METRICS_PORT": str(self._port),
            **{f"HEADRACE_{name.upper()}": value for name, value in self.names.items()},
        }
        return ServiceProcess(
            "triggers",
            self._folder / "triggers",
            ["triggers", "serve"],
            environment,
            lambda: get(f"127.0.0.1:{self._port}", "/readyz")[0] == 200,
        )

    async def start(self, near: datetime) -> None:
        """Start everything, with the server's clock some seconds before `near`."""
        self._shift(near)
        self.nats.start()
        await self.bus.connect("test")
        await self._announce()
        # A replica is killed often here.
        firings = of_firings(self.bus.subjects, _ACK_WAIT)
        await ensure_consumer(self.bus, self.bus.streams.schedules, firings)
        self.triggers.start(wait=False)

    async def close(self) -> None:
        """End everything."""
        self.triggers.kill()
        await self.bus.close()
        self.nats.kill()

    async def _announce(self) -> None:
        announcer = Announcer(self.bus, "w", DirectoryTiming(instance_ttl=3600))
        await announcer.announce(AgentCard(name=AGENT))

    def _shift(self, near: datetime) -> None:
        self.nats.shift = int(near.timestamp() - time.time()) - 4

    async def now(self) -> datetime:
        """Return the server's time."""

        async def ask() -> datetime | None:
            try:
                seconds = await server_time(self.bus, self.bus.streams.schedules)
            except BusUnavailable:
                return None
            return datetime.fromtimestamp(seconds, UTC)

        return await eventually(ask, "the server answers")

    def key(self, name: str) -> ScheduleKey:
        """Return the key of a schedule."""
        return ScheduleKey("default", "ann", name)

    async def put(self, name: str, timing: Timing, **terms: object) -> None:
        """Store a schedule, or store it again."""
        stated = {
            "agent": AGENT,
            "parts": [{"text": name}],
            "overlap": "replace",
            **timing.terms,
            **terms,
        }
        definition = Schedule.model_validate(stated)
        before = await self.now()
        stored = await self.schedules.put(self.key(name), definition)
        await self._changed(name, timing, before, stored, is_put=True)

    async def put_again(self, name: str) -> None:
        """Store a schedule unchanged, as a program does at its start."""
        span = self.spans[name]
        before = await self.now()
        found = await self.schedules.get(self.key(name))
        stored = await self.schedules.put(self.key(name), span.schedule)
        assert found is not None
        if isinstance(span.timing, Once) or not found.schedule.ended:
            assert stored.schedule.version == found.schedule.version
        await self._changed(name, span.timing, before, stored, is_put=True)

    async def switch(self, name: str, *, to_pause: bool) -> None:
        """Pause or resume a schedule, unless it has ended."""
        before, key = await self.now(), self.key(name)
        try:
            await (self.schedules.pause(key) if to_pause else self.schedules.resume(key))
        except ScheduleOver:
            return
        stored = await self.schedules.get(key)
        assert stored is not None
        await self._changed(name, self.spans[name].timing, before, stored)

    async def _changed(
        self,
        name: str,
        timing: Timing,
        before: datetime,
        stored: StoredSchedule,
        *,
        is_put: bool = False,
    ) -> None:
        found = await self.schedules.get(stored.key)
        assert found is not None
        known = self.spans.get(name)
        is_same = known is not None and (
            (known.schedule.version, known.schedule.paused)
            == (found.schedule.version, found.schedule.paused)
        )
        if is_same:
            return
        if known is not None and is_put:
            known.is_replaced, before = True, found.stored
        self._close(name, before, found.stored)
        self.spans[name] = Span(name, timing, found.schedule, found.stored, before)

    def _close(self, name: str, earliest: datetime, latest: datetime) -> None:
        span = self.spans.pop(name, None)
        if span is not None:
            span.until = earliest, latest
            self.past.append(span)

    async def delete(self, name: str) -> None:
        """Delete a schedule."""
        before, life = await self.now(), self.spans[name].schedule.created
        await self.schedules.delete(self.key(name))
        self._close(name, before, await self.now())
        for span in self.past:
            span.is_deleted |= (span.name, span.schedule.created) == (name, life)
        self.runs[name] = 0

    async def run_now(self, name: str, request: str) -> None:
        """Have a schedule fire besides its times."""
        await self.schedules.run_now(self.key(name), request)
        self.runs[name] += 1

    async def back_fill(self, name: str) -> None:
        """Back-fill the last seconds of a schedule by cron."""
        span = self.spans[name]
        if isinstance(span.timing, ByInterval | Once):
            return
        end = await self.now()
        start = end - timedelta(seconds=10)
        number = await self.schedules.back_fill(self.key(name), start, end, "replace")
        times = set(span.timing.within(start - timedelta(microseconds=1), end))
        assert number == len(times), (span.timing, start, end)
        span.filled |= times

    async def kill_triggers(self) -> None:
        """Kill the triggers service; another one starts."""
        self.triggers.kill()
        self.triggers.start(wait=False)

    async def restart_nats(self, near: datetime | None = None, *, in_order: bool = False) -> None:
        """End the server, by a kill or in good order, and start it, with its clock set near a time.

        With another time the triggers service is killed, too: it measures the server's every 30 s.
        """
        before = await self.now()
        if in_order:
            await asyncio.to_thread(self.nats.stop)
        else:
            self.nats.kill()
        is_later = near is not None and near > before + timedelta(seconds=10)
        if near is not None and is_later:
            self._shift(near)
            self.triggers.kill()
            self.triggers.start(wait=False)
        self.nats.start()
        self.away.append((before, await self.now() + _RECOVERS))
        if is_later:
            # Agents that nobody has announced for a week are unknown.
            await self._announce()

    async def look(self) -> None:
        """Check that what exists is listed, and note what was skipped."""
        listed = {one.key.name for one in await self.schedules.list("default", "ann")}
        assert listed == set(self.spans)
        for name in listed:
            for one in (await self.schedules.firings(self.key(name))).last:
                if one.outcome == "skipped":
                    self.skipped.add((name, one.key))

    async def settle(self) -> None:
        """Have no schedule fire further, and wait until each firing has its outcome."""
        if not self.triggers.is_running:
            self.triggers.start(wait=False)
        await eventually(self._is_settled, "each firing has its outcome")
        for name, span in self.spans.items():
            if isinstance(span.timing, Once) and span.fires and span.timing.at < await self.now():
                ended = has_ended(self.schedules, self.key(name))
                await eventually(ended, f"{name}, which has fired, has ended")
        for name, span in list(self.spans.items()):
            if not isinstance(span.timing, Once):
                await self.switch(name, to_pause=True)
        await eventually(self._is_settled, "each firing has its outcome")
        await self.look()

    async def _is_settled(self) -> bool:
        subject = self.bus.subjects.firing("*", "*", "*")
        stream = self.bus.streams.schedules
        info = await stream_info(self.bus, stream, {"subjects_filter": subject})
        return not info["state"].get("subjects")

    async def verdict(self) -> "Verdict":
        """Return what has come of the schedules."""
        return Verdict(self, [task["metadata"][TRIGGER] for task in await begun(self.bus)])


def has_ended(schedules: Schedules, key: ScheduleKey) -> Callable[[], Awaitable[bool]]:
    """Return a function that tells whether a schedule has ended."""

    async def look() -> bool:
        found = await schedules.get(key)
        return found is not None and bool(found.schedule.ended)

    return look


def _may_fire(span: Span, due: datetime) -> bool:
    """Return whether a span may have fired for a time, by the clock or back-filled."""
    if isinstance(span.timing, Once):
        return span.timing.has(due)
    second = timedelta(seconds=1)
    is_within = span.fires and span.earliest - second <= due <= span.until[1] + second
    return due in span.filled or (is_within and span.timing.has(due))


class Verdict:
    """Compares tasks with the times at which schedules were due."""

    def __init__(self, world: ScheduleWorld, tasks: list[Json]) -> None:
        """Judge `tasks` by what was done in `world`."""
        self._world = world
        self.spans = [*world.past, *world.spans.values()]
        self.runs = Counter[str]()
        self.begun = Counter[tuple[str, int, datetime]]()
        for task in tasks:
            name, (version, _, at) = task["source"].rpartition("/")[2], task["key"].partition("/")
            if version == "run":
                self.runs[name] += 1
            else:
                self.begun[name, int(version), datetime.fromisoformat(at)] += 1

    @property
    def times(self) -> int:
        """Number of times for which a task has begun."""
        return len(self.begun)

    def all(self) -> Iterator[str]:
        """Yield what is wrong."""
        yield from self._twice()
        yield from self._undue()
        yield from self._missed_at_once()
        for span in self.spans:
            if span.is_deleted or not span.fires:
                continue
            for due in self._missed(span):
                yield f"{span.name}, {span.timing}: nothing began at {due}"
        for span in self.spans:
            for due in span.filled:
                if not span.is_deleted and not self.begun[span.key(due)]:
                    yield f"{span.name}, {span.timing}: {due} was not back-filled"
        for name, number in self._world.runs.items():
            if self.runs[name] < number:
                yield f"{name} was run {number} times and began {self.runs[name]} tasks"

    def _twice(self) -> Iterator[str]:
        """Yield the times that have begun more than one task."""
        filled = {(span.name, due) for span in self.spans for due in span.filled}
        at = Counter[tuple[str, datetime]]()
        once = {
            (span.name, span.schedule.version)
            for span in self.spans
            if isinstance(span.timing, Once)
        }
        for (name, version, due), number in list(self.begun.items()):
            if number > 1:
                yield f"{name}: {due} has begun {number} tasks of version {version}"
            # A time in the past fires at once after each change of the schedule.
            if (name, version) not in once:
                at[name, due] += number
        for (name, due), number in at.items():
            if number > 1 and (name, due) not in filled:
                yield f"{name}: {due} has begun {number} tasks"

    def _undue(self) -> Iterator[str]:
        """Yield the times that were not due as the schedule was defined."""
        spans = defaultdict[tuple[str, int], list[Span]](list)
        for span in self.spans:
            spans[span.name, span.schedule.version].append(span)
        for name, version, due in self.begun:
            if not any(_may_fire(span, due) for span in spans[name, version]):
                yield f"{name}: {due} was not due in version {version}"

    def _missed_at_once(self) -> Iterator[str]:
        """Yield the outages for which a schedule has fired more than once."""
        filled = {one.name for one in self.spans if one.filled}
        for gone, back in self._world.away:
            begun = defaultdict[tuple[str, int], list[datetime]](list)
            for name, version, due in self.begun:
                if gone + _LATE < due < back - _RECOVERS - _LATE:
                    begun[name, version].append(due)
            yield from (
                f"{name} has fired for {', '.join(map(str, sorted(dues)))} in one outage"
                for (name, _), dues in begun.items()
                if len(dues) > 1 and name not in filled
            )

    def _awake(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Yield the parts of a time in which the server was up."""
        for gone, back in self._world.away:
            if gone - _LATE > start:
                yield start, min(gone - _LATE, end)
            start = max(start, back)
        yield start, end

    def _missed(self, span: Span) -> Iterator[datetime]:
        if isinstance(span.timing, Once):
            if (
                span.until[0] == _FAR
                and self._is_over(span)
                and not self.begun[span.key(span.timing.at)]
            ):
                yield span.timing.at
            return
        most = span.schedule.max_firings
        if most is not None and self._begun_in_life(span) >= most:
            return
        end = span.until[0] - (timedelta() if span.is_replaced else _LATE)
        for start, stop in self._awake(span.stored, end):
            timing = span.timing
            certain = (
                self._phases(span, start, stop)
                if isinstance(timing, ByInterval)
                else timing.within(start, stop)
            )
            yield from (due for due in certain if not self._is_settled(span, due))

    def _phases(self, span: Span, start: datetime, end: datetime) -> Iterator[datetime]:
        """Yield the times of an interval that are certain.

        After an outage it may start anew. Then only its distances are certain.
        """
        assert isinstance(span.timing, ByInterval)
        if start == span.stored:
            yield from span.timing.within(start, end)
            return
        versions = span.name, span.schedule.version
        begun = sorted(due for *key, due in self.begun if tuple(key) == versions)
        for one in begun:
            if start < one < end - timedelta(seconds=span.timing.seconds):
                yield one + timedelta(seconds=span.timing.seconds)

    def _is_over(self, span: Span) -> bool:
        assert isinstance(span.timing, Once)
        return span.timing.at < max([self._last, span.stored])

    @property
    def _last(self) -> datetime:
        """The latest time of anything that was done."""
        return max(
            [span.stored for span in self.spans] + [gone for gone, _ in self._world.away],
            default=datetime(1970, 1, 1, tzinfo=UTC),
        )

    def _is_settled(self, span: Span, due: datetime) -> bool:
        name = f"{span.schedule.version}/{due.isoformat(timespec='milliseconds')[:-6]}Z"
        return bool(self.begun[span.key(due)]) or (span.name, name) in self._world.skipped

    def _begun_in_life(self, span: Span) -> int:
        versions = {
            one.schedule.version
            for one in self.spans
            if (one.name, one.schedule.life) == (span.name, span.schedule.life)
        }
        clocked = sum(
            number
            for (name, version, _), number in self.begun.items()
            if name == span.name and version in versions
        )
        return clocked + self.runs[span.name]
