"""The context of a run: its input, its identity, and methods that emit output."""

import asyncio
import logging
import sys
from base64 import b64decode
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from random import Random
from typing import Any, Self, overload
from uuid import UUID, uuid5

from headrace import clock
from headrace.model import events, parts
from headrace.model.a2ui import CLIENT_DATA
from headrace.model.events import ACCEPTED_MODES, AGUI, EXTENSIONS, Json
from headrace.model.run_ids import with_own_calls
from headrace.model.task import TaskKey
from headrace.sdk.emit import FILES, Emission, ToolCall, ToolResult
from headrace.sdk.errors import CalledInOtherLoop, Misused
from headrace.sdk.memory import Memory
from headrace.sdk.policy import Retry
from headrace.sdk.results import Delegation, DelegationRequest, HasName, Result
from headrace.sdk.runtime import STOPS, Runtime, running_loop
from headrace.sdk.signals import Activity, SurfaceAction
from headrace.sdk.source import called_at
from headrace.sdk.step_call import StepCall
from headrace.sdk.step_ids import step_scope
from headrace.sdk.tool_call import Callee, ToolError, ToolOutput
from headrace.sdk.waits import WaitEvent, WaitSource, Webhook, check_sources, seconds_of

_UUIDS = UUID("0f4cbb3e-58a4-5d6c-8c5e-2f1b7c5f9a46")
"""Namespace of `RunContext.uuid`."""

_LONGEST_SLEEP = timedelta(days=365)


class Inbox:
    """New messages for a steered agent, without end: ``async for message in ctx.inbox``.

    Each is an A2A v1.0 Message, such as ``{"messageId": "…", "role": "ROLE_USER", "parts":
    [{"text": "…"}]}``. A message that is read becomes part of the task's history. A message that is
    not read becomes the next run's input.
    """

    def __init__(self, ctx: "RunContext") -> None:
        """Read the messages for the run of `ctx`."""
        self._ctx = ctx

    def __bool__(self) -> bool:
        """Return whether a message is available."""
        return runtime_of(self._ctx).inputs.has_message

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Json:
        """Wait for the next message and return it."""
        return await self._ctx._awaited.inputs.next_message()  # noqa: SLF001  # of this module


@dataclass(frozen=True)
class RunContext:
    """One attempt at a run, as passed to the agent.

    A generator agent yields its output; any agent, and any function that it calls, can pass the
    same objects to `emit`. Methods that emit wait while the agent is too far ahead of the log. They
    raise `MalformedOutput` for invalid output, and `RunOver` once the run has ended.
    """

    key: TaskKey
    """Tenant, agent and id of the task."""
    context: str
    """Id of the conversation: A2A's contextId, AG-UI's threadId."""
    owner: str
    """Owner of the task, as a subject token."""
    run: int
    """Generation of the input that this run answers; 1 for the first run."""
    attempt: int
    """Number of this attempt at the run, from 1."""
    message: Json
    """The input: an A2A v1.0 Message in ProtoJSON, such as ``{"messageId": "…", "role":
    "ROLE_USER", "parts": [{"text": "Hi"}]}``."""
    metadata: Json
    """Metadata of the input, by key. `agui`, `extensions` and `accepted_output_modes` read it."""
    deadline: datetime | None
    """When the run is stopped, in UTC. None: the run has no time limit."""
    checkpoint_data: Any
    """The data that an earlier attempt saved with `checkpoint`. None: no checkpoint."""
    traceparent: str | None
    """W3C trace context: of the attempt's span if traces are exported, else of the request. None:
    the request had none."""
    _runtime: Runtime

    @property
    def _awaited(self) -> Runtime:
        """The runtime, for methods that wait: in another event loop they would do so forever."""
        loop = self._runtime.loop
        if loop is not None and running_loop() is not loop:
            raise CalledInOtherLoop(
                f"agent {self.agent!r} used ctx.{_method()} outside of the worker's event loop;"
                f" declare the function with async def, and await it there{called_at()}"
            )
        return self._runtime

    @property
    def task(self) -> str:
        """The task's id."""
        return self.key.task

    @property
    def tenant(self) -> str:
        """The tenant, as a subject token."""
        return self.key.tenant

    @property
    def agent(self) -> str:
        """The agent's name."""
        return self.key.agent

    @property
    def accepted_output_modes(self) -> Sequence[str]:
        """The media types that an A2A client accepts. Empty: not specified."""
        accepted: Sequence[str] = self.metadata.get(ACCEPTED_MODES) or ()
        return accepted

    @property
    def extensions(self) -> Sequence[str]:
        """URIs of the agent's own A2A extensions that the request activated."""
        activated: Sequence[str] = self.metadata.get(EXTENSIONS) or ()
        return activated

    @cached_property
    def agui(self) -> Json:
        """The AG-UI client's input as it was sent. Empty for other clients.

        Its keys include ``state``, ``tools``, ``context`` and ``forwardedProps``. In ``messages``,
        tool calls have the ids that the agent gave them; clients have longer ones.
        """
        sent: Json = self.metadata.get(AGUI) or {}
        if not sent.get("messages"):
            return sent
        return {**sent, "messages": with_own_calls(sent["messages"])}

    @property
    def is_stopped(self) -> bool:
        """Whether the run was stopped permanently: canceled, timed out or superseded by a message.

        For an agent's clean-up, which then ends the work that it started elsewhere for the run.
        False while the run is not stopped, and if it is stopped because another worker continues
        it.
        """
        return self._runtime.interrupted in STOPS

    @property
    def state(self) -> Any:  # noqa: ANN401  # any JSON
        """A copy of the current state shared with the user interface.

        `State` and `StateDelta` change it. Its initial value is the state that the AG-UI
        client sent with the run, or ``{}`` for other clients.
        """
        return self._runtime.output.state

    @property
    def memory(self) -> Memory:
        """What the agent remembers of the conversation, for all of its tasks.

        ``ctx.memory.of_task`` is the task's, ``ctx.memory.of_owner`` the owner's in all
        conversations.
        """
        store = self._awaited.memory
        return Memory(store, store.scope._replace(task=None))

    async def load_task(self) -> Json:
        """Return the task as it was when this attempt began, from the log: an A2A v1.0 Task.

        Raises:
            LogLost: The log is gone.
            BusUnavailable: The log does not answer.
        """
        return await self._awaited.past.task()

    async def load_events(self) -> list[tuple[int, Json]]:
        """Return the log's StreamResponses with their generations: ``[(1, {"task": …}), …]``.

        Raises:
            LogLost: The log is gone.
            BusUnavailable: The log does not answer.
        """
        return await self._awaited.past.events()

    async def history(self) -> Sequence[Json]:
        """Return the task's messages up to this input, from the log: A2A v1.0 Messages.

        Raises:
            LogLost: The log is gone.
            BusUnavailable: The log does not answer.
        """
        task = await self.load_task()
        messages: Sequence[Json] = task.get("history", [])
        return messages

    async def context_history(self) -> Sequence[Json]:
        """Return the conversation's other tasks, A2A v1.0 Tasks, least recently changed first.

        Raises:
            StateUnavailable: Task state does not answer.
        """
        return await self._awaited.past.context_tasks()

    @property
    def inbox(self) -> Inbox:
        """The messages that arrive during the run, for an agent with ``follow_ups="steer"``."""
        return Inbox(self)

    @property
    def parts(self) -> Sequence[Json]:
        """The message's A2A v1.0 Parts, such as ``[{"text": "Hi"}]``."""
        found: Sequence[Json] = self.message.get("parts", ())
        return found

    async def content(self, part: Json) -> bytes:
        """Return the content of a file Part of the task.

        Raises:
            FileUnknown: The part holds no file, or the file is gone, belongs to another
                conversation or is stored elsewhere. Fetch files stored elsewhere from their URL.
            BusUnavailable: The file store does not answer.
        """
        if (raw := part.get("raw")) is not None:
            return b64decode(raw)
        return await self._awaited.files.content(part.get("url", ""))

    @property
    def prompt(self) -> str:
        """The text of all the message's parts."""
        return parts.text_of(self.parts)

    @property
    def surface_action(self) -> SurfaceAction | None:
        """What the user has done on a surface, which began this run. None: something else did."""
        found = [action for part in self.parts for action in parts.surface_actions(part)]
        if not found:
            return None
        action = found[-1]
        name, surface, component = (
            str(action.get(member) or "") for member in ("name", "surfaceId", "sourceComponentId")
        )
        context = action.get("context")
        return SurfaceAction(name, surface, component, context if isinstance(context, dict) else {})

    @property
    def surface_data(self) -> Json:
        """The data of the client's surfaces that send it, by the surfaces' ids."""
        sent = (self.message.get("metadata") or {}).get(CLIENT_DATA)
        surfaces = sent.get("surfaces") if isinstance(sent, dict) else None
        return surfaces if isinstance(surfaces, dict) else {}

    @cached_property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger that adds the task's id to each line."""
        return _TaskLogger(logging.getLogger(f"headrace.agent.{self.agent}"), {"task": self.task})

    async def checkpoint(self, data: Any) -> None:  # noqa: ANN401  # any JSON
        """Save up to 8 KB of JSON with everything emitted so far, and wait until it is stored.

        If this attempt is killed, the next one gets the data as `checkpoint_data`. Output from
        before the checkpoint is kept, later output is discarded. A checkpoint ends every open
        block.

        Raises:
            MalformedOutput: The data is not JSON or is too large.
            RunOver: The run has ended.
        """
        await self._awaited.output.checkpoint(data)

    async def sleep(self, seconds: float) -> None:
        """Sleep for `seconds`, up to 365 days (see `sleep_until`).

        Raises:
            ValueError: The time is not a number, or is too long.
            RunOver: The run has ended.
        """
        # Also false for what is not a number.
        if not seconds <= _LONGEST_SLEEP.total_seconds():
            raise ValueError(f"can't sleep for {seconds} s: at most {_LONGEST_SLEEP.days} days")
        await self._sleep(clock.now() + timedelta(seconds=max(seconds, 0.0)))

    async def sleep_until(self, when: datetime) -> None:
        """Sleep until `when`, at most 365 days from now, without occupying a worker.

        The attempt ends here, and at that time another one begins, on any worker: it calls the
        agent again, with its `checkpoint_data`. A sleep that is over then returns at once, also if
        workers were killed meanwhile; sleeps are identified by their order. Concurrent
        work of the agent is stopped as well. The last seconds of a sleep are spent on the worker.

        Raises:
            ValueError: The time has no time zone, or is too far ahead.
            Misused: A step's function sleeps.
            RunOver: The run has ended.
        """
        if when.tzinfo is None:
            raise ValueError("the time to sleep until needs a time zone")
        now = clock.now()
        if when > now + _LONGEST_SLEEP:
            raise ValueError(f"can't sleep until {when}: at most {_LONGEST_SLEEP.days} days")
        # Times at the beginning of the calendar can't be converted to UTC.
        await self._sleep(max(when, now).astimezone(UTC))

    async def _sleep(self, until: datetime) -> None:
        left = await self._awaited.sleep(until)
        if left > 0:
            await asyncio.sleep(left)

    async def wait(
        self, *sources: WaitSource, timeout: float | timedelta | None = None
    ) -> WaitEvent:
        """Wait for an event of one of `sources`, without occupying a worker, and return it.

        As with `sleep_until`, the attempt ends here. When an event comes, another one begins, on
        any worker: it calls the agent again, and this wait then returns the event at once, as it
        does in each later attempt. A source's first event is kept from when it comes, also if the
        agent asks for it later; each wait for the source returns that one.

        Concurrent work of the agent is stopped as well, and waits at the same time
        (`asyncio.gather`) end one after the other. To go on with the first of several, pass them to
        one call.

        Args:
            sources: What to wait for.
            timeout: Seconds to wait, up to 365 days. None: 365 days.

        Raises:
            TimeoutError: No event came within `timeout`; it is recorded, too. The sources can be
                waited for again.
            ValueError: The timeout is not a positive number, or is too long.
            Misused: A step's function waits, or a source is invalid.
            RunOver: The run has ended.
        """
        check_sources(sources)
        until = clock.now() + timedelta(seconds=seconds_of(timeout))
        return WaitEvent.of(*await self._awaited.waits.wait(sources, until))

    async def webhook(self, name: str) -> str:
        """Return the URL whose first call is the event of ``ctx.wait(Webhook(name))``.

        It is the same in each attempt, needs no credentials, and is signed: only who has it can
        call it, with ``POST`` and a body of up to 256 KB. It is of this run, and ends with it.

        Raises:
            Misused: A step's function asks for it, or the worker's `HEADRACE_PUBLIC_URL` is unset.
            RunOver: The run has ended.
        """
        Webhook(name).check()
        return await self._awaited.waits.url_of(name)

    @overload
    async def step[T](
        self,
        name: str,
        function: Callable[..., Coroutine[Any, Any, T]],
        /,
        *args: Any,  # noqa: ANN401  # the function's
        key: str | None = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        returns: Any = None,  # noqa: ANN401  # a type
        interruptible: bool = False,
        record_errors: bool = False,
        **kwargs: Any,  # noqa: ANN401  # the function's
    ) -> T: ...

    @overload
    async def step[T](
        self,
        name: str,
        function: Callable[..., T],
        /,
        *args: Any,  # noqa: ANN401  # the function's
        key: str | None = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        returns: Any = None,  # noqa: ANN401  # a type
        interruptible: bool = False,
        record_errors: bool = False,
        **kwargs: Any,  # noqa: ANN401  # the function's
    ) -> T: ...

    async def step(  # noqa: PLR0913  # by keyword
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        key: str | None = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        returns: Any = None,
        interruptible: bool = False,
        record_errors: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Call ``function(*args, **kwargs)`` once in the run, and return its recorded result.

        The result is stored in the log before this method returns it. If another attempt asks for
        the step again, it gets the record, and the function is not called. A worker that is killed
        between the function's effect and its record leaves none: then the function is called again,
        with the same `idempotency_key` if it has a parameter of that name.

        The result is the one that JSON gives back: a tuple becomes a list, for example. If the
        function's return annotation, or `returns`, is a type that Pydantic knows, it is validated
        as that.

        The step is known by `name` and the number of that name's use in the run. Calls at the same
        time need names, or keys, of their own. A function that is not async runs in a thread. If
        the run is stopped meanwhile, the function goes on, and its result is recorded first.

        Args:
            name: The step's name, which user interfaces show.
            function: The function, async or not.
            args: The function's arguments.
            key: Names this use of the name, instead of its number.
            retry: When the function is called again in the same attempt. None: never.
            timeout: Maximum seconds of one call. A thread goes on after it.
            returns: Type of the result. None: the function's annotation.
            interruptible: Whether the function is cancelled if the run is stopped.
            record_errors: Whether the function's error is recorded as its result is. It is then
                raised as `StepFailed`, by this attempt as by others.
            kwargs: The function's keyword arguments.

        Raises:
            StepFailed: The function failed, and its error is recorded.
            StepChanged: The agent asks for other steps than the log has, or with other arguments.
            StepAmbiguous: Such a call is in progress.
            MalformedOutput: The result is not JSON, or does not fit its type.
            TimeoutError: The function took more than `timeout` seconds.
            RunOver: The run has ended.
        """
        call = StepCall(
            name=name,
            function=function,
            args=args,
            kwargs=kwargs,
            key=key,
            retry=retry,
            timeout=timeout,
            returns=returns,
            interruptible=interruptible,
            record_errors=record_errors,
        )
        return await self._awaited.steps.run(call)

    async def now(self, name: str = "now") -> datetime:
        """Return the time of day in UTC, the same in each attempt.

        It is recorded as a step is, in a message of its own, and shown nowhere. Calls at the same
        time need a `name` of their own. In a step's function it is the present time.
        """
        if step_scope() is not None:
            return clock.now()
        call = StepCall(name=f"ctx.now {name}", function=_time, is_shown=False)
        time: datetime = await self._awaited.steps.run(call)
        return time

    def random(self, name: str = "") -> Random:
        """Return a generator of random numbers, which gives the same ones in each attempt.

        Its seed is derived from the run and the number of the call, so it costs nothing, and is no
        secret. Calls of parallel code need a `name` of their own, as their order may change.
        """
        return Random(self._minted(f"random {name}"))  # noqa: S311  # as the docstring says

    def uuid(self, name: str = "") -> UUID:
        """Return a UUID, the same in each attempt; it is derived as `random` is, and no secret."""
        return uuid5(_UUIDS, self._minted(f"uuid {name}"))

    def _minted(self, kind: str) -> str:
        scope = step_scope()
        own = self.new_id(kind) if scope is None else scope.mint(kind)
        return f"{self.task}/{self.run}/{own}"

    async def auth_required(
        self, prompt: str, schema: Json | None = None, timeout: float = 300.0
    ) -> Json:
        """Ask the user for credentials and return the A2A v1.0 Message that answers.

        Meanwhile the task is AUTH_REQUIRED, its streams stay open and this worker keeps it. If
        another attempt asks the same, it gets the same answer.

        Args:
            prompt: Text that is shown to the user.
            schema: JSON Schema of the answer.
            timeout: Seconds to wait for the answer.

        Raises:
            TimeoutError: No answer came within `timeout` seconds.
            RunOver: The run has ended.
        """
        message: Json = {
            "messageId": self.new_id("message"),
            "role": "ROLE_AGENT",
            "parts": [{"text": prompt}],
        }
        if schema is not None:
            message["metadata"] = {events.INPUT_SCHEMA: schema}
        async with asyncio.timeout(timeout):
            return await self._awaited.inputs.ask(message)

    async def emit(self, output: Emission) -> None:
        """Emit any output: a string, or an output type such as `File` or `ToolResult`.

        `tool_call` and `activity` also return the id that they generate, and `call` calls a tool.

        Raises:
            MalformedOutput: The output is invalid, or is not allowed at this point.
            RunOver: The run has ended.
        """
        if type(output) in FILES:
            output = await self._awaited.files.offloaded(output)
        accepts = self._awaited.output
        if not accepts.emit(output):
            await accepts.drain()

    def new_id(self, kind: str) -> str:
        """Return a new id for a `kind` such as "call". Other attempts get the same ids."""
        return self._runtime.output.new_id(kind)

    async def tool_call(self, name: str, arguments: Any, call_id: str = "") -> str:  # noqa: ANN401  # any JSON
        """Emit a tool call and return its id."""
        call_id = call_id or self.new_id("call")
        await self.emit(ToolCall(name, arguments, call_id))
        return call_id

    async def call(self, tool: Callee, /, **arguments: Any) -> Any:  # noqa: ANN401  # any JSON
        """Call a tool (see `tool`), emit the call and its result, and return its content.

        Raises:
            ToolError: The tool failed. The log contains the error too.
        """
        if not isinstance(tool, Callee):
            raise Misused(
                f"ctx.call() needs a tool, not {type(tool).__name__}: declare its function with"
                f" @tool{called_at()}"
            )
        call_id = await self.tool_call(tool.name, arguments)
        output = await tool.call(self, arguments)
        if output.question is not None:
            output = ToolOutput(error=f"{tool.name} asks its user: {output.question.message}")
        await self.emit(ToolResult(call_id, output.content, output.error))
        if output.error:
            raise ToolError(output.error)
        return output.content

    async def activity(self, kind: str, content: Json, activity_id: str = "") -> str:
        """Show structured content, and return the activity's id (see `Activity`)."""
        activity_id = activity_id or self.new_id("activity")
        await self.emit(Activity(kind, content, activity_id))
        return activity_id

    async def delegate(  # by keyword
        self,
        agent: str | HasName,
        message: str | Json,
        key: str | None = None,
        *,
        relay: bool = True,
        timeout: float | None = None,
        budget: int | None = None,
    ) -> Result:
        """Send a message to another agent and return its answer.

        If another attempt of this run delegates the same again, or uses the same `key`, it gets the
        same child task instead of starting a second one. The order of calls does not matter. While
        this agent waits, other runs can use its permit on the worker. If this call is cancelled,
        the child task is canceled.

        Args:
            agent: Name of the other agent, or its `Agent`.
            message: Text, or an A2A v1.0 Message.
            key: Identifies the child task across attempts.
            relay: Whether the child's progress is shown in this task's stream.
            timeout: Seconds within which the child ends. It always ends before this run does.
            budget: Maximum number of tokens that the child may use.

        Raises:
            DelegationFailed: The child failed, was rejected or canceled, or timed out.
            DelegationRefused: A limit forbids the call, or the agent is unknown.
            RunOver: This run has ended.
        """
        request = DelegationRequest(agent, message, key, relay, timeout, budget)
        return await self._awaited.children.delegate(request)

    def delegate_stream(  # by keyword
        self,
        agent: str | HasName,
        message: str | Json,
        key: str | None = None,
        *,
        relay: bool = True,
        timeout: float | None = None,
        budget: int | None = None,
    ) -> Delegation:
        """Send a message to another agent and return its events, for ``async for``.

        Arguments and behaviour are those of `delegate`. The result is available after the last
        event.

        Raises:
            DelegationRefused, RunOver: As for `delegate`.
        """
        request = DelegationRequest(agent, message, key, relay, timeout, budget)
        return self._awaited.children.delegate_stream(request)

    async def reply(
        self,
        result: Result | None = None,
        message: str | Json | None = None,
        *,
        relay: bool = True,
        timeout: float | None = None,
    ) -> Result:
        """Reply to a child task that waits for input, and return its result.

        Args:
            result: The child's last result. Default: the child whose question the previous run
                passed to the user (`Result.ask_user`).
            message: The reply. Default: this run's message.
            relay: As for `delegate`.
            timeout: As for `delegate`.

        Raises:
            DelegationFailed, DelegationRefused, RunOver: As for `delegate`. Refused as
                ``not_waiting`` if no child waits for input.
        """
        if result is not None and not isinstance(result, Result):
            raise Misused(
                f"ctx.reply() needs the child's Result first, not {type(result).__name__}: write"
                f" ctx.reply(result, message), or ctx.reply(message=…){called_at()}"
            )
        reply = self.message if message is None else message
        return await self._awaited.children.reply(result, reply, relay=relay, timeout=timeout)

    @property
    def tokens_left(self) -> int | None:
        """Tokens that this run and its children may still use. None: no budget."""
        return self._runtime.children.tokens_left


async def _time() -> datetime:
    return clock.now()


def _method() -> str:
    """Return the public method of this module that the author's code has called."""
    frame, name = sys._getframe(2), ""  # noqa: SLF001  # as in `source`
    while frame.f_globals is globals() and frame.f_back is not None:
        name, frame = frame.f_code.co_name, frame.f_back
    return "inbox" if name == "__anext__" else name


class _TaskLogger(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:  # noqa: ANN401  # logging's signature
        return f"task {(self.extra or {}).get('task')}: {msg}", kwargs


def runtime_of(ctx: RunContext) -> Runtime:
    """Return the runtime of `ctx`, for adapters that need more than the public API."""
    return ctx._runtime  # noqa: SLF001  # the one way to it
