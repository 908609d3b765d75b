"""The child tasks of one attempt, including those that it must cancel."""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Container
from typing import Self

import orjson

from headrace import clock
from headrace.jetstream.connection import Bus
from headrace.log import find_generation, last_entry, replay
from headrace.model import events, json_text
from headrace.model.delegation import ASKS_FOR, MAX_NAME, Lineage, child_task_id
from headrace.model.entry import Entry
from headrace.model.errors import LogLost, StateUnavailable, TaskUnknown
from headrace.model.events import Json
from headrace.model.messages import CancelChild
from headrace.model.task import CANCELED, INPUT_REQUIRED, TaskKey
from headrace.sdk.errors import DelegationFailed, DelegationRefused, RunOver
from headrace.sdk.results import DelegationRequest, Result
from headrace.sdk.runtime import Interrupt
from headrace.sdk.step_ids import step_scope
from headrace.state_client import StateClient
from headrace_worker.delegation.child import Child, Events
from headrace_worker.delegation.child_events import KnownChildren
from headrace_worker.delegation.child_request import ChildRequest
from headrace_worker.delegation.parent import Parent
from headrace_worker.pending_messages import Receipt

_NOT_COMPARED = frozenset({"messageId", "taskId", "contextId", "role"})
"""Message fields that do not distinguish questions."""


class ChildNames:
    """Names for the children of one attempt."""

    def __init__(self, parent: str, run: int, spent: Container[str]) -> None:
        """Name children of `run` of `parent`; the task ids in `spent` are not used again."""
        self._parent, self._run, self._spent = parent, run, spent
        self._numbers: dict[tuple[str, str], int] = {}

    def of(self, agent: str, message: Json, key: str | None) -> tuple[str, str]:
        """Return the child's name and its task id.

        With a `key`, that is the name; without one, the same question asked n times has n children.

        Raises:
            DelegationRefused: the key is too long, or empty.
        """
        base = f"key:{key}" if key is not None else self._next(agent, fingerprint(message))
        if key == "" or len(base) > MAX_NAME:
            most = MAX_NAME - len("key:")
            raise DelegationRefused(agent, "bad_request", f"a key must have 1 to {most} characters")
        name, again = base, 0
        while (task := child_task_id(self._parent, self._run, agent, name)) in self._spent:
            again += 1
            name = f"again {again}:{base}"
        return name, task

    def _next(self, agent: str, question: str) -> str:
        if (scope := step_scope()) is not None:
            # Other attempts do not call the step's function, and would count differently.
            return scope.mint(f"ask:{question}:{agent}")
        number = self._numbers[agent, question] = self._numbers.get((agent, question), 0) + 1
        return f"ask:{question}:{number}"


def fingerprint(message: Json) -> str:
    """Return a digest of the message's content."""
    compared = {key: value for key, value in message.items() if key not in _NOT_COMPARED}
    canonical = json_text.encode(compared, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(canonical).hexdigest()[:32]


_log = logging.getLogger(__name__)

_LAST_EVENTS = 0.3
"""Seconds that a canceled child's last events have to arrive, to be relayed."""
_GIVEN_UP = "the task was canceled: its caller stopped waiting for it"


class Children:
    """The children of one attempt, and those that earlier attempts of the run started."""

    def __init__(self, parent: Parent, known_children: KnownChildren) -> None:
        """Start for `parent`, with the children in its log."""
        self._parent, self._known_children = parent, known_children
        self._confirmation = parent.resources.timing.child_confirmation
        self._names = ChildNames(parent.ctx.task, parent.ctx.run, known_children.spent)
        self._claimed: dict[str, Child] = {}
        self._answers: dict[str, int] = {}
        self._canceling: list[asyncio.Task[None]] = []
        self._user = asyncio.Lock()
        """Held while the user answers a child's question: one question at a time."""

    @property
    def tokens_left(self) -> int | None:
        """Tokens left of the budget for the run and its children; None: no limit."""
        lineage = Lineage.of(self._parent.ctx.metadata)
        if lineage is None or lineage.budget is None:
            return None
        used = self._parent.used
        return max(lineage.budget - (used.tokens if used else 0), 0)

    async def delegate(self, request: DelegationRequest) -> Result:
        """Return the result of the child for `request`, as `RunContext.delegate` does."""
        return await self.result(self._ask(ChildRequest.of(request, self._parent)))

    def delegate_stream(self, request: DelegationRequest) -> "ChildStream":
        """Return the stream of the child for `request`, as `RunContext.delegate_stream` does."""
        return ChildStream(self, self._ask(ChildRequest.of(request, self._parent)))

    async def reply(
        self, result: Result | None, message: str | Json, *, relay: bool, timeout: float | None
    ) -> Result:
        """Return the next result of a child that waits, as `RunContext.reply` does."""
        if result is not None:
            task, agent = result.id, result.agent
        else:
            task, agent = await self._waiting_child()
        request = DelegationRequest(agent, message, relay=relay, timeout=timeout)
        return await self.result(
            self._answer(task, ChildRequest.answering(task, request, self._parent))
        )

    async def _waiting_child(self) -> tuple[str, str]:
        """Return task and agent of the child for which the previous run asked the user."""
        ctx = self._parent.ctx
        try:
            found = await _waiting_child(self._parent.resources.bus, ctx.key, ctx.run)
        except LogLost:
            found = None
        if found is None:
            why = "no child task is waiting for input: no run before has ended with its question"
            raise DelegationRefused("", "not_waiting", why)
        return found

    def _ask(self, request: ChildRequest) -> Child:
        """Return the child for the request: a new one, or the one that has it already.

        Raises:
            DelegationRefused: the key is invalid, or the run has too many children.
            RunOver: the run has ended.
        """
        name, task = self._names.of(request.agent, request.message, request.key)
        return self._claim(task, request, name)

    def _answer(self, task: str, request: ChildRequest) -> Child:
        """Return the waiting child `task`, which `request` answers."""
        number = self._answers[task] = self._answers.get(task, 0) + 1
        # The child's earlier run has its result; a new `Child` follows the next run.
        self._claimed.pop(task, None)
        return self._claim(task, request, f"answer:{task}:{number}")

    def _claim(self, task: str, request: ChildRequest, name: str) -> Child:
        if task not in self._claimed:
            self._check_number(task, request)
            key = TaskKey(self._parent.ctx.key.tenant, request.agent, task)
            child = Child(self._parent, key, request, name, self._user)
            child.begin(self._known_children.known.get(task))
            self._claimed[task] = child
        return self._claimed[task]

    def _check_number(self, task: str, request: ChildRequest) -> None:
        most = self._parent.resources.settings.delegation_children
        known = self._known_children.known.keys() | self._claimed.keys()
        if task not in known and len(known) >= most:
            why = f"one run may start at most {most} tasks"
            raise DelegationRefused(request.agent, "too_many", why)

    async def result(self, child: Child) -> Result:
        """Return the child's result; the parent's permit is released while it waits.

        Raises:
            DelegationFailed: the child failed, or did not end in time.
            RunOver: the parent's run is over.
        """
        self.begin_wait(child)
        try:
            # Shielded: the child continues if the waiting task is cancelled.
            return await self.in_time(child, asyncio.shield(child.over))
        finally:
            await self.end_wait(child)

    async def in_time[T](self, child: Child, answer: Awaitable[T]) -> T:
        """Return the answer if it arrives before the child's deadline, or little later.

        Raises:
            DelegationFailed: the deadline has passed.
        """
        deadline = child.request.deadline
        seconds = None if deadline is None else (deadline - clock.now()).total_seconds()
        lateness = self._parent.resources.timing.child_lateness
        try:
            async with asyncio.timeout(None if seconds is None else max(seconds, 0.0) + lateness):
                return await answer
        except TimeoutError:
            raise DelegationFailed(
                child.key.agent, "the task did not end in time", child.key.task
            ) from None

    def begin_wait(self, child: Child) -> None:
        """Start a wait for the child, and release the parent's permit."""
        child.waits += 1
        self._parent.permit.begin_wait()

    async def end_wait(self, child: Child) -> None:
        """End a wait for the child; without other waits, an unfinished child is given up.

        Returns when the parent has a permit again, unless its agent is being stopped.
        """
        child.waits -= 1
        if self._parent.interrupted is not Interrupt.NONE:
            self._parent.permit.stop_waiting()
            return
        self.give_up(child)
        await self._parent.permit.end_wait()

    def give_up(self, child: Child) -> None:
        """Cancel the child, unless it has ended, is still waited for, or was given up before."""
        if child.over.done() or child.waits or self._parent.interrupted is not Interrupt.NONE:
            return
        if self._claimed.pop(child.key.task, None) is None:
            return
        self._known_children.spent[child.key.task] = None
        try:
            receipt = self._parent.appender.post(child.relay.given_up(child.generation))
        except RunOver:
            return
        task = asyncio.create_task(self._drop(child, receipt), name=f"cancel {child.key.task}")
        self._canceling.append(task)
        task.add_done_callback(self._canceling.remove)

    @property
    def are_at_work(self) -> bool:
        """Whether any child is still running."""
        live = any(not child.has_ended for child in self._claimed.values())
        return live or bool(self._unclaimed(asks=False))

    async def detach(self) -> None:
        """Stop following all children; they continue, for the attempt that takes over."""
        await asyncio.gather(*(child.detach() for child in self._claimed.values()))

    async def end(self, state: str) -> None:
        """Cancel all running children as the run ends in `state`, within a time limit.

        If the run ends with a question to the user, children that also wait for input are kept.
        """
        asks = state == INPUT_REQUIRED
        live = [c for c in self._claimed.values() if not c.has_ended and not (asks and c.run_ended)]
        unclaimed = self._unclaimed(asks=asks)
        work = [*(self._end(child) for child in live), *(self._cancel(key) for key in unclaimed)]
        if work or self._canceling:
            ending = [asyncio.ensure_future(one) for one in work]
            await asyncio.wait([*ending, *self._canceling], timeout=self._confirmation)
            for one in ending:
                one.cancel()
        await self.detach()

    def _unclaimed(self, *, asks: bool) -> list[TaskKey]:
        return [
            TaskKey(self._parent.ctx.key.tenant, known.agent, task)
            for task, known in self._known_children.known.items()
            if task not in self._claimed
            and not known.is_over
            and not (asks and known.state == INPUT_REQUIRED)
        ]

    async def _drop(self, child: Child, receipt: Receipt) -> None:
        """Cancel a child once `receipt` is stored: until then, another attempt may need it."""
        try:
            await receipt.stored()
        except RunOver as over:
            child.fail(over)
            await child.detach()
        else:
            await self._end(child)

    async def _end(self, child: Child) -> None:
        """Cancel a child and wait briefly, so that its end is relayed to the parent's log."""
        await asyncio.wait([child.started], timeout=self._confirmation)
        await self._cancel(child.key)
        await asyncio.wait([child.over], timeout=_LAST_EVENTS)
        # Otherwise whoever asks for its result would be cancelled.
        child.fail(DelegationFailed(child.key.agent, _GIVEN_UP, child.key.task, CANCELED))
        await child.detach()

    async def _cancel(self, key: TaskKey) -> None:
        parent = self._parent.ctx.key
        child = CancelChild(
            tenant=key.tenant,
            agent=key.agent,
            task=key.task,
            parent=parent.task,
            parent_agent=parent.agent,
        )
        try:
            await StateClient(self._parent.resources.bus).cancel(child)
        except TaskUnknown:
            _log.debug("task %s, which should be canceled, does not exist", key.task)
        except StateUnavailable as error:
            _log.warning("child task %s will be canceled by task state: %s", key.task, error)


async def _waiting_child(bus: Bus, key: TaskKey, run: int) -> tuple[str, str] | None:
    """Return task and agent of the child that the input of `run` answers, or None.

    Raises:
        LogLost: that part of the log is gone.
        BusUnavailable: the log does not answer.
    """
    last = await last_entry(bus, key)
    if last is None:
        return None
    for generation in range(run - 1, 0, -1):
        metadata = events.status_metadata(await _event(bus, key, generation, last))
        # A message that was queued just before the input stands between it and the question.
        if events.QUEUED in metadata:
            continue
        child = metadata.get(ASKS_FOR)
        if isinstance(child, dict):
            return str(child.get("task")), str(child.get("agent"))
        break
    return None


async def _event(bus: Bus, key: TaskKey, generation: int, last: Entry) -> Json:
    """Return one event of the log, which ends with `last`.

    Raises:
        LogLost: that part of the log is gone.
        BusUnavailable: the log does not answer.
    """
    after = await find_generation(bus, key, generation, last)
    async for batch in replay(bus, key, after, last.sequence):
        return batch[0].events[generation - batch[0].generation]
    raise LogLost(f"event {generation} of {key.task} is gone")


class ChildStream:
    """The stream that `RunContext.delegate_stream` returns."""

    def __init__(self, children: Children, child: Child) -> None:
        """Stream `child`, one of `children`."""
        self._children, self._child = children, child
        self._events: Events = child.listen()
        self._result: Result | None = None
        self._waits = self._is_at_end = False

    @property
    def task(self) -> str:
        """Task id of the child."""
        return self._child.key.task

    async def result(self) -> Result:
        """Wait for the child's result and return it.

        Raises:
            DelegationFailed, RunOver: as for `RunContext.delegate`.
        """
        if self._result is None:
            self._result = await self._children.result(self._child)
        return self._result

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Json:
        """Return the next event.

        Raises:
            DelegationFailed, RunOver: as for `RunContext.delegate`.
        """
        if not self._is_at_end:
            if (event := await self._next()) is not None:
                return event
            self._is_at_end = True
            await self._stop()
        await self.result()
        raise StopAsyncIteration

    async def _next(self) -> Json | None:
        if not self._waits:
            self._waits = True
            self._children.begin_wait(self._child)
        try:
            return await self._children.in_time(self._child, self._events.get())
        except asyncio.CancelledError:
            # A timeout around one event: the next one may be asked for as after any other.
            raise
        except BaseException:
            await self._stop()
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()
        self._children.give_up(self._child)

    async def _stop(self) -> None:
        if self._waits:
            self._waits = False
            await self._children.end_wait(self._child)
