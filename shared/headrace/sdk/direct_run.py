"""A run of an agent that is called as a function: in this process, without a log."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NoReturn, Self
from uuid import uuid4

from headrace import clock
from headrace.model import json_patch
from headrace.model.entry import Entry
from headrace.model.errors import FileUnknown, HeadraceError
from headrace.model.events import Json
from headrace.model.fork import ForkOf
from headrace.model.memory import MemoryScope
from headrace.model.step import StepRecord
from headrace.model.task import TaskKey
from headrace.model.user_message import user_message
from headrace.model.wait import SourceEvent
from headrace.sdk.active_run import active_run
from headrace.sdk.context import RunContext
from headrace.sdk.emit import (
    ENDINGS,
    Complete,
    Emission,
    InputRequired,
    Message,
    Reject,
    Text,
    ToolArguments,
    ToolResult,
    check_texts,
)
from headrace.sdk.errors import MalformedOutput
from headrace.sdk.local_memory import LocalMemory
from headrace.sdk.results import Delegation, DelegationRequest, Result
from headrace.sdk.runtime import Interrupt, running_loop
from headrace.sdk.signals import State, StateDelta
from headrace.sdk.steps import Steps
from headrace.sdk.waits import WaitSource

_ID = "direct"


class FleetRequired(HeadraceError):
    """An agent that was called as a function does what needs a fleet.

    Test it with `headrace.testing`, or serve it with ``headrace dev``.
    """

    code = "fleet_required"


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent that was called as a function emitted."""

    outputs: Sequence[Emission]
    """All output, in order."""

    @property
    def text(self) -> str:
        """The answer's text; the question of an agent that asks; why it rejected the request."""
        end = self.outputs[-1] if self.outputs else ""
        if isinstance(end, InputRequired):
            return end.prompt
        if isinstance(end, Reject):
            return end.reason
        return "".join(map(_text_of, self.outputs))

    @property
    def state(self) -> str:
        """``completed``, ``input-required`` or ``rejected``."""
        end = self.outputs[-1] if self.outputs else ""
        if isinstance(end, InputRequired):
            return "input-required"
        return "rejected" if isinstance(end, Reject) else "completed"


def _text_of(output: Emission) -> str:
    if isinstance(output, str):
        return output
    return output.text if isinstance(output, Text | Complete | Message) else ""


def _task_id(agent: str) -> str:
    """Return an id that no other call has; within a run, the same in each of its attempts.

    Idempotency keys and UUIDs are derived from it.
    """
    caller = active_run()
    return f"{_ID}-{uuid4() if caller is None else caller.uuid(f'agent {agent}')}"


class DirectRun:
    """One such run; it is the `Runtime` of its context, and all of its parts."""

    def __init__(self, agent: str, message: str | Json) -> None:
        """Prepare the run of `agent` on `message`, a text or an A2A v1.0 Message."""
        self._agent = agent
        self.loop = running_loop()
        self._message = user_message(message)
        self._numbers = itertools.count(1)
        self._emitted = asyncio.Queue[Emission | None]()
        """None: the agent has ended."""
        self._has_ended = False
        self._state: Any = {}
        self.memory = LocalMemory(MemoryScope(_ID, agent, _ID, _ID, _ID))
        self.context = RunContext(
            key=TaskKey(_ID, agent, _task_id(agent)),
            context=_ID,
            owner=_ID,
            run=1,
            attempt=1,
            message=self._message,
            metadata=self._message.get("metadata", {}),
            deadline=None,
            checkpoint_data=None,
            traceparent=None,
            _runtime=self,
        )

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Return the task that runs the agent by `work`, after which no output follows."""
        working = asyncio.ensure_future(work)
        working.add_done_callback(lambda _: self._emitted.put_nowait(None))
        return working

    async def next(self) -> Emission | None:
        """Return the next output; None: the agent has ended."""
        return await self._emitted.get()

    def taken(self) -> None:
        """Let the agent go on: the last output has been used."""
        self._emitted.task_done()

    @property
    def output(self) -> Self:
        """The run: it is so small that it is each part itself."""
        return self

    files = past = inputs = children = waits = output

    def emit(self, output: Emission) -> bool:
        """Keep the output for who called the agent; it waits until that has been used."""
        if self._has_ended:
            raise MalformedOutput(f"{type(output).__name__} after the run's end")
        if not isinstance(output, str):
            check_texts(output)
        if isinstance(output, State | StateDelta):
            self._update(output)
        self._has_ended = isinstance(output, ENDINGS)
        self._emitted.put_nowait(output)
        return False

    def _update(self, output: State | StateDelta) -> None:
        try:
            if isinstance(output, StateDelta):
                self._state = json_patch.apply(self._state, list(output.patch))
            else:
                json_patch.Document(output.state).check()
                self._state = output.state
        except json_patch.LimitExceeded as excess:
            raise MalformedOutput(f"the state, or its patch, {excess}") from None

    async def drain(self) -> None:
        """Wait until the output has been used."""
        await self._emitted.join()

    async def offloaded(self, output: Emission) -> Emission:
        """Return `output`: there is no file store."""
        return output

    async def checkpoint(
        self,
        data: Any,  # noqa: ANN401, ARG002  # any JSON; there is no other attempt
        output: ToolArguments | ToolResult | None = None,
    ) -> None:
        """Emit `output`; nothing is saved, as there is no other attempt."""
        if output is not None:
            self.emit(output)
        await self.drain()

    def new_id(self, kind: str) -> str:
        """Return a new id."""
        return f"{kind}-{next(self._numbers)}"

    async def store(self, content: bytes, media_type: str = "") -> None:
        """Return None: there is no file store."""

    async def content(self, link: str) -> bytes:
        """Refuse: there is no stored file."""
        raise FileUnknown(link)

    async def task(self) -> Json:
        """Return the task with its only message."""
        return {
            "id": self.context.task,
            "contextId": _ID,
            "status": {"state": "TASK_STATE_WORKING"},
            "history": [self._message],
        }

    async def events(self) -> list[tuple[int, Json]]:
        """Return the only event."""
        return [(1, {"task": await self.task()})]

    async def entries(self) -> list[Entry]:
        """Return nothing: there is no log."""
        return []

    async def context_tasks(self) -> list[Json]:
        """Return nothing: the conversation has no other task."""
        return []

    async def context_logs(
        self,
        requested_by: str | None,  # noqa: ARG002  # there are none
        fork: ForkOf | None,  # noqa: ARG002  # as `requested_by`
    ) -> list[list[Entry]]:
        """Return nothing, likewise."""
        return []

    @cached_property
    def steps(self) -> Steps:
        """The run's steps: they are called, and recorded nowhere."""
        return Steps(self.context.key, 1, self)

    is_alone = False

    def shown(self, name: str) -> AbstractContextManager[object]:  # noqa: ARG002  # to nobody
        """Show nothing: a step is no output."""
        return nullcontext()

    async def record(self, record: StepRecord, shown: Json | None) -> None:
        """Store nothing: there is no other attempt."""

    async def sleep(self, until: datetime) -> float:
        """Return the seconds to sleep: there is no other attempt."""
        return (until - clock.now()).total_seconds()

    async def ask(self, prompt: Json | None) -> Json:  # noqa: ARG002  # nobody is asked
        """Refuse: nobody can answer."""
        self._need_fleet("asks its user during the run")

    has_message = False

    async def next_message(self) -> Json:
        """Refuse: nobody can send any."""
        self._need_fleet("waits for messages during the run")

    async def wait(
        self,
        sources: Sequence[WaitSource],  # noqa: ARG002  # nothing arrives
        until: datetime,  # noqa: ARG002
    ) -> tuple[WaitSource, SourceEvent]:
        """Refuse: nothing can arrive."""
        self._need_fleet("waits for an event")

    async def url_of(self, name: str) -> str:  # noqa: ARG002  # nobody could call it
        """Refuse: there is no gateway."""
        self._need_fleet("has a webhook")

    interrupted = Interrupt.NONE

    @property
    def state(self) -> Any:  # noqa: ANN401  # any JSON
        """The state that the agent has set."""
        return self._state

    tokens_left = None

    async def delegate(self, request: DelegationRequest) -> Result:
        """Refuse: there is no other agent."""
        self._need_fleet(f"delegates to {_name(request)!r}")

    def delegate_stream(self, request: DelegationRequest) -> Delegation:
        """Refuse, likewise."""
        self._need_fleet(f"delegates to {_name(request)!r}")

    async def reply(
        self,
        result: Result | None,  # noqa: ARG002  # no child can be answered
        message: str | Json,  # noqa: ARG002
        *,
        relay: bool,  # noqa: ARG002
        timeout: float | None,  # noqa: ARG002
    ) -> Result:
        """Refuse: there is no child."""
        self._need_fleet("replies to an agent that it delegated to")

    def _need_fleet(self, does: str) -> NoReturn:
        raise FleetRequired(
            f"agent {self._agent!r} {does}, which needs a fleet: test it with"
            " headrace.testing.TestFleet, or serve it with headrace dev"
        )


def _name(request: DelegationRequest) -> str:
    return request.agent if isinstance(request.agent, str) else request.agent.name


class DirectStream:
    """What an agent that is called as a function emits, as it comes.

    A read that is cancelled, by a timeout for example, loses nothing: the agent goes on, and the
    next read returns its output. Closing the stream, or dropping it, cancels the agent.
    """

    def __init__(self, prepare: Callable[[], tuple[DirectRun, Coroutine[Any, Any, None]]]) -> None:
        """Begin the run that `prepare` returns, and what works on it, with the first read."""
        self._prepare = prepare
        self._run: DirectRun | None = None
        self._working: asyncio.Task[None] | None = None
        self._is_taken = self._is_over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Emission:
        if self._is_over:
            raise StopAsyncIteration
        if self._run is None or self._working is None:
            self._run, work = self._prepare()
            self._working = self._run.begin(work)
        if self._is_taken:
            self._is_taken = False
            self._run.taken()
        output = await self._run.next()
        if output is not None:
            self._is_taken = True
            return output
        self._is_over = True
        await self._working  # It has ended, possibly by an exception.
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the stream: the agent is cancelled, and has stopped when this returns."""
        self._is_over = True
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)

    def __del__(self) -> None:
        if (working := self._working) is not None and not working.get_loop().is_closed():
            working.cancel()
