"""One child of an attempt: started, followed to the end of its run, and relayed meanwhile."""

import asyncio
import logging
from contextlib import suppress

from headrace.log import Follower, last_entry
from headrace.model.entry import ANSWERED, Entry, Stamp
from headrace.model.errors import LogLost
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.messages import TaskStarted
from headrace.model.task import (
    AUTH_REQUIRED,
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    REJECTED,
    SUBMITTED,
    TERMINAL,
    TaskKey,
)
from headrace.sdk.errors import DelegationFailed, MalformedOutput, RunOver
from headrace.sdk.results import Result
from headrace_worker.delegation.credentials import ChildCredentials
from headrace_worker.delegation.known_children import Known
from headrace_worker.delegation.parent import Parent
from headrace_worker.delegation.question import Question
from headrace_worker.delegation.relay import Relay
from headrace_worker.delegation.starting import start_child

_log = logging.getLogger(__name__)

_GOOD = frozenset({COMPLETED, INPUT_REQUIRED})
_ENDS = {FAILED: "failed", REJECTED: "rejected it", CANCELED: "was canceled"}
_LONGEST_REASON = 300

type Events = asyncio.Queue[Json | None]
"""A child's events as they come; None: there are no more."""


class Child:
    """A task that this attempt has asked for, or has met again."""

    def __init__(self, parent: Parent, key: TaskKey, question: Question, name: str) -> None:
        """Ask `question` under `name`; nothing happens before `begin`."""
        loop = asyncio.get_running_loop()
        self.key, self.question = key, question
        self.waits = 0
        """How many wait for its result."""
        self.over: asyncio.Future[Result] = loop.create_future()
        """Its result, or the `DelegationFailed` or RunOver that stands for it."""
        self.started: asyncio.Future[TaskStarted] = loop.create_future()
        self._parent, self._name = parent, name
        self._fold, self._run, self._relayed = TaskFold(), 1, 0
        self.relay = Relay((parent.key.task, parent.context), key.task, speech=question.relay)
        self._credentials = ChildCredentials(parent, key)
        self._listeners: list[Events] = []
        self._work: asyncio.Task[None] | None = None
        self._is_over = False
        for future in (self.over, self.started):
            # Whoever waits hears of it; nobody waiting is no complaint.
            future.add_done_callback(lambda done: done.cancelled() or done.exception())

    @property
    def generation(self) -> int:
        """Generation of the last event seen."""
        return self._fold.generation

    @property
    def has_ended(self) -> bool:
        """Whether its task is seen to be over, so that there is nothing to cancel."""
        return self._fold.state in TERMINAL or self._fold.state == ANSWERED

    @property
    def rests(self) -> bool:
        """Whether it waits for input."""
        return self._fold.state == INPUT_REQUIRED and self.over.done()

    def begin(self, known: Known | None) -> None:
        """Start it; one that the parent's log knows already is met again, where it is there."""
        if known is None or self.question.into is not None:
            self._parent.appender.offer(self.relay.asked(self.key.agent, self._name))
        self._relayed = known.relayed if known is not None else 0
        self._work = asyncio.create_task(self._ask(), name=f"child {self.key.task}")

    def listen(self) -> Events:
        """Return where its events come; what it has come to already is one: the Task as it is."""
        events: Events = asyncio.Queue()
        if self._fold.generation:
            events.put_nowait({"task": self._fold.task()})
        if self.over.done():
            events.put_nowait(None)
        self._listeners.append(events)
        return events

    async def let_go(self) -> None:
        """Follow it no more; it goes on by itself."""
        if self._work is not None and not self._work.done():
            self._work.cancel()
            await asyncio.wait([self._work])

    async def _ask(self) -> None:
        try:
            result = await self._follow()
        except (DelegationFailed, RunOver) as error:
            self.over.set_exception(error)
        except asyncio.CancelledError:
            self.over.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # whoever waits must hear of it
            self.over.set_exception(error)
        else:
            self.over.set_result(result)
        finally:
            self.started.cancel()
            self._credentials.settled()
            for events in self._listeners:
                events.put_nowait(None)

    async def _follow(self) -> Result:
        arrived: asyncio.Queue[Entry | LogLost] = asyncio.Queue()
        parent = self._parent
        follower = Follower(
            parent.bus, parent.rule, self.key, arrived.put_nowait, arrived.put_nowait
        )
        await follower.subscribe()
        try:
            started = await start_child(parent, self.key, self.question, self._name)
            self.started.set_result(started)
            self._run = started.run
            self._relayed = max(self._relayed, started.run)
            await self._meet(follower, started)
            while not self._is_over:
                await self._take(await arrived.get())
        finally:
            await follower.stop()
        return self._result()

    async def _meet(self, follower: Follower, started: TaskStarted) -> None:
        """Follow the child's log: from its beginning, as far as that has not come along."""
        if started.input is not None:
            stamp = Stamp(started.log, 1, "", SUBMITTED, 1)
            await self._take(Entry(stamp, [started.input.encode()], started.sequence, ""))
            follower.begin(started.sequence)
            return
        last = await last_entry(self._parent.bus, self.key)
        follower.begin(0)
        follower.tail_is(last.sequence if last is not None else started.sequence)

    async def _take(self, entry: Entry | LogLost) -> None:
        if isinstance(entry, LogLost):
            raise DelegationFailed(self.key.agent, "lost its log", self.key.task)
        for generation, event in enumerate(entry.parsed(), entry.generation):
            self._fold.apply(event)
            for events in self._listeners:
                events.put_nowait(event)
            await self._pass_on(event, generation)
        if entry.stamp.run >= self._run:
            self._mind(entry)

    async def _pass_on(self, event: Json, generation: int) -> None:
        appender, draft = self._parent.appender, None
        # Any language can be a worker: an event may be of another shape than it should.
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            draft = self.relay.draft(event, generation)
        if draft is None or generation <= self._relayed:
            return
        try:
            has_room = appender.offer(draft)
        except MalformedOutput as error:
            _log.warning("task %s: not relayed: %s", self.key.task, error)
            return
        if not has_room:
            await appender.room()

    def _mind(self, entry: Entry) -> None:
        self._is_over = entry.ends_run
        if entry.stamp.state == AUTH_REQUIRED:
            prompt = self._fold.task(0)["status"].get("message")
            self._credentials.needed(prompt, entry.last_generation)
        else:
            self._credentials.settled()

    def _result(self) -> Result:
        task, state = self._fold.task(), self._fold.state
        result = Result(self.key.agent, task)
        self._parent.usage_totals.add_tokens(result.tokens)
        if state in _GOOD or state == ANSWERED:
            return result
        ended = _ENDS.get(state, f"ended as {state}")
        said = _words(result.message or {})[:_LONGEST_REASON]
        reason = f"{ended}: {said}" if said else ended
        raise DelegationFailed(self.key.agent, reason, self.key.task, state)


def _words(message: Json) -> str:
    """Return a message's text, whatever it is about."""
    texts = [part.get("text") for part in message.get("parts", ())]
    return "".join(text for text in texts if isinstance(text, str))
