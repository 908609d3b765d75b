"""The memory of the run that a graph works for, as LangGraph's saver and store reach it."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate

from headrace.sdk.active_run import required_run
from headrace.sdk.context import runtime_of
from headrace.sdk.errors import Misused
from headrace.sdk.runtime import RunMemory, Runtime, running_loop


def run_memory(user: object) -> RunMemory:
    """Return the memory of the run that the running code works for, for an async method of `user`.

    Raises:
        Misused: There is no run, or the code is not in the worker's event loop.
    """
    runtime = _runtime(user)
    if runtime.loop is not None and running_loop() is not runtime.loop:
        raise Misused(
            f"{_name(user)}'s async methods work in the worker's event loop: await them there, or"
            " call the blocking ones in a thread"
        )
    return runtime.memory


def from_thread[Result](user: object, work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of `work`, which the worker's event loop does for a method of `user`.

    Raises:
        Misused: There is no run, or the caller is in that loop, which would wait for itself.
    """
    try:
        loop = _loop(user)
    except Misused:
        work.close()
        raise
    return asyncio.run_coroutine_threadsafe(work, loop).result()


def blocking[**Parameters, Result](
    method: Callable[Concatenate[Any, Parameters], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Any, Parameters], Result]:
    """Return an async method as one to call in a thread; see `from_thread`."""

    @wraps(method)
    def call(user: Any, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:  # noqa: ANN401  # the method's class
        return from_thread(user, method(user, *args, **kwargs))

    return call


def _loop(user: object) -> asyncio.AbstractEventLoop:
    loop = _runtime(user).loop
    if loop is None or running_loop() is loop:
        raise Misused(
            f"{_name(user)}'s blocking methods would block the worker: await the async ones, such"
            " as graph.ainvoke"
        )
    return loop


def _runtime(user: object) -> Runtime:
    return runtime_of(required_run(_name(user)))


def _name(user: object) -> str:
    return type(user).__name__
