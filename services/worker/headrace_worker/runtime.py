"""What an agent's `RunContext` can do on a worker."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol

from headrace.model.entry import Entry
from headrace.model.errors import LogLost
from headrace.model.events import Json
from headrace.model.fork import ForkOf
from headrace.sdk.emit import Emission, ToolArguments, ToolResult
from headrace.sdk.errors import DelegationRefused
from headrace.sdk.results import DelegationRequest, Result
from headrace.sdk.runtime import Interrupt
from headrace_worker.delegation.child import Child
from headrace_worker.delegation.child_request import ChildRequest
from headrace_worker.delegation.children import Children, ChildStream
from headrace_worker.delegation.parent import Parent
from headrace_worker.earlier import earlier_logs, earlier_tasks
from headrace_worker.emitter import Emitter
from headrace_worker.encoder import Encoder
from headrace_worker.inputs import Inputs
from headrace_worker.recovery import entries_before, events_before, task_before, waiting_child
from headrace_worker.sleeps import Sleeps


class AttemptParts(Protocol):
    """The parts of an attempt. What few agents use is made when it is first used."""

    encoder: Encoder
    emitter: Emitter
    inputs: Inputs

    @property
    def parent(self) -> Parent:
        """The attempt as its children need it."""

    @property
    def sleeps(self) -> Sleeps:
        """Its sleeps."""

    @property
    def interrupted(self) -> Interrupt:
        """Why the agent is being stopped."""

    def begin_children(self) -> Children:
        """Return its child tasks, also if there are none yet."""


class WorkerRuntime:
    """The worker's implementation of `headrace.sdk.runtime.Runtime`."""

    def __init__(self, parts: AttemptParts) -> None:
        """Give an agent the `parts` of its attempt."""
        self.loop = asyncio.get_running_loop()
        # Called per token: bound directly, to save a stack frame.
        self.emit: Callable[[Emission], bool] = parts.emitter.emit
        self._emitter, self._inputs, self._parts = parts.emitter, parts.inputs, parts

    # Methods, because a bound one in an attribute takes 70 bytes of each run.
    async def room(self) -> None:
        """See `Runtime.room`."""
        await self._emitter.room()

    def new_id(self, kind: str) -> str:
        """See `Runtime.new_id`."""
        return self._emitter.new_id(kind)

    async def checkpoint(
        self,
        data: Any,  # noqa: ANN401  # any JSON
        output: ToolArguments | ToolResult | None = None,
    ) -> None:
        """See `Runtime.checkpoint`."""
        await self._emitter.checkpoint(data, output)

    async def ask(self, prompt: Json | None) -> Json:
        """See `Runtime.ask`."""
        return await self._inputs.ask(prompt)

    async def next_input(self) -> Json:
        """See `Runtime.next_input`."""
        return await self._inputs.next_steering()

    async def sleep(self, until: datetime) -> float:
        """See `Runtime.sleep`."""
        return await self._parts.sleeps.begin(until)

    async def offloaded(self, output: Emission) -> Emission:
        """See `Runtime.offloaded`."""
        return await self._parent.offload.offloaded(output)

    async def task(self) -> Json:
        """See `Runtime.task`."""
        parent = self._parent
        return await task_before(parent.bus, parent.key, parent.head)

    async def events(self) -> list[tuple[int, Json]]:
        """See `Runtime.events`."""
        parent = self._parent
        return await events_before(parent.bus, parent.key, parent.head)

    async def entries(self) -> list[Entry]:
        """See `Runtime.entries`."""
        parent = self._parent
        return await entries_before(parent.bus, parent.key, parent.head)

    async def context_tasks(self) -> list[Json]:
        """See `Runtime.context_tasks`."""
        parent = self._parent
        return await earlier_tasks(parent.bus, parent.key, parent.owner, parent.context)

    async def context_logs(
        self, requested_by: str | None, fork: ForkOf | None
    ) -> list[list[Entry]]:
        """See `Runtime.context_logs`."""
        bus, key, owner = self._parent.bus, self._parent.key, self._parent.owner
        return await earlier_logs(bus, key, owner, self._parent.context, requested_by, fork)

    async def store(self, content: bytes, media_type: str = "") -> str | None:
        """See `Runtime.store`."""
        return await self._parent.offload.put(content, media_type=media_type)

    async def content(self, link: str) -> bytes:
        """See `Runtime.content`."""
        offload = self._parent.offload
        return await offload.files.read(link, self._parent.key.tenant, offload.belongs_to)

    @property
    def has_input(self) -> bool:
        """See `Runtime.has_input`."""
        return self._inputs.has_steering

    @property
    def interrupt(self) -> Interrupt:
        """See `Runtime.interrupt`."""
        return self._parts.interrupted

    @property
    def state(self) -> Any:  # noqa: ANN401  # any JSON
        """See `Runtime.state`."""
        return self._parts.encoder.state.now

    @property
    def tokens_left(self) -> int | None:
        """See `Runtime.tokens_left`."""
        return self._parent.tokens_left

    async def delegate(self, request: DelegationRequest) -> Result:
        """See `RunContext.delegate`."""
        return await self._parts.begin_children().result(self._child(request))

    def delegate_stream(self, request: DelegationRequest) -> ChildStream:
        """See `RunContext.delegate_stream`."""
        return ChildStream(self._parts.begin_children(), self._child(request))

    async def answer(
        self, result: Result | None, message: str | Json, *, relay: bool, timeout: float | None
    ) -> Result:
        """See `RunContext.answer`."""
        if result is not None:
            task, agent = result.id, result.agent
        else:
            task, agent = await self._waiting_child()
        answer = DelegationRequest(agent, message, relay=relay, timeout=timeout)
        request = ChildRequest.answering(task, answer, self._parent)
        children = self._parts.begin_children()
        return await children.result(children.answer(request))

    async def _waiting_child(self) -> tuple[str, str]:
        """Return task and agent of the child for which the previous run asked the user.

        Raises:
            DelegationRefused: no child task is waiting for input.
        """
        parent = self._parent
        try:
            found = await waiting_child(parent.bus, parent.key, parent.run)
        except LogLost:
            found = None
        if found is None:
            raise DelegationRefused("", "not_waiting", "no child task is waiting for input")
        return found

    def _child(self, request: DelegationRequest) -> Child:
        return self._parts.begin_children().ask(ChildRequest.of(request, self._parent))

    @property
    def _parent(self) -> Parent:
        return self._parts.parent
