"""Whether a worker's event loop runs, and what blocks it: the agent, the line, and the remedy."""

import linecache
import logging
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

from headrace.sdk import drive
from headrace.sdk.source import is_of_author, place_of

_log = logging.getLogger(__name__)

BLOCKED = 2.0
"""Seconds after which a loop that does not run is logged."""

_SLEEPS = "time.sleep("


class LoopHealth:
    """Whether a loop runs, as another thread sees it."""

    def __init__(self) -> None:
        """Begin with the loop of the calling thread, which runs."""
        self._thread = threading.get_ident()
        self._last_turn = time.monotonic()
        self._is_blocked = False

    def note_turn(self) -> None:
        """Record that the loop is running; call this on it."""
        self._last_turn = time.monotonic()

    @property
    def silence(self) -> float:
        """Seconds since the loop last ran."""
        return time.monotonic() - self._last_turn

    def watch(self) -> bool:
        """Return whether the loop is blocked; log it once, with what blocks it, and its end."""
        silence, was_blocked = self.silence, self._is_blocked
        self._is_blocked = silence >= BLOCKED
        if self._is_blocked and not was_blocked:
            agent, where = what_blocks(self._thread)
            if agent:
                _log.warning("%s has blocked the event loop for %.1f s%s", agent, silence, where)
            else:
                _log.warning("the event loop has not run for %.1f s", silence)
        elif was_blocked and not self._is_blocked:
            _log.warning("the event loop is running again")
        return self._is_blocked


def what_blocks(thread: int) -> tuple[str, str]:
    """Return the agent whose code the loop's thread runs, and where and what to do about it.

    Both are empty if it runs no author's code: a process that gets no processor time is no agent's
    doing. Called on another thread while the loop is blocked.
    """
    line = ""
    for frame in _frames(thread):
        if frame.f_globals.get("__name__") == "headrace.service":
            break  # What follows has started this worker.
        if not line and is_of_author(frame):
            line = _advice(frame)
        if frame.f_code in drive.CALLS:
            return f"agent {frame.f_locals['agent'].name!r}", line
    return "an agent" if line else "", line


def _frames(thread: int) -> Iterator[FrameType]:
    """Yield what `thread` runs, the innermost first."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001  # documented, though named so
    while frame is not None:
        yield frame
        frame = frame.f_back


def _advice(frame: FrameType) -> str:
    file, number = frame.f_code.co_filename, frame.f_lineno
    source = linecache.getline(file, number).strip()
    if _SLEEPS in source:
        remedy = "await asyncio.sleep(…)"
    else:
        remedy = "await asyncio.to_thread(function, …)"
    return f"{place_of(frame)}: `{source}`; write {remedy} instead"
