"""Signals that end a command: its coroutine's wait ends, and what it made is removed.

A signal is handled once the main thread runs Python code. It ends a wait for sockets that has
begun, but not one that begins just after it. asyncio's handler of Ctrl-C does not wake the loop
then: the command would go on waiting until something comes from the gateway.
"""

import asyncio
import signal
import socket
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_OF_SIGNAL = 128
"""What a shell adds to a signal's number for the exit code of a command that it ended."""


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


@contextmanager
def ended_by_exceptions() -> Iterator[None]:
    """Have SIGTERM and a closed terminal end the command as Ctrl-C does, so that it cleans up."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread handles signals.
        return
    ends = (signal.SIGTERM, signal.SIGHUP)
    # `nohup` ignores SIGHUP, and that stays so.
    before = {one: signal.getsignal(one) for one in ends if signal.getsignal(one) is signal.SIG_DFL}
    for one in before:
        signal.signal(one, _exit)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _exit(number: int, _: FrameType | None) -> None:
    sys.exit(_OF_SIGNAL + number)
