"""What blocks a worker's event loop: the agent, the line, and what to write instead."""

import linecache
import sys
from collections.abc import Iterator
from types import FrameType

from headrace.sdk import drive
from headrace.sdk.source import is_of_author, place_of

_SLEEPS = "time.sleep("


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
