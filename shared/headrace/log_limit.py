"""The limit on repeated log lines, so that an outage is a few lines and a number, not thousands."""

import logging
import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from threading import Lock, Timer
from typing import Any, override

from headrace.log_context import LogContext

WINDOW = 60.0
"""Seconds for which lines are counted."""

UNLIMITED = {"is_unlimited": True}
"""The ``extra`` of lines that are never left out."""

type _Place = tuple[str, int]
"""File and line number of the code that logs."""


@dataclass(slots=True)
class _Window:
    ends: float
    lines: int = 0
    left_out: int = 0
    last: logging.LogRecord | None = None


class RepeatLimit(logging.Filter):
    """Lets through a number of lines per minute from each place in Headrace's code.

    The lines left out are counted, and reported at the end of the minute as one line. Debug lines,
    and those of agents and libraries, are not limited.
    """

    def __init__(
        self,
        per_minute: int,
        report: Callable[[logging.LogRecord], Any],
        clock: Callable[[], float] = time.monotonic,
        window: float = WINDOW,
    ) -> None:
        """Let through `per_minute` lines of each place; `report` writes the lines with counts.

        Lines are counted for `window` seconds of `clock`.
        """
        super().__init__()
        self._per_minute, self._report = per_minute, report
        self._clock, self._window = clock, window
        self._windows: dict[_Place, _Window] = {}
        self._lock = Lock()  # workers also log from their heartbeat thread

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        if not _is_limited(record):
            return True
        place = (record.pathname, record.lineno)
        with self._lock:
            now = self._clock()
            window, ended = self._windows.get(place), None
            if window is None or now >= window.ends:
                window, ended = _Window(now + self._window), window
                self._windows[place] = window
            window.lines += 1
            is_left_out = window.lines > self._per_minute
            if is_left_out:
                window.left_out, window.last = window.left_out + 1, record
                if window.left_out == 1:
                    self._end_later(place, window, window.ends - now)
        self._report_left_out(ended)
        return not is_left_out

    def flush(self) -> None:
        """Report all lines that have been left out so far."""
        with self._lock:
            ended, self._windows = self._windows, {}
        for window in ended.values():
            self._report_left_out(window)

    def _end_later(self, place: _Place, window: _Window, seconds: float) -> None:
        timer = Timer(seconds, self._end, (place, window))
        timer.daemon = True
        timer.start()

    def _end(self, place: _Place, window: _Window) -> None:
        with self._lock:
            if self._windows.get(place) is not window:
                return
            del self._windows[place]
        self._report_left_out(window)

    def _report_left_out(self, window: _Window | None) -> None:
        # Not under the lock: the handler that writes the line has one of its own.
        if window is None or window.last is None:
            return
        line = copy(window.last)
        line.msg = f"left out {window.left_out} more lines like: {line.getMessage()}"
        line.args, line.exc_info, line.exc_text = None, None, None
        line.created = time.time()
        line.__dict__ |= {"left_out": window.left_out, "context": LogContext(), **UNLIMITED}
        self._report(line)


def _is_limited(record: logging.LogRecord) -> bool:
    return (
        record.levelno > logging.DEBUG
        and record.name.startswith("headrace")
        and not getattr(record, "is_unlimited", False)
    )
