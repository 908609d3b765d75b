"""What an agent gets: the message, whose it is, and ways to emit its answer."""

import asyncio
import logging
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Self

from headrace.model import events, parts
from headrace.model.events import ACCEPTED_MODES, AGUI, EXTENSIONS, Json
from headrace.model.task import TaskKey
from headrace.sdk.calling import Callee, ToolError
from headrace.sdk.emit import (
    FILES,
    Data,
    Emission,
    File,
    Status,
    Text,
    Thinking,
    ToolArguments,
    ToolCall,
    ToolResult,
)
from headrace.sdk.interrupt import STOPS
from headrace.sdk.results import Delegation, Named, Result
from headrace.sdk.runtime import Runtime
from headrace.sdk.signals import (
    Activity,
    ActivityDelta,
    Custom,
    Messages,
    Raw,
    State,
    StateDelta,
    Step,
    Subagent,
    Usage,
)


class Inbox:
    """``async for message in ctx.inbox``: each an A2A v1.0 Message, as it comes, without end.

    A message that is read stands in the task's history from then on; one that is not becomes the
    next run's input.
    """

    def __init__(self, runtime: Runtime) -> None:
        """Read what comes for the run of `runtime`."""
        self._runtime = runtime

    def __bool__(self) -> bool:
        """Whether a message is there."""
        return self._runtime.has_input

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Json:
        """Return the next message, waiting for it."""
        return await self._runtime.next_input()


@dataclass(frozen=True)
class RunContext:
    """One attempt at a run, as its agent sees it.

    An agent that is a generator yields what it emits; any agent can `emit` it, or use the methods
    named for what they emit. All wait when the agent is too far ahead of the log. What is malformed
    raises `MalformedOutput`; once the run has ended, they raise `RunOver`.
    """

    key: TaskKey
    context: str
    """The conversation: A2A's contextId, AG-UI's threadId."""
    owner: str
    """Whose task it is, as a subject token."""
    run: int
    """Generation of the input that this run answers."""
    attempt: int
    """The how-manieth try at this run, from 1."""
    message: Json
    """The input: an A2A v1.0 Message in ProtoJSON."""
    metadata: Json
    """What came with the input beside its message: an AG-UI run's state and tools, say."""
    deadline: datetime | None
    """When the run is stopped, in UTC; None: it may take as long as it likes."""
    checkpoint_data: Any
    """What a former attempt has saved with `checkpoint`; None: nothing."""
    traceparent: str | None
    """W3C trace context of the request, if it had one."""
    _runtime: Runtime

    @property
    def task(self) -> str:
        """The task's id."""
        return self.key.task

    @property
    def tenant(self) -> str:
        """Whose fleet it runs in, as a subject token."""
        return self.key.tenant

    @property
    def agent(self) -> str:
        """The agent's name."""
        return self.key.agent

    @property
    def accepted_output_modes(self) -> Sequence[str]:
        """The media types that an A2A client wants its answer in; empty: it does not say."""
        accepted: Sequence[str] = self.metadata.get(ACCEPTED_MODES) or ()
        return accepted

    @property
    def extensions(self) -> Sequence[str]:
        """The agent's own A2A extensions that the request activated, by URI."""
        activated: Sequence[str] = self.metadata.get(EXTENSIONS) or ()
        return activated

    @property
    def agui(self) -> Json:
        """What an AG-UI client sent with the run, as it sent it; empty for other clients.

        Its keys are ``state``, ``tools``, ``context``, ``forwardedProps`` and more.
        """
        sent: Json = self.metadata.get(AGUI) or {}
        return sent

    @property
    def is_stopped(self) -> bool:
        """Whether the run is to end here: canceled, out of time, or given way to a newer message.

        For an agent's clean-up, which then ends what was begun elsewhere for the run. False while
        nothing stops it, and where it is stopped because another worker goes on.
        """
        return self._runtime.interrupt in STOPS

    @property
    def state(self) -> Any:  # noqa: ANN401  # any JSON
        """The state shared with the user interface, as it is now: a copy, change it by saying so.

        It begins as the AG-UI client sent it with the run; other clients' is an empty object.
        """
        return self._runtime.state

    async def load_task(self) -> Json:
        """Return the task as it was when this attempt began: an A2A v1.0 Task. Read from the log.

        Raises:
            LogLost, BusUnavailable: the log is gone, or does not answer.
        """
        return await self._runtime.task()

    async def load_events(self) -> list[tuple[int, Json]]:
        """Return each of the log's StreamResponses with its generation. Read from the log.

        Raises:
            LogLost, BusUnavailable: the log is gone, or does not answer.
        """
        return await self._runtime.events()

    async def history(self) -> Sequence[Json]:
        """Return the task's messages up to this input's, A2A v1.0 Messages. Read from the log.

        Raises:
            LogLost, BusUnavailable: the log is gone, or does not answer.
        """
        task = await self.load_task()
        messages: Sequence[Json] = task.get("history", [])
        return messages

    async def context_history(self) -> Sequence[Json]:
        """Return the conversation's other tasks, A2A v1.0 Tasks, least recently changed first.

        Raises:
            StateUnavailable: task state does not answer.
        """
        return await self._runtime.context_tasks()

    @property
    def inbox(self) -> Inbox:
        """For an agent that is steered, the messages that come meanwhile."""
        return Inbox(self._runtime)

    @property
    def parts(self) -> Sequence[Json]:
        """The message's parts."""
        found: Sequence[Json] = self.message.get("parts", ())
        return found

    async def content(self, part: Json) -> bytes:
        """Return the content of a file that the message, or another part of the task, holds.

        Raises:
            FileUnknown: the part holds none; or it is gone, is another conversation's, or lies
                elsewhere: fetch that yourself.
            BusUnavailable: the store does not answer.
        """
        if (raw := part.get("raw")) is not None:
            return b64decode(raw)
        return await self._runtime.content(part.get("url", ""))

    @property
    def prompt(self) -> str:
        """The message's text, its parts put together."""
        return parts.text_of(self.parts)

    @cached_property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger that names the task in each line."""
        return _TaskLog(logging.getLogger(f"headrace.agent.{self.agent}"), {"task": self.task})

    async def checkpoint(self, data: Any) -> None:  # noqa: ANN401  # any JSON
        """Save up to 8 KB of JSON with all that was said before; returns when it is stored.

        Should this attempt die, the next finds it as `checkpoint_data`: what was said before
        stands, what was said after is discarded. Every open block ends here.

        Raises:
            MalformedOutput: it is no JSON, or is too large.
            RunOver: the run has ended.
        """
        await self._runtime.checkpoint(data)

    async def auth_required(
        self, prompt: str, schema: Json | None = None, timeout: float = 300.0
    ) -> Json:
        """Ask the user for credentials and return the message that answers, an A2A v1.0 Message.

        The task is AUTH_REQUIRED meanwhile, its streams stay open and this worker keeps it. Another
        attempt that asks the same finds the answer at hand.

        Raises:
            TimeoutError: no answer came within `timeout` seconds.
            RunOver: the run has ended.
        """
        said: Json = {
            "messageId": self.new_id("message"),
            "role": "ROLE_AGENT",
            "parts": [{"text": prompt}],
        }
        if schema is not None:
            said["metadata"] = {events.INPUT_SCHEMA: schema}
        async with asyncio.timeout(timeout):
            return await self._runtime.ask(said)

    async def emit(self, said: Emission) -> None:
        """Say anything that an agent can say.

        Raises:
            MalformedOutput: it can't stand in a log, or not at this point.
            RunOver: the run has ended.
        """
        if type(said) in FILES:
            said = await self._runtime.offloaded(said)
        if not self._runtime.emit(said):
            await self._runtime.room()

    def new_id(self, kind: str) -> str:
        """Return an id for a "call", say, or a "message": another attempt makes the same."""
        return self._runtime.new_id(kind)

    async def text(self, text: str, block: str = "", *, end: bool = False) -> None:
        """Say a piece of the answer (see `Text`)."""
        await self.emit(Text(text, block, end) if block or end else text)

    async def think(
        self, text: str, block: str = "", *, end: bool = False, encrypted: str = ""
    ) -> None:
        """Say a piece of the reasoning (see `Thinking`)."""
        await self.emit(Thinking(text, block, end, encrypted=encrypted))

    async def tool_call(self, name: str, arguments: Any, call_id: str = "") -> str:  # noqa: ANN401  # any JSON
        """Say that a tool is called, and return the call's id."""
        call_id = call_id or self.new_id("call")
        await self.emit(ToolCall(name, arguments, call_id))
        return call_id

    async def tool_arguments(
        self, call_id: str, delta: str, name: str = "", *, end: bool = False
    ) -> None:
        """Say a piece of a call's arguments (see `ToolArguments`)."""
        await self.emit(ToolArguments(call_id, delta, name, end))

    async def tool_result(self, call_id: str, content: Any, error: str = "") -> None:  # noqa: ANN401  # any JSON
        """Say what a tool answered."""
        await self.emit(ToolResult(call_id, content, error))

    async def call(self, tool: Callee, /, **arguments: Any) -> Any:  # noqa: ANN401  # any JSON
        """Call a tool (see `tool`), saying so, and return what it answers.

        Raises:
            ToolError: it could not, which the log says too.
        """
        call_id = await self.tool_call(tool.name, arguments)
        answer = await tool.answer(self, arguments)
        await self.tool_result(call_id, answer.content, answer.error)
        if answer.error:
            raise ToolError(answer.error)
        return answer.content

    async def file(self, name: str, content: bytes, media_type: str = "") -> None:
        """Say that a file is part of the result."""
        await self.emit(File(name, content, media_type))

    async def data(self, data: Any, name: str = "") -> None:  # noqa: ANN401  # any JSON
        """Say that structured data is part of the result."""
        await self.emit(Data(data, name))

    async def status(self, text: str) -> None:
        """Say how the work goes."""
        await self.emit(Status(text))

    async def set_state(self, state: Any) -> None:  # noqa: ANN401  # any JSON
        """Say what the shared state is, as a whole."""
        await self.emit(State(state))

    async def change_state(self, patch: Sequence[Json]) -> None:
        """Say how the shared state changes, all of the patch or nothing (see `StateDelta`)."""
        await self.emit(StateDelta(patch))

    async def messages(self, messages: Sequence[Json]) -> None:
        """Say what the conversation is, as a whole (see `Messages`)."""
        await self.emit(Messages(messages))

    async def activity(self, kind: str, content: Json, activity_id: str = "") -> str:
        """Show structured content, and return the activity's id (see `Activity`)."""
        activity_id = activity_id or self.new_id("activity")
        await self.emit(Activity(kind, content, activity_id))
        return activity_id

    async def change_activity(self, activity_id: str, patch: Sequence[Json]) -> None:
        """Change what an activity shows (see `ActivityDelta`)."""
        await self.emit(ActivityDelta(activity_id, patch))

    async def step(self, name: str, *, finished: bool = False) -> None:
        """Say that a step begins, or ends."""
        await self.emit(Step(name, finished))

    async def subagent(self, subagent: Subagent) -> None:
        """Say that another agent of the same process goes on with the task, or ends."""
        await self.emit(subagent)

    async def usage(self, usage: Usage) -> None:
        """Say what a model has used."""
        await self.emit(usage)

    async def custom(self, name: str, value: Any = None) -> None:  # noqa: ANN401  # any JSON
        """Say an event of the agent's own making."""
        await self.emit(Custom(name, value))

    async def raw(self, event: Any, source: str = "") -> None:  # noqa: ANN401  # any JSON
        """Hand on an event of another system."""
        await self.emit(Raw(event, source))

    async def delegate(  # by keyword
        self,
        agent: str | Named,
        message: str | Json,
        key: str | None = None,
        *,
        relay: bool = True,
        timeout: float | None = None,
        budget: int | None = None,
    ) -> Result:
        """Ask another agent, by its name or as an `Agent`, and return its answer.

        Another attempt of this run that asks the same, or under the same `key`, meets the same
        child instead of starting a second one; the order does not matter. While the agent waits,
        its place on the worker is others'. With `relay` the child's progress is shown in this
        task's stream. The child ends within `timeout` seconds, and before this run does; it may
        use `budget` tokens. Cancelled while it waits, the child is canceled.

        Raises:
            DelegationFailed: it failed, was rejected, canceled or too slow.
            DelegationRefused: a limit forbids it, or there is no such agent.
            RunOver: this run has ended.
        """
        return await self._runtime.delegate(
            agent, message, key, relay=relay, timeout=timeout, budget=budget
        )

    def delegate_stream(  # by keyword
        self,
        agent: str | Named,
        message: str | Json,
        key: str | None = None,
        *,
        relay: bool = True,
        timeout: float | None = None,
        budget: int | None = None,
    ) -> Delegation:
        """Ask another agent and return its events, to be gone through with ``async for``.

        Everything else is as with `delegate`. The result is there behind the last event.

        Raises:
            DelegationRefused, RunOver: as `delegate`.
        """
        return self._runtime.delegate_stream(
            agent, message, key, relay=relay, timeout=timeout, budget=budget
        )

    async def answer(
        self,
        result: Result | None = None,
        message: str | Json | None = None,
        *,
        relay: bool = True,
        timeout: float | None = None,
    ) -> Result:
        """Answer a child that waits for input, and return what it comes to.

        Without a `result` it is the child whose question the run before has asked its user
        (`Result.ask_user`), without a `message` it is answered with this run's.

        Raises:
            DelegationFailed, DelegationRefused, RunOver: as `delegate`; refused as ``not_waiting``
                where no child waits.
        """
        said = self.message if message is None else message
        return await self._runtime.answer(result, said, relay=relay, timeout=timeout)

    @property
    def tokens_left(self) -> int | None:
        """Tokens that this run may still use, its children included; None: nobody counts."""
        return self._runtime.tokens_left


class _TaskLog(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:  # noqa: ANN401  # logging's signature
        return f"task {(self.extra or {}).get('task')}: {msg}", kwargs


def runtime_of(ctx: RunContext) -> Runtime:
    """Return what stands behind `ctx`: for adapters, which do more than authors may."""
    return ctx._runtime  # noqa: SLF001  # the one way to it
