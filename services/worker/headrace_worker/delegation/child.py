"""One child task of an attempt: started, followed to the end of its run, and relayed."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace

from headrace.log import Follower, last_entry
from headrace.model.entry import ANSWERED, Entry, Stamp
from headrace.model.errors import (
    InvalidName,
    LogFull,
    LogLost,
    LogTooNew,
    StartRefused,
    StateUnavailable,
    TaskUnknown,
)
from headrace.model.events import (
    Json,
)
from headrace.model.fold import TaskFold
from headrace.model.messages import StartTask, TaskStarted, TellChild
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
from headrace.sdk.errors import DelegationFailed, DelegationRefused, MalformedOutput, RunOver
from headrace.sdk.results import Result
from headrace_worker.delegation.child_events import KnownChild, Relay
from headrace_worker.delegation.child_request import ChildRequest
from headrace_worker.delegation.parent import Parent

SETTLE = 0.2
"""Seconds that a child must wait before its user is asked: in a replayed log, the wait may be
over."""

_PAUSE = 0.3


class ChildCredentials:
    """Forwarding of one child's credential requests to the user."""

    def __init__(self, parent: Parent, child: TaskKey) -> None:
        """Ask the user of `parent` on behalf of `child`."""
        self._parent, self._child = parent, child
        self._asking: asyncio.Task[None] | None = None

    def needed(self, prompt: Json | None, generation: int) -> None:
        """Ask the user: since event `generation` with `prompt`, the child waits for credentials."""
        self.settled()
        self._asking = asyncio.create_task(self._ask(prompt, generation))

    def settled(self) -> None:
        """Stop asking: the child no longer waits."""
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    async def _ask(self, prompt: Json | None, generation: int) -> None:
        await asyncio.sleep(SETTLE)
        with suppress(RunOver):
            async with self._parent.asking:
                message = None if prompt is None else _without_ids(prompt)
                answer = await self._parent.inputs.ask(message)
            await self._send_answer(answer, generation)

    async def _send_answer(self, answer: Json, asked_at: int) -> None:
        """Send the answer to the child's holder, with retries; its input id prevents duplicates."""
        parent = self._parent.key
        request = TellChild(
            tenant=self._child.tenant,
            agent=self._child.agent,
            task=self._child.task,
            parent=parent.task,
            parent_agent=parent.agent,
            input=f"{parent.task}-{asked_at}",
            message=answer,
            asked_at=asked_at,
        )
        while True:
            try:
                if await self._parent.state.tell(request) is not None:
                    return
            except (StateUnavailable, TaskUnknown) as trouble:
                _log.info("task %s: %s", self._child.task, trouble)
            await asyncio.sleep(_PAUSE)


def _without_ids(prompt: Json) -> Json:
    """Return the child's prompt without the ids of the child's task."""
    return {key: value for key, value in prompt.items() if key not in {"taskId", "contextId"}}


_PAUSES = (0.05, 0.2, 0.5, 1.0)

_ENTRY_OVERHEAD = 16 * 1024
"""Maximum bytes of the child's first entry in addition to the message."""

_RUN_OVER = "run_over"


async def start_child(
    parent: Parent, key: TaskKey, request: ChildRequest, name: str
) -> TaskStarted:
    """Start the child, or find it started; waits while task state is unavailable.

    Large files of the message are first stored as the parent's: where NATS permissions are per
    agent, workers can't write another agent's files. The files are deleted with the parent's log.

    Raises:
        DelegationRefused: a rule forbids it.
        RunOver: the parent's run is over, or another worker has taken it over.
    """
    message, links = await _offloaded(parent, request)
    query, tries = _query(parent, key, replace(request, message=message), name), 0
    try:
        _check_size(parent, request.agent, query)
        while (started := await _try(parent, request.agent, query, tries)) is None:
            await asyncio.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
            tries += 1
    except (DelegationRefused, RunOver):
        await parent.offload.drop(links)
        raise
    if started.again and not tries:
        # The child's log refers to the files of the attempt that started it. After a retry, these
        # files may be the ones in the log.
        await parent.offload.drop(links)
    return started


async def _offloaded(parent: Parent, request: ChildRequest) -> tuple[Json, list[str]]:
    try:
        return await parent.offload.of(request.message)
    except LogFull:
        raise DelegationRefused(request.agent, "busy", "the file store is full") from None


def _check_size(parent: Parent, agent: str, query: StartTask) -> None:
    size, most = len(query.encode()), parent.bus.max_payload - _ENTRY_OVERHEAD
    if size > most:
        why = f"the message has {size} bytes, the limit is {most}; send large content as files"
        raise DelegationRefused(agent, "bad_request", why)


async def _try(parent: Parent, agent: str, query: StartTask, tries: int) -> TaskStarted | None:
    """Return the started task, or None if task state does not answer now."""
    try:
        return await parent.state.start(query)
    except StartRefused as refusal:
        if refusal.why == _RUN_OVER:
            raise RunOver(str(refusal)) from refusal
        raise DelegationRefused(agent, refusal.why, str(refusal)) from refusal
    except (InvalidName, TaskUnknown) as error:
        reason = error.rule if isinstance(error, InvalidName) else str(error)
        raise DelegationRefused(agent, "bad_request", reason) from error
    except StateUnavailable as trouble:
        if not tries:
            _log.warning("task %s: delegation to %s: %s", parent.key.task, query.agent, trouble)
        return None


def _query(parent: Parent, key: TaskKey, request: ChildRequest, name: str) -> StartTask:
    return StartTask(
        tenant=key.tenant,
        agent=key.agent,
        parent=parent.key.task,
        parent_agent=parent.key.agent,
        run=parent.run,
        attempt=parent.attempt,
        name=name,
        message=request.message,
        into=request.into,
        deadline=request.deadline.isoformat() if request.deadline else None,
        budget=request.budget,
        priority=parent.priority,
        traceparent=parent.traceparent,
    )


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

    def __init__(self, parent: Parent, key: TaskKey, request: ChildRequest, name: str) -> None:
        """Prepare `request` under `name`; `begin` sends it."""
        loop = asyncio.get_running_loop()
        self.key, self.request = key, request
        self.waits = 0
        """Number of waits for its result."""
        self.over: asyncio.Future[Result] = loop.create_future()
        """Its result, or the `DelegationFailed` or `RunOver` error."""
        self.started: asyncio.Future[TaskStarted] = loop.create_future()
        self._parent, self._name = parent, name
        self._fold, self._run, self._relayed = TaskFold(), 1, 0
        self.relay = Relay((parent.key.task, parent.context), key.task, all_events=request.relay)
        self._credentials = ChildCredentials(parent, key)
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
        return self._fold.state in TERMINAL or self._fold.state == ANSWERED

    @property
    def rests(self) -> bool:
        """Whether it waits for input."""
        return self._fold.state == INPUT_REQUIRED and self.over.done()

    def begin(self, known: KnownChild | None) -> None:
        """Start the child; a `known` one is relayed from the last relayed event on."""
        if known is None or self.request.into is not None:
            self._parent.appender.offer(self.relay.asked(self.key.agent, self._name))
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

    async def detach(self) -> None:
        """Stop following the child without canceling it."""
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
        parent = self._parent
        follower = Follower(
            parent.bus, parent.rule, self.key, arrived.put_nowait, arrived.put_nowait
        )
        await follower.subscribe()
        try:
            started = await start_child(parent, self.key, self.request, self._name)
            self.started.set_result(started)
            self._run = started.run
            self._relayed = max(self._relayed, started.run)
            await self._begin_following(follower, started)
            while not self._is_over:
                await self._take(await arrived.get())
        finally:
            follower.stop()
        return self._result()

    async def _begin_following(self, follower: Follower, started: TaskStarted) -> None:
        """Follow the child's log from its start; the input may have come with `started`."""
        if started.input is not None:
            stamp = Stamp(started.log, 1, "", SUBMITTED, 1)
            await self._take(Entry(stamp, [started.input.encode()], started.sequence, ""))
            follower.begin(started.sequence)
            return
        last = await last_entry(self._parent.bus, self.key)
        follower.begin(0)
        follower.tail_is(last.sequence if last is not None else started.sequence)

    async def _take(self, entry: Entry | LogLost | LogTooNew) -> None:
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
            await appender.room()

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
        self._parent.usage_totals.add_tokens(result.tokens)
        if state in _SUCCESSFUL or state == ANSWERED:
            return result
        ended = _ENDS.get(state, f"the task ended as {state}")
        text = _text_of(result.message or {})[:_LONGEST_REASON]
        reason = f"{ended}: {text}" if text else ended
        raise DelegationFailed(self.key.agent, reason, self.key.task, state)


def _text_of(message: Json) -> str:
    """Return a message's text, of any event type."""
    texts = [part.get("text") for part in message.get("parts", ())]
    return "".join(text for text in texts if isinstance(text, str))
