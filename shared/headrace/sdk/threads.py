"""Agents that are not async: their functions run in threads, one for each run.

A run keeps its thread from its first to its last output, for what must not change threads, such as
connections to databases. A worker's concurrency therefore bounds the number of threads.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from headrace.sdk.context import RunContext
    from headrace.sdk.emit import Emission

type BlockingGenerator = Callable[["RunContext"], Iterator["Emission"]]
"""A generator function: it yields its output."""

type BlockingFunction = Callable[["RunContext"], "Emission | None"]
"""A function: it may return one emission."""

_END = object()


class _ContextThread:
    """One thread, with the caller's context variables."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, name)
        self._context = copy_context()

    async def call(self, function: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401
        call = partial(self._context.run, function, *arguments)
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def end(self) -> None:
        """End the thread once the call in progress has returned."""
        self._executor.shutdown(wait=False)


def is_async(function: Callable[..., object]) -> bool:
    """Return whether `function` is an async generator function or a coroutine function."""
    return inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(function)


def in_thread(function: BlockingGenerator | BlockingFunction) -> Callable[["RunContext"], Any]:
    """Return an async function that calls `function` in a thread."""
    if inspect.isgeneratorfunction(function):
        return _streaming(function)
    return _returning(cast("BlockingFunction", function))


def _streaming(function: BlockingGenerator) -> "Callable[[RunContext], AsyncIterator[Emission]]":
    @wraps(function)
    async def stream(ctx: "RunContext") -> "AsyncIterator[Emission]":
        thread, generator = _ContextThread(ctx.agent), function(ctx)
        try:
            while (output := await thread.call(next, generator, _END)) is not _END:
                yield output
        finally:
            # After the step in progress, if the run was stopped during one.
            try:
                await thread.call(generator.close)  # type: ignore[attr-defined]
            finally:
                thread.end()

    return stream


def _returning(function: BlockingFunction) -> "Callable[[RunContext], Any]":
    @wraps(function)
    async def call(ctx: "RunContext") -> "Emission | None":
        thread = _ContextThread(ctx.agent)
        try:
            return cast("Emission | None", await thread.call(function, ctx))
        finally:
            thread.end()

    return call
