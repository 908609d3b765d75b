"""One child task of an attempt: started, followed to the end of its run, and relayed."""

import asyncio
import logging
from contextlib import suppress

from headrace.log import Follower, last_entry
from headrace.model.entry import Entry, Stamp
from headrace.model.errors import LogLost, LogTooNew
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.messages import TaskStarted
from headrace.model.task import (
    AUTH_REQUIRED,
    BARE_MESSAGE,
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
from headrace_worker.delegation.child_credentials import ChildCredentials
from headrace_worker.delegation.child_events import KnownChild, Relay
from headrace_worker.delegation.child_request import ChildRequest
from headrace_worker.delegation.parent import Parent
from headrace_worker.delegation.start_child import start_child

_log = logging.getLogger(__name__)

_SUCCESSFUL = frozenset({COMPLETED, INPUT_REQUIRED})

_ENDS = {
    FAILED: "the task failed",
    REJECTED: "the task was rejected",
    CANCELED: "the task was canceled",
}

_LONGEST_REASON = 300

type Events = asyncio.Queue[Json | None]
"""A child's events as they arrive; None marks the end."""


class Child:
    """A child task that this attempt has started, or found started."""

    def __init__(
        self,
        parent: Parent,
        key: TaskKey,
        request: ChildRequest,
        name: str,
        asking: asyncio.Lock,
    ) -> None:
        """Prepare `request` under `name`; `begin` sends it.

        `asking` is held while the user answers a child's question: one question at a time.
        """
        loop = asyncio.get_running_loop()
        self.key, self.request = key, request
        self.waits = 0
        """Number of waits for its result."""
        self.over: asyncio.Future[Result] = loop.create_future()
        """Its result, or the `DelegationFailed` or `RunOver` error."""
        self.started: asyncio.Future[TaskStarted] = loop.create_future()
        self._parent, self._name = parent, name
        self._fold, self._run, self._relayed = TaskFold(), 1, 0
        parents = parent.ctx.task, parent.ctx.context
        self.relay = Relay(parents, key.task, all_events=request.relay)
        self._credentials = ChildCredentials(parent, key, asking)
        self._listeners: list[Events] = []
        self._work: asyncio.Task[None] | None = None
        self._is_over = False
        for future in (self.over, self.started):
            # Retrieved, or asyncio would warn about an error that nothing awaits.
            future.add_done_callback(lambda done: done.cancelled() or done.exception())

    @property
    def generation(self) -> int:
        """Generation of the last event received."""
        return self._fold.generation

    @property
    def has_ended(self) -> bool:
        """Whether its task has ended, so that it need not be canceled."""
        return self._fold.state in TERMINAL or self._fold.state == BARE_MESSAGE

    @property
    def run_ended(self) -> bool:
        """Whether it waits for input."""
        return self._fold.state == INPUT_REQUIRED and self.over.done()

    def begin(self, known: KnownChild | None) -> None:
        """Start the child; a `known` one is relayed from the last relayed event on."""
        if known is None or self.request.into is not None:
            self._parent.appender.offer(self.relay.delegated(self.key.agent, self._name))
        self._relayed = known.relayed if known is not None else 0
        self._work = asyncio.create_task(self._ask(), name=f"child {self.key.task}")

    def listen(self) -> Events:
        """Return a queue of its events; past events are one item, the current Task."""
        events: Events = asyncio.Queue()
        if self._fold.generation:
            events.put_nowait({"task": self._fold.task()})
        if self.over.done():
            events.put_nowait(None)
        self._listeners.append(events)
        return events

    def fail(self, error: DelegationFailed | RunOver) -> None:
        """State `error` as its result, unless it has one."""
        if not self.over.done():
            self.over.set_exception(error)

    async def detach(self) -> None:
        """Stop following the child without canceling it."""
        if self._work is not None and not self._work.done():
            self._work.cancel()
            await asyncio.wait([self._work])

    async def _ask(self) -> None:
        try:
            result = await self._follow()
        except (DelegationFailed, RunOver) as error:
            self.fail(error)
        except asyncio.CancelledError:
            self.over.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # passed on to all waiters
            self.over.set_exception(error)
        else:
            self.over.set_result(result)
        finally:
            self.started.cancel()
            self._credentials.settled()
            for listener in self._listeners:
                listener.put_nowait(None)

    async def _follow(self) -> Result:
        arrived: asyncio.Queue[Entry | LogLost | LogTooNew] = asyncio.Queue()
        parent, shared, note = self._parent, self._parent.resources, arrived.put_nowait
        follower = Follower(shared.bus, shared.rule, self.key, note, note)
        await follower.subscribe()
        try:
            started = await start_child(parent, self.key, self.request, self._name)
            self.started.set_result(started)
            self._run = started.run
            self._relayed = max(self._relayed, started.run)
            await self._begin_following(follower, started)
            while not self._is_over:
                await self._handle(await arrived.get())
        finally:
            follower.stop()
        return self._result()

    async def _begin_following(self, follower: Follower, started: TaskStarted) -> None:
        """Follow the child's log from its start; the input may have come with `started`."""
        if started.input is not None:
            stamp = Stamp(started.log, 1, "", SUBMITTED, 1)
            await self._handle(Entry(stamp, [started.input.encode()], started.sequence, ""))
            follower.begin(started.sequence)
            return
        last = await last_entry(self._parent.resources.bus, self.key)
        follower.begin(0)
        follower.tail_is(last.sequence if last is not None else started.sequence)

    async def _handle(self, entry: Entry | LogLost | LogTooNew) -> None:
        if isinstance(entry, LogLost):
            raise DelegationFailed(self.key.agent, "the task's log is lost", self.key.task)
        if isinstance(entry, LogTooNew):
            raise entry
        for generation, event in enumerate(entry.parsed(), entry.generation):
            self._fold.apply(event)
            for listener in self._listeners:
                listener.put_nowait(event)
            await self._pass_on(event, generation)
        if entry.stamp.run >= self._run:
            self._update_state(entry)

    async def _pass_on(self, event: Json, generation: int) -> None:
        appender, draft = self._parent.appender, None
        # Workers may be written in any language: an event may be malformed.
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
            await appender.drain()

    def _update_state(self, entry: Entry) -> None:
        self._is_over = entry.ends_run
        if entry.stamp.state == AUTH_REQUIRED:
            prompt = self._fold.task(0)["status"].get("message")
            self._credentials.needed(prompt, entry.last_generation)
        else:
            self._credentials.settled()

    def _result(self) -> Result:
        task, state = self._fold.task(), self._fold.state
        result = Result(self.key.agent, task)
        if result.tokens:
            self._parent.usage.tokens += result.tokens
        if state in _SUCCESSFUL or state == BARE_MESSAGE:
            return result
        ended = _ENDS.get(state, f"the task ended as {state}")
        text = _text_of(result.message or {})[:_LONGEST_REASON]
        reason = f"{ended}: {text}" if text else ended
        raise DelegationFailed(self.key.agent, reason, self.key.task, state)


def _text_of(message: Json) -> str:
    """Return a message's text, of any event type."""
    texts = [part.get("text") for part in message.get("parts", ())]
    return "".join(text for text in texts if isinstance(text, str))
