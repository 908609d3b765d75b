"""Requests to the holders of a worker's tasks, answered on the heartbeat thread.

So a holder answers while its agent blocks the worker's loop. What must run there is given up in
time, and the requester told so.
"""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Protocol

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from headrace.model.messages import Control, HolderReply
from headrace.sdk.runtime import Interrupt
from headrace_worker.blocked_loop import LoopHealth
from headrace_worker.heartbeat_thread import HeartbeatThread
from headrace_worker.inputs import InputRefusal, Inputs


class Holder(Protocol):
    """The attempt that holds a task, as it answers requests."""

    @property
    def control(self) -> str:
        """The task's control subject, on which requests to the holder come."""

    def holder_reply(self) -> HolderReply:
        """Return who it is; called on the heartbeat thread."""

    def interrupt(self, why: Interrupt) -> None:
        """Stop the agent; called on the worker's loop."""

    @property
    def refuses_inputs(self) -> bool:
        """Whether the agent accepts no message now; read on the heartbeat thread."""

    @property
    def inputs(self) -> Inputs:
        """Takes submitted messages; used on the worker's loop."""


class Held(Protocol):
    """A run that is held, as requests to its holder see it."""

    holder: Holder | None
    """None: the run has been released."""


class HolderRequests:
    """Answers the requests to the holders of a worker's tasks; used on the heartbeat thread."""

    def __init__(
        self, heartbeat_thread: HeartbeatThread, health: LoopHealth, accept_within: float
    ) -> None:
        """Answer on `heartbeat_thread`; create it on the worker's loop, whose `health` it asks.

        That loop has `accept_within` seconds to queue a message.
        """
        self._heartbeat_thread, self._health = heartbeat_thread, health
        self._accept_within = accept_within
        self._workers_loop = asyncio.get_running_loop()

    async def listen(self, control: str, hold: Held) -> Subscription:
        """Answer requests on the subject `control` for the holder of `hold`."""
        connection = self._heartbeat_thread.bus.connection
        return await connection.listen(control, partial(self._receive, hold))

    def _receive(self, hold: Held, msg: Msg) -> None:
        # In the background: the next request may ask who the holder is.
        self._heartbeat_thread.spawn(self._respond(hold, msg))

    async def _respond(self, hold: Held, msg: Msg) -> None:
        if (holder := hold.holder) is None:
            return
        request = Control.decode_or_ignore(msg, "question to a task's holder")
        if request is None:
            return
        outcome = dict[str, object]()
        if request.ask == "input":
            outcome = await self._input_outcome(request, holder)
        elif request.ask == "cancel":
            self._workers_loop.call_soon_threadsafe(holder.interrupt, Interrupt.CANCELED)
        answer = holder.holder_reply().model_copy(update=outcome)
        await self._heartbeat_thread.bus.connection.publish(msg.reply, answer.encode())

    async def _input_outcome(self, request: Control, holder: Holder) -> dict[str, object]:
        """Return the answer's fields that tell what became of the message of `request`."""
        queued = await self._queued(request, holder)
        if isinstance(queued, InputRefusal):
            return {"accepted": False, "refused": queued.reason, "generation": queued.generation}
        return {"generation": queued}

    async def _queued(self, request: Control, holder: Holder) -> int | InputRefusal:
        if holder.refuses_inputs:
            return InputRefusal("policy")
        if self._health.silence < self._accept_within:
            work = asyncio.run_coroutine_threadsafe(_accepted(holder, request), self._workers_loop)
            # Not cancelled: if the message is queued twice, its input id in the log shows it.
            waiting = asyncio.shield(asyncio.wrap_future(work))
            with suppress(TimeoutError):
                return await asyncio.wait_for(waiting, self._accept_within)
        return InputRefusal("blocked")


async def _accepted(holder: Holder, request: Control) -> int | InputRefusal:
    return await holder.inputs.accept(request)
