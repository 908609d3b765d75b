"""What the log lines of a piece of work are about: its task, run, attempt, agent and trace.

It is set once per request and attempt, and read only when a line is written.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from headrace.model.task import TaskKey


@dataclass(frozen=True, slots=True)
class LogContext:
    """What lines are about. Empty fields are left out of them."""

    task: str = ""
    run: int = 0
    """Generation of the run's input."""
    attempt: int = 0
    agent: str = ""
    traceparent: str = ""
    """W3C trace context."""

    def fields(self) -> dict[str, str | int]:
        """Return the fields of a line."""
        found: dict[str, str | int] = {
            "task": self.task,
            "run": self.run,
            "attempt": self.attempt,
            "agent": self.agent,
            "trace_id": _trace_id(self.traceparent),
        }
        return {name: value for name, value in found.items() if value}


_NOTHING = LogContext()

_current: ContextVar[LogContext] = ContextVar("log_context", default=_NOTHING)


def current() -> LogContext:
    """Return what lines of the current asyncio task or thread are about."""
    return _current.get()


def begin(context: LogContext = _NOTHING) -> None:
    """Make `context` the current one, in place of an earlier one."""
    _current.set(context)


def note_task(task: str) -> None:
    """Add the task, once it is known."""
    known = _current.get()
    _current.set(LogContext(task, known.run, known.attempt, known.agent, known.traceparent))


@contextmanager
def about(context: LogContext) -> Iterator[None]:
    """Make `context` the current one in the block."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)


def about_task(key: TaskKey) -> dict[str, LogContext]:
    """Return the ``extra`` of a single line about a task, where no context is set."""
    return {"context": LogContext(task=key.task, agent=key.agent)}


def _trace_id(traceparent: str) -> str:
    parts = traceparent.split("-")
    return parts[1] if len(parts) > 1 else ""
