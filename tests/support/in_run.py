"""Code that runs as an agent's does, with a memory of the test's choice."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from headrace.sdk.active_run import ACTIVE
from headrace.sdk.context import RunContext
from headrace.sdk.direct_run import DirectRun
from headrace.sdk.runtime import RunMemory


@contextmanager
def in_run(memory: RunMemory) -> Iterator[RunContext]:
    """Let the block be part of a run with this memory."""
    runtime: Any = SimpleNamespace(loop=asyncio.get_running_loop(), memory=memory)
    ctx = replace(DirectRun("any", "hi").context, _runtime=cast("Any", runtime))
    before = ACTIVE.set(ctx)
    try:
        yield ctx
    finally:
        ACTIVE.reset(before)
