"""What can go wrong, as data: a code, a message, and whether trying again may help.

Services translate these into each protocol's own error shape; nothing here knows HTTP.
"""

from typing import ClassVar

_LONGEST = 500


class HeadraceError(Exception):
    """The root of every error that Headrace raises on purpose."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False

    @property
    def public(self) -> str:
        """What a client may read: bounded, and without names of servers and streams."""
        message = str(self)
        return message if len(message) <= _LONGEST else f"{message[:_LONGEST]}…"


class InvalidName(HeadraceError):
    """A name does not fit where it is to stand; `field` and `rule` say which and why."""

    code = "invalid_name"

    def __init__(self, field: str, value: str, rule: str) -> None:
        """Keep the field, the value as given and the rule that it breaks."""
        super().__init__(f"{field} {value!r} {rule}")
        self.field, self.value, self.rule = field, value, rule


class UndecodableMessage(HeadraceError):
    """A message on the bus is not what its subject promises; `reason` says how."""

    code = "undecodable"

    def __init__(self, subject: str, reason: str) -> None:
        """Keep where the message was and why it can't be read."""
        super().__init__(f"message on {subject}: {reason}")
        self.subject, self.reason = subject, reason


class Fenced(HeadraceError):
    """Somebody else has appended to the log: this writer has lost the hold and must be mute."""

    code = "fenced"


class LogLost(HeadraceError):
    """The log that this writer or reader relies on is gone (purged, trimmed, or another one)."""

    code = "log_lost"


class TaskForgotten(LogLost):
    """The task was past its retention or was deleted: a tombstone stands where its log was."""

    code = "task_forgotten"

    @property
    def public(self) -> str:
        """The task may be named: whoever is told has seen its log."""
        return "this task has been deleted"


class EventTooLarge(HeadraceError):
    """One event exceeds what a bus message may carry; `size` and `limit` are in bytes."""

    code = "event_too_large"

    def __init__(self, size: int, limit: int) -> None:
        """Keep both sizes, in bytes."""
        super().__init__(f"an event of {size} bytes exceeds the limit of {limit}")
        self.size, self.limit = size, limit


class BusUnavailable(HeadraceError):
    """NATS, or the stream's leader, does not answer now."""

    code = "bus_unavailable"
    retryable = True

    @property
    def public(self) -> str:
        """Where the trouble lies is for our own log."""
        return "the message bus does not answer now; try again"


class NobodyListens(BusUnavailable):
    """Nobody is subscribed to the subject of a request: it has not been carried out."""

    code = "nobody_listens"


class OutcomeUnknown(BusUnavailable):
    """A change was sent and its outcome is not known: it may have happened, or may still."""

    code = "outcome_unknown"

    @property
    def public(self) -> str:
        """Where the trouble lies is for our own log."""
        return "the message bus does not answer now; the change may have been made"


class StreamsDiffer(HeadraceError):
    """What JetStream has is not what the bus contract or the settings ask for."""

    code = "streams_differ"


class LogFull(BusUnavailable):
    """The stream is at its limit and refuses appends (discard: new)."""

    code = "log_full"

    @property
    def public(self) -> str:
        """Which stream it is is for our own log."""
        return "the log takes nothing more now; try again later"


class StateUnavailable(HeadraceError):
    """Task state does not answer now, or is still rebuilding its view."""

    code = "state_unavailable"
    retryable = True

    @property
    def public(self) -> str:
        """Which server is away is for our own log."""
        return "task state does not answer now, or is being rebuilt; try again"


class FileUnknown(HeadraceError):
    """No such file of that task, or none any more: files go with their task."""

    code = "file_unknown"


_NO_TASK = "task not found"


class TaskUnknown(HeadraceError):
    """No such task, or not the caller's: the two must look the same (promise 6)."""

    code = "task_unknown"

    def __init__(self, message: str = _NO_TASK) -> None:
        """Say that there is none, or what else of the caller's own tasks is gone."""
        super().__init__(message)
        self.is_gone = message != _NO_TASK
        """Whether there was one, of the caller's."""


class StartRefused(HeadraceError):
    """An agent may not ask another one: `why` says which rule forbids it (`Refusal.why`)."""

    code = "start_refused"

    def __init__(self, why: str, message: str) -> None:
        """Keep the rule, and say it in a way that is safe to show."""
        super().__init__(message)
        self.why = why
