"""Calls of functions that are not async: tools and steps."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any

_CALLS = ThreadPoolExecutor(10_000, "call")
"""For functions that are not async. asyncio's own pool has only a few threads and also resolves
host names, so blocking functions would delay new connections and each other.

Its size is the greatest concurrency of a worker. A thread is started only if none is idle, so the
concurrency of runs bounds the threads, and no function waits for another run's."""


async def call_in_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # the function's own
    """Call `function` in a thread, with the caller's context variables, and return its result."""
    call = partial(copy_context().run, function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_CALLS, call)
