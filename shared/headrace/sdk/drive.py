"""The call of an agent's function: its output goes to the runtime of its context."""

import inspect
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from types import FrameType
from typing import Any, Protocol

from headrace.sdk import unawaited
from headrace.sdk.active_run import ACTIVE
from headrace.sdk.context import RunContext, runtime_of
from headrace.sdk.emit import FILES, Emission
from headrace.sdk.errors import (
    AgentExited,
    AgentReadTerminal,
    CallNotAwaited,
    MalformedOutput,
    Misused,
)
from headrace.sdk.source import declared_at, imported_at, raised_at, stopped_at
from headrace.sdk.threads import is_async

_NO_INPUT = ("EOF when reading a line",)
"""Arguments of the EOFError of `input`; those of other readers differ."""


class RunnableAgent(Protocol):
    """An agent, as it is called here."""

    @property
    def name(self) -> str:
        """See `Agent.name`."""

    @property
    def function(self) -> object:
        """See `Agent.function`."""

    @property
    def interceptors(self) -> Sequence[Callable[[RunContext], AbstractAsyncContextManager[object]]]:
        """See `Agent.interceptors`."""

    @property
    def streams(self) -> bool:
        """See `Agent.streams`."""

    def streaming(self, ctx: RunContext) -> AsyncGenerator[Emission]:
        """See `Agent.streaming`."""

    def returning(self, ctx: RunContext) -> Coroutine[Any, Any, Emission | None]:
        """See `Agent.returning`."""


async def drive(agent: RunnableAgent, ctx: RunContext) -> None:
    """Run `agent` within its interceptors until its function ends.

    Raises:
        MalformedOutput: the agent's output is invalid.
        AgentExited: the agent called `sys.exit`, or raised KeyboardInterrupt.
        AgentReadTerminal: the agent called `input`.
        CallNotAwaited: the agent called a method of `ctx` without await.
        Misused: an interceptor returns no async context manager.
        Exception: any other error of the agent.
    """
    ACTIVE.set(ctx)
    not_awaited = unawaited.watch(ctx)
    try:
        if agent.interceptors:
            await _within_interceptors(agent, ctx)
        else:
            await _function_of(agent, ctx)
    except (SystemExit, KeyboardInterrupt) as exit_:
        # Either would end the event loop, and with it the worker and all its runs.
        why = f"raised {type(exit_).__name__}; only its run ends: return, or raise an Exception"
        raise AgentExited(_message(agent, why, exit_)) from exit_
    except (AttributeError, TypeError) as error:
        # `ctx.history()[0]`: the missing await is the error.
        if "coroutine" not in str(error):
            raise
        method = not_awaited[0].method if not_awaited else unawaited.failed_at(ctx, error)
        if not method:
            raise
        call = unawaited.LostCall(method, raised_at(agent.function, error.__traceback__))
        raise CallNotAwaited(f"agent {agent.name!r} {_needs_await(agent, call)}") from error
    except EOFError as error:
        if error.args != _NO_INPUT:
            raise
        sys.stdout.write("\n")  # the prompt of `input` has none
        why = "called input(), but a worker has no terminal; yield InputRequired('…')"
        raise AgentReadTerminal(_message(agent, why, error)) from error
    finally:
        unawaited.forget(ctx)
    if not_awaited:
        raise CallNotAwaited(f"agent {agent.name!r} {_needs_await(agent, not_awaited[0])}")


def _function_of(agent: RunnableAgent, ctx: RunContext) -> Coroutine[Any, Any, None]:
    return _stream(agent, ctx) if agent.streams else _call(agent, ctx)


async def _within_interceptors(agent: RunnableAgent, ctx: RunContext) -> None:
    # Apart, because the stack of each waiting run would take 800 bytes, mostly for nothing.
    async with AsyncExitStack() as stack:
        for interceptor in agent.interceptors:
            await stack.enter_async_context(_intercepting(agent, interceptor, ctx))
        await _function_of(agent, ctx)


def _intercepting(
    agent: RunnableAgent,
    interceptor: Callable[[RunContext], AbstractAsyncContextManager[object]],
    ctx: RunContext,
) -> AbstractAsyncContextManager[object]:
    entered: object = interceptor(ctx)
    if isinstance(entered, AbstractAsyncContextManager):
        return entered
    if inspect.iscoroutine(entered):
        entered.close()
    raise Misused(
        f"an interceptor of agent {agent.name!r} must return an async context manager, not"
        f" {type(entered).__name__}: write @contextlib.asynccontextmanager above it"
        f"{declared_at(interceptor)}"
    )


def _needs_await(agent: RunnableAgent, call: unawaited.LostCall) -> str:
    method, place = f"ctx.{call.method}", call.place or declared_at(agent.function)
    function = inspect.unwrap(agent.function) if callable(agent.function) else None
    if function is not None and not is_async(function):
        return f"called {method}(), which needs await: declare it with async def{place}"
    return f"called {method}() without await, so it did nothing; await {method}(…){place}"


async def _stream(agent: RunnableAgent, ctx: RunContext) -> None:
    runtime = runtime_of(ctx)
    accepts = runtime.output
    emit = accepts.emit
    async with aclosing(agent.streaming(ctx)) as stream:
        try:
            async for output in stream:
                if type(output) in FILES:
                    output = await runtime.files.offloaded(output)  # noqa: PLW2901  # the same, as the log takes it
                if not emit(output):
                    await accepts.drain()
        except MalformedOutput as error:
            raise _located(agent, error, _frame_of(stream)) from error


async def _call(agent: RunnableAgent, ctx: RunContext) -> None:
    try:
        output = await agent.returning(ctx)
        if output is not None:
            await ctx.emit(output)
    except MalformedOutput as error:
        raise _located(agent, error, None) from error


def _frame_of(stream: AsyncGenerator[Emission]) -> FrameType | None:
    frame: FrameType | None = getattr(stream, "ag_frame", None)
    # The generator of a function that runs in a thread.
    inner = frame.f_locals.get("generator") if frame is not None else None
    return getattr(inner, "gi_frame", frame)


def _message(agent: RunnableAgent, why: str, error: BaseException) -> str:
    trace = error.__traceback__
    return f"agent {agent.name!r} {why}{imported_at(trace) or raised_at(agent.function, trace)}"


def _located(
    agent: RunnableAgent, error: MalformedOutput, frame: FrameType | None
) -> MalformedOutput:
    """Return the error with the agent's name and line; `frame` is a stopped generator's."""
    function = agent.function
    if frame is not None:
        place = stopped_at(function, frame.f_lineno)
    else:
        place = raised_at(function, error.__traceback__)
    return MalformedOutput(f"agent {agent.name!r}: {error}{place}")


CALLS = frozenset({_stream.__code__, _call.__code__})
"""Code whose frames stand between an agent and its worker; their `agent` is the agent."""
