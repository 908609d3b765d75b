"""Log lines: one record is one line, whatever text it contains.

Text from clients, agents and webhooks may contain line breaks that fake lines, terminal control
sequences, or megabytes. This module escapes and truncates it for every logger of the process.
"""

import logging
import traceback
from types import TracebackType
from typing import override

LONGEST = 4096
"""Maximum length of a line's message in characters."""

_LONGEST_TRACE = 65_536
_FORMAT = "%(asctime)s %(levelname)-7s %(message)s"

type _Exception = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)


class LineFormatter(logging.Formatter):
    """Formats records as lines. A traceback keeps its lines, each indented."""

    @override
    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = escaped(cut(record.message, LONGEST))
        return super().formatMessage(record)

    @override
    def formatException(self, ei: _Exception) -> str:
        trace = cut("".join(traceback.format_exception(*ei)).rstrip("\n"), _LONGEST_TRACE)
        # Indented, so that no line of an exception's text looks like a line of the log.
        return "\n".join(f"  {escaped(line)}" for line in trace.split("\n"))


def configure(level: str = "INFO", form: str = _FORMAT) -> None:
    """Configure the process to log lines to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter(form))
    logging.basicConfig(level=level.upper(), handlers=[handler])


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
