"""What carries out what an agent asks of its context: a worker, or a stand-in for one in tests."""

from typing import Any, Protocol

from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace.sdk.emit import Emission, ToolArguments, ToolResult
from headrace.sdk.interrupt import Interrupt
from headrace.sdk.results import Delegation, Named, Result


class Runtime(Protocol):
    """One attempt at a run, as its context needs it.

    Methods that read raise `LogLost` where the log is gone and `BusUnavailable` where it does not
    answer; methods that write raise `RunOver` once the run has ended.
    """

    def emit(self, said: Emission) -> bool:
        """Take what the agent emits; False: await `room` before more is emitted.

        Raises:
            MalformedOutput: it can't stand in a log, or not at this point.
            RunOver: the run has ended.
        """

    async def room(self) -> None:
        """Return when the log has caught up with what was emitted."""

    async def offloaded(self, said: Emission) -> Emission:
        """Return `said` with its large files in the store, and links to them in their place.

        Raises:
            MalformedOutput: a field is not of its type's shape.
            LogFull: the store is at its limit.
        """

    async def checkpoint(
        self,
        data: Any,  # noqa: ANN401  # any JSON
        said: ToolArguments | ToolResult | None = None,
    ) -> None:
        """Emit `said`, save `data` with all that was emitted, return when both are stored.

        Raises:
            MalformedOutput: it is no JSON, is too large, or can't be saved at this point.
            RunOver: the run has ended.
        """

    def new_id(self, kind: str) -> str:
        """Return an id that another attempt at the run makes again."""

    async def store(self, content: bytes, media_type: str = "") -> str | None:
        """Store a file of the task and return its link; None: there is no store.

        Raises:
            LogFull: the store is at its limit.
        """

    async def content(self, link: str) -> bytes:
        """Return the content of a stored file.

        Raises:
            FileUnknown: it is gone, another conversation's, or no file of this fleet.
        """

    async def task(self) -> Json:
        """Return the task as it was when the attempt began, an A2A v1.0 Task."""

    async def events(self) -> list[tuple[int, Json]]:
        """Return the log's StreamResponses with their generations."""

    async def entries(self) -> list[Entry]:
        """Return the log's entries."""

    async def context_tasks(self) -> list[Json]:
        """Return the conversation's other tasks, A2A v1.0 Tasks, least recently changed first.

        Raises:
            StateUnavailable: task state does not answer.
        """

    async def context_logs(self, asked_by: str | None) -> list[list[Entry]]:
        """Return the logs of the conversation's other tasks that `asked_by`, or a user, began.

        Raises:
            StateUnavailable: task state does not answer.
        """

    async def ask(self, prompt: Json | None) -> Json:
        """Show the user `prompt`, an A2A Message, and return the Message that answers."""

    @property
    def has_input(self) -> bool:
        """Whether `next_input` has a message."""

    async def next_input(self) -> Json:
        """Return the next A2A Message for an agent that is steered, when there is one."""

    @property
    def interrupt(self) -> Interrupt:
        """Why the agent is being stopped."""

    @property
    def state(self) -> Any:  # noqa: ANN401  # any JSON
        """A copy of the state that the agent shares with its user interface."""

    @property
    def tokens_left(self) -> int | None:
        """Tokens that the run may still use; None: there is no budget."""

    async def delegate(  # as `RunContext.delegate`
        self,
        agent: str | Named,
        message: str | Json,
        key: str | None,
        *,
        relay: bool,
        timeout: float | None,
        budget: int | None,
    ) -> Result:
        """See `RunContext.delegate`."""

    def delegate_stream(  # as `RunContext.delegate`
        self,
        agent: str | Named,
        message: str | Json,
        key: str | None,
        *,
        relay: bool,
        timeout: float | None,
        budget: int | None,
    ) -> Delegation:
        """See `RunContext.delegate_stream`."""

    async def answer(
        self, result: Result | None, message: str | Json, *, relay: bool, timeout: float | None
    ) -> Result:
        """See `RunContext.answer`."""
