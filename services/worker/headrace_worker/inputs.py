"""Messages to a task with an active run, kept in its log until they are answered.

A message is accepted when the log contains it as *queued*: an event that changes nothing yet. It
leaves the queue in one of two ways. Either the running agent *takes* it: the user's message is
appended at that point, and if the attempt is discarded, the message is queued again. Or the run
ends, and the message becomes the next run's input.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from headrace.model import events
from headrace.model.events import Draft, Json
from headrace.model.messages import Control
from headrace.model.queued_message import QueuedMessage
from headrace.model.task import AUTH_REQUIRED, WORKING
from headrace.sdk.agent import FollowUps
from headrace.sdk.errors import MalformedOutput, Overtaken, RunOver
from headrace.sdk.runtime import Interrupt
from headrace_worker.appender import Appender
from headrace_worker.pending_messages import Receipt


@dataclass(frozen=True, slots=True)
class InputRefusal:
    """Why a message is refused."""

    reason: Literal["policy", "over", "too_large", "generation", "blocked", "new_run"]
    generation: int | None = None
    """The task's generation, if that is the reason."""


@dataclass(frozen=True, slots=True)
class EarlierInputs:
    """The messages that the run received before this attempt."""

    queued: list[QueuedMessage]
    waiting: list[QueuedMessage]
    """Those of `queued` that are not answered."""
    is_answer: bool = False
    """Whether the run answers a question that came after those of earlier runs."""


class Inputs:
    """The messages that wait during one attempt."""

    def __init__(
        self,
        appender: Appender,
        task: tuple[str, str],
        follow_ups: FollowUps,
        earlier: EarlierInputs,
        interrupt: Callable[[Interrupt], None],
    ) -> None:
        """Accept messages for `task` (its id and context), in addition to the `earlier` ones.

        `interrupt` is called when a message must stop the agent.
        """
        self.waiting = earlier.waiting
        """In the order of the log; messages whose append is in flight come last."""
        self._appender, self._task, self._follow_ups = appender, task, follow_ups
        self._run = appender.authorship.run
        self._interrupt, self._interrupt_after = interrupt, self._run if earlier.is_answer else 0
        self._known: dict[str, Receipt] = {}
        self._unread: dict[int, tuple[QueuedMessage, Receipt]] = {}
        """By generation, those that were taken for a read that was cancelled meanwhile."""
        self._asking = False
        self._changed: asyncio.Event | None = None
        """Set when there may be other messages; None until the agent waits for one."""
        # A message that an earlier attempt has taken no longer waits, but may be sent again.
        for each in earlier.queued:
            self._remember(each)

    async def accept(self, request: Control) -> int | InputRefusal:
        """Queue the message of `request`; return its generation once it is stored."""
        try:
            receipt = self._receipt(request)
            if isinstance(receipt, InputRefusal):
                return receipt
            generation = await receipt.stored()
        except MalformedOutput:
            return InputRefusal("too_large")
        except RunOver:
            return InputRefusal("over")
        except Overtaken as other:
            if request.if_generation is None:
                # The condition was that of another request with the same message.
                return await self.accept(request)
            return InputRefusal("generation", other.generation)
        self._notify()
        return generation

    def overtaken(self, queued: list[QueuedMessage], refused: list[QueuedMessage]) -> None:
        """Add messages `queued` by other writers; remove those `refused` because of them."""
        self.waiting = [each for each in self.waiting if each not in refused]
        for each in refused:
            self._known.pop(each.name, None)
        for each in queued:
            if not each.name or each.name not in self._known:
                self.waiting.append(each)
                self._remember(each)
        self.waiting.sort(key=lambda each: each.generation or math.inf)
        self._notify()

    @property
    def refuses(self) -> bool:
        """Whether the agent accepts no message now; thread-safe."""
        return self._follow_ups == "reject" and not self._asking

    @property
    def interrupts(self) -> bool:
        """Whether a waiting message must stop the agent."""
        return self._follow_ups == "interrupt" and any(
            each.generation > self._interrupt_after for each in self._of_kind(is_answer=False)
        )

    async def next_message(self) -> Json:
        """Wait for the next message to a steered agent, and return it."""
        while not self.has_message:
            await self._change()
        return await self._take(self._of_kind(is_answer=False)[0])

    @property
    def has_message(self) -> bool:
        """Whether `next_message` would return at once."""
        return self._follow_ups == "steer" and bool(self._of_kind(is_answer=False))

    def give_up_next(self) -> Draft:
        """Stop waiting for an answer to the oldest message; return the event that records it."""
        message = self.waiting.pop(0)
        return events.taken(*self._task, message.message, message.generation)

    async def ask(self, prompt: Json | None) -> Json:
        """Set the task to AUTH_REQUIRED, and return the message that answers."""
        self._asking = True
        try:
            # If an earlier attempt asked the same, its answer is already here.
            if not self._of_kind(is_answer=True):
                draft = events.status_update(*self._task, AUTH_REQUIRED, prompt)
                await self._appender.deliver(draft, state=AUTH_REQUIRED)
            while not (answers := self._of_kind(is_answer=True)):
                await self._change()
            return await self._take(answers[0])
        finally:
            self._asking = False

    def _refusal_of_new(self, request: Control) -> InputRefusal | None:
        if request.read_up_to is not None and request.read_up_to < self._run:
            return InputRefusal("new_run")
        if request.if_generation not in (None, self._appender.offered):
            return InputRefusal("generation", self._appender.offered)
        return None

    def _receipt(self, request: Control) -> Receipt | InputRefusal:
        if self.refuses:
            return InputRefusal("policy")
        known = self._known.get(request.input or "")
        return known or self._refusal_of_new(request) or self._queue(request)

    def _queue(self, request: Control) -> Receipt:
        state = AUTH_REQUIRED if self._asking else WORKING
        name = request.input or ""
        held = QueuedMessage(0, request.message or {}, request.metadata or {}, self._asking, name)
        draft = events.queued(
            *self._task,
            state,
            held.message,
            held.metadata,
            name=name,
        )
        receipt = Receipt(held, is_conditional=request.if_generation is not None)
        self._appender.post(draft, state=state, receipt=receipt)
        self.waiting.append(held)
        if name:
            self._known[name] = receipt
        return receipt

    def _remember(self, stored: QueuedMessage) -> None:
        if stored.name:
            receipt = self._known[stored.name] = Receipt()
            receipt.settle(stored.generation)

    async def _change(self) -> None:
        self._changed = self._changed or asyncio.Event()
        self._changed.clear()
        await self._changed.wait()

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.set()
        if self.interrupts:
            self._interrupt(Interrupt.SUPERSEDED)

    def _of_kind(self, *, is_answer: bool) -> list[QueuedMessage]:
        unread = (each for each, _ in self._unread.values())
        stored = (each for each in self.waiting if each.generation)
        return [each for each in (*unread, *stored) if each.is_answer is is_answer]

    async def _take(self, message: QueuedMessage) -> Json:
        _, receipt = self._unread.pop(message.generation, (None, None))
        if receipt is None:
            self.waiting.remove(message)
            draft = events.taken(*self._task, message.message, message.generation)
            receipt = self._appender.post(draft)
        try:
            await receipt.stored()
        except asyncio.CancelledError:
            # The log says that it is taken, so the agent's next read must have it.
            self._unread[message.generation] = message, receipt
            raise
        return message.message
