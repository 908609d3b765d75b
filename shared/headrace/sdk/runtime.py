"""The interface behind `RunContext`, and the reasons for which it stops an agent.

Workers implement it, and so do test doubles.
"""

import asyncio
from contextlib import AbstractContextManager
from datetime import datetime
from enum import IntEnum
from typing import Any, Protocol

from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace.model.fork import ForkOf
from headrace.model.memory import MemoryScope, MemoryValue
from headrace.sdk.emit import Emission, ToolArguments, ToolResult
from headrace.sdk.results import Delegation, DelegationRequest, Result
from headrace.sdk.steps import Steps
from headrace.sdk.waits import RunWaits


class Interrupt(IntEnum):
    """The reason to stop. A greater value takes precedence."""

    NONE = 0
    HANDED_BACK = 1
    SUPERSEDED = 2
    OVERDUE = 3
    CANCELED = 4
    LOST = 5


STOPS = frozenset({Interrupt.SUPERSEDED, Interrupt.OVERDUE, Interrupt.CANCELED})
"""Reasons after which no worker continues the run."""


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return this thread's running event loop, if it has one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class RunOutput(Protocol):
    """The output of one attempt. Its methods raise `RunOver` once the run has ended."""

    def emit(self, output: Emission) -> bool:
        """Accept the agent's output. False: await `drain` before emitting more.

        Raises:
            MalformedOutput: The output is invalid, or is not allowed at this point.
            RunOver: The run has ended.
        """

    async def drain(self) -> None:
        """Wait until the log has caught up with the emitted output."""

    async def checkpoint(
        self,
        data: Any,  # noqa: ANN401  # any JSON
        output: ToolArguments | ToolResult | None = None,
    ) -> None:
        """Emit `output`, save `data` with all output so far, and wait until both are stored.

        Raises:
            MalformedOutput: The data is not JSON, is too large, or can't be saved at this point.
            RunOver: The run has ended.
        """

    def new_id(self, kind: str) -> str:
        """Return a new id. Other attempts at the run get the same ids."""

    @property
    def state(self) -> Any:  # noqa: ANN401  # any JSON
        """A copy of the state that the agent shares with its user interface."""


class RunFiles(Protocol):
    """The files of one run's task. Methods raise `BusUnavailable` if the store does not answer."""

    async def offloaded(self, output: Emission) -> Emission:
        """Return `output` with its large files moved to the file store and replaced by links.

        Raises:
            MalformedOutput: A field has the wrong type.
            LogFull: The file store is at its limit.
        """

    async def store(self, content: bytes, media_type: str = "") -> str | None:
        """Store a file of the task and return its link. None: no file store is configured.

        Raises:
            LogFull: The file store is at its limit.
        """

    async def content(self, link: str) -> bytes:
        """Return the content of a stored file.

        Raises:
            FileUnknown: The file is gone, belongs to another conversation, or is not in this
                fleet's store.
        """


class RunPast(Protocol):
    """The task, and its conversation, as they were when the attempt began.

    Methods raise `LogLost` if the log is gone and `BusUnavailable` if it does not answer.
    """

    async def task(self) -> Json:
        """Return the task, an A2A v1.0 Task."""

    async def events(self) -> list[tuple[int, Json]]:
        """Return the log's StreamResponses with their generations."""

    async def entries(self) -> list[Entry]:
        """Return the log's entries."""

    async def context_tasks(self) -> list[Json]:
        """Return the conversation's other tasks, A2A v1.0 Tasks, least recently changed first.

        Raises:
            StateUnavailable: Task state does not answer.
        """

    async def context_logs(
        self, requested_by: str | None, fork: ForkOf | None
    ) -> list[list[Entry]]:
        """Return the logs of the conversation's other tasks that `requested_by` or a user started.

        `fork` is the task's source if it is a fork. The oldest log comes first, and each is read up
        to its last run that has ended.

        Raises:
            StateUnavailable: Task state does not answer.
        """


class RunInputs(Protocol):
    """The messages that arrive during a run."""

    async def ask(self, prompt: Json | None) -> Json:
        """Show `prompt`, an A2A Message, to the user and return the Message that answers.

        Raises:
            RunOver: The run has ended.
        """

    @property
    def has_message(self) -> bool:
        """Whether `next_message` would return at once."""

    async def next_message(self) -> Json:
        """Wait for the next A2A Message for a steered agent and return it."""


class RunMemory(Protocol):
    """What the fleet remembers for the run's agent.

    Methods raise `InvalidName` for an invalid key, and `BusUnavailable` if the store does not
    answer. Those that write raise `RunOver` once the run has ended or another worker has it.
    """

    @property
    def scope(self) -> MemoryScope:
        """The scope of the run's task."""

    def writing(self, scope: MemoryScope) -> AbstractContextManager[object]:
        """Show that the agent itself writes in `scope` during a block, unless that fails."""

    async def get(self, scope: MemoryScope, key: str) -> MemoryValue | None:
        """Return the value of `key`."""

    async def put(self, scope: MemoryScope, key: str, data: bytes, revision: int | None) -> int:
        """Write the value of `key`, if it has the `revision` (None: any), and return the new one.

        Raises:
            MemoryChanged: The key has another revision.
            MemoryFull: The value is too large, or the store is at its limit.
        """

    async def delete(self, scope: MemoryScope, key: str, revision: int | None) -> None:
        """Delete `key`, if it has the `revision` (None: any).

        Raises:
            MemoryChanged: The key has another revision.
            MemoryFull: The store has no room for the mark of the deletion.
        """

    async def keys(self, scope: MemoryScope, prefix: str) -> list[str]:
        """Return the keys that begin with `prefix`, sorted."""

    async def read(
        self, scope: MemoryScope, prefix: str, newest: int | None = None
    ) -> dict[str, MemoryValue]:
        """Return the values of the keys that begin with `prefix`.

        With `newest`, only of so many that were written last.
        """

    async def last(self, scope: MemoryScope, prefix: str) -> tuple[str, MemoryValue] | None:
        """Return the key that begins with `prefix` and was written last, and its value."""


class RunChildren(Protocol):
    """The tasks that a run delegates. Methods raise as those of `RunContext` do."""

    async def delegate(self, request: DelegationRequest) -> Result:
        """Return the child's result."""

    def delegate_stream(self, request: DelegationRequest) -> Delegation:
        """Return the child's events and result."""

    async def reply(
        self, result: Result | None, message: str | Json, *, relay: bool, timeout: float | None
    ) -> Result:
        """Answer the child of `result`, or the one whose question the previous run passed on."""

    @property
    def tokens_left(self) -> int | None:
        """Tokens that the run may still use. None: no budget."""


class Runtime(Protocol):
    """One attempt at a run, as its context uses it."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The only event loop in which its methods may be awaited. None: in any."""

    @property
    def output(self) -> RunOutput:
        """What the agent emits."""

    @property
    def files(self) -> RunFiles:
        """The task's files."""

    @property
    def past(self) -> RunPast:
        """What came before the attempt."""

    @property
    def inputs(self) -> RunInputs:
        """Messages that arrive meanwhile."""

    @property
    def children(self) -> RunChildren:
        """Delegated tasks."""

    @property
    def memory(self) -> RunMemory:
        """What the fleet remembers for the agent."""

    @property
    def steps(self) -> Steps:
        """The run's steps."""

    @property
    def waits(self) -> RunWaits:
        """The run's waits."""

    @property
    def interrupted(self) -> Interrupt:
        """The reason why the agent is being stopped."""

    async def sleep(self, until: datetime) -> float:
        """Begin the run's next sleep, or find it again, and return its seconds that are left.

        It does not return if the attempt ends for the sleep; `until` then decides nothing in the
        next attempt.

        Raises:
            RunOver: The run has ended.
        """
