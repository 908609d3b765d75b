"""Log lines: one record is one line, whatever text it contains, as text or as JSON.

Text from clients, agents and webhooks may contain line breaks that fake lines, terminal control
sequences, or megabytes. This module escapes and truncates it for every logger of the process.
"""

import json
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock, Timer
from types import TracebackType
from typing import Any, TextIO, override

from headrace import log_context
from headrace.log_context import LogContext
from headrace.model.events import timestamp

LONGEST = 4096
"""Maximum length of a line's message in characters."""

_LONGEST_TRACE = 65_536
_TEXT = "%(asctime)s %(levelname)-7s %(message)s"
_BARE = "%(message)s"

_AUDIT = "audit"
"""Attribute of a record: its fields in the audit log."""

_log = logging.getLogger(__name__)

type _Exception = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How a process logs."""

    level: str = "info"
    is_json: bool = False
    lines_per_minute: int = 0
    """Lines per minute from one place in the code; 0: unlimited."""
    service: str = "headrace"
    """Name of the service in JSON lines."""


class LineFormatter(logging.Formatter):
    """Formats records as lines. A traceback keeps its lines, each indented."""

    @override
    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = escaped(cut(record.message, LONGEST))
        return super().formatMessage(record)

    @override
    def formatException(self, ei: _Exception) -> str:
        # Indented, so that no line of an exception's text looks like a line of the log.
        return "\n".join(f"  {escaped(line)}" for line in _trace(ei).split("\n"))


class JsonFormatter(logging.Formatter):
    """Formats records as JSON objects, each one line, with its traceback inside."""

    def __init__(self, service: str) -> None:
        """Format lines of the service with this name."""
        super().__init__()
        self._service = service

    @override
    def format(self, record: logging.LogRecord) -> str:
        return _one_line(dict(self._fields(record)))

    def _fields(self, record: logging.LogRecord) -> Iterator[tuple[str, object]]:
        at = datetime.fromtimestamp(record.created, UTC)
        yield "time", timestamp(at)
        yield "level", record.levelname.lower()
        yield "service", self._service
        yield "logger", record.name
        yield "message", cut(record.getMessage(), LONGEST)
        yield from _context(record).fields().items()
        yield from getattr(record, _AUDIT, {}).items()
        if left_out := getattr(record, "left_out", 0):
            yield "left_out", left_out
        if record.exc_info and record.exc_info[0]:
            yield "exception", _trace(record.exc_info)


class _LineHandler(logging.StreamHandler[TextIO]):
    """Writes lines to stderr, and what the limit left out when the process ends."""

    def __init__(self, formatter: logging.Formatter, lines_per_minute: int = 0) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._limit = RepeatLimit(lines_per_minute, self.handle) if lines_per_minute else None
        if self._limit is not None:
            self.addFilter(self._limit)

    @override
    def close(self) -> None:
        if self._limit is not None:
            self._limit.flush()
        super().close()


def configure(options: LogOptions) -> None:
    """Configure the process to log lines to stderr, uncaught exceptions and warnings included."""
    formatter = JsonFormatter(options.service) if options.is_json else LineFormatter(_TEXT)
    _configure(options.level, _LineHandler(formatter, options.lines_per_minute))
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_uncaught_in_thread


def configure_bare(*, is_json: bool) -> None:
    """Configure a process whose settings are invalid: warnings and errors, in text without time."""
    formatter = JsonFormatter("headrace") if is_json else LineFormatter(_BARE)
    _configure("warning", _LineHandler(formatter))


def set_level(level: str) -> None:
    """Log at `level` from now on; the line about it is written at any level."""
    root, new = logging.getLogger(), logging.getLevelNamesMapping()[level.upper()]
    root.setLevel(min(root.level, new, logging.INFO))
    _log.info("log level: %s", level)
    root.setLevel(new)


def switch_level(configured: str) -> None:
    """Switch between the level `configured` and debug (info, where debug is configured)."""
    root, usual = logging.getLogger(), logging.getLevelNamesMapping()[configured.upper()]
    other = logging.INFO if usual == logging.DEBUG else logging.DEBUG
    new = usual if root.level == other else other
    set_level(logging.getLevelName(new).lower())


def audit_fields(**fields: str) -> dict[str, dict[str, str]]:
    """Return the ``extra`` of a line of the audit log."""
    return {_AUDIT: fields}


def escaped(text: str) -> str:
    """Return `text` with all non-printable characters escaped."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def cut(text: str, longest: int) -> str:
    """Return at most `longest` characters of `text`, with the number of omitted ones."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… ({len(text) - longest} characters more)"


def _configure(level: str, handler: logging.Handler) -> None:
    logging.basicConfig(level=level.upper(), handlers=[handler])


def _context(record: logging.LogRecord) -> LogContext:
    own = getattr(record, "context", None)
    return own if isinstance(own, LogContext) else log_context.current()


def _trace(ei: _Exception) -> str:
    return cut("".join(traceback.format_exception(*ei)).rstrip("\n"), _LONGEST_TRACE)


def _one_line(fields: dict[str, object]) -> str:
    line = json.dumps(fields, ensure_ascii=False)
    # JSON may contain characters that end lines, move a cursor, or can't be encoded.
    return line if line.isprintable() else json.dumps(fields).replace("\x7f", "\\u007f")


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    _log.critical("the process ends with an unexpected error", exc_info=(kind, error, trace))


def _log_uncaught_in_thread(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is None or isinstance(failed.exc_value, SystemExit):
        return
    name = failed.thread.name if failed.thread else "?"
    _log.critical("thread %s ends with an unexpected error", name, exc_info=failed.exc_value)


WINDOW = 60.0
"""Seconds for which lines are counted."""

_LIMITED = ("headrace", "uvicorn", "grpc")
"""How the names of limited loggers begin."""

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
    and those of agents and libraries, are not limited, except those of the HTTP and gRPC servers:
    anybody can cause them.
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
        and record.name.startswith(_LIMITED)
        and not getattr(record, "is_unlimited", False)
    )
