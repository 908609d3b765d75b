"""Running a command's coroutine so that Ctrl-C always ends its wait.

A signal is handled once the main thread runs Python code. It ends a wait for sockets that has
begun, but not one that begins just after it. asyncio's handler of Ctrl-C does not wake the loop
then: the command would go on waiting until something comes from the gateway.
"""

import asyncio
import signal
import socket
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any


def run[Result](work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of `work` as `asyncio.run` does.

    Raises:
        KeyboardInterrupt: Ctrl-C; `work` was cancelled.
    """
    return asyncio.run(_awake(work))


async def _awake[Result](work: Coroutine[Any, Any, Result]) -> Result:
    with _woken_by_signals(asyncio.get_running_loop()):
        return await work


@contextmanager
def _woken_by_signals(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Make each signal readable on a socket of the loop, so that it does not go on waiting."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread handles signals.
        return
    ours, pythons = socket.socketpair()
    with ours, pythons:
        pythons.settimeout(0)
        loop.add_reader(ours, ours.recv, 64)
        before = signal.set_wakeup_fd(pythons.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(ours)
