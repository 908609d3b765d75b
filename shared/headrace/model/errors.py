"""Errors as data: a code, a message, and whether a retry may help.

Services translate them into each protocol's error format. This module does not depend on HTTP.
"""

from typing import ClassVar

_LONGEST = 500


class HeadraceError(Exception):
    """Base class of all errors that Headrace raises on purpose."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False

    @property
    def public(self) -> str:
        """The message for clients: limited in length, without names of servers and streams."""
        message = str(self)
        return message if len(message) <= _LONGEST else f"{message[:_LONGEST]}…"


class SettingInvalid(HeadraceError):
    """A setting, or a file that it names, breaks a rule; the message names the place and the rule.

    A process that meets one as it starts exits with 78, because another start does not help.
    """

    code = "setting_invalid"


class InvalidName(HeadraceError):
    """A name breaks a rule; `field` and `rule` state them."""

    code = "invalid_name"

    def __init__(self, field: str, value: str, rule: str) -> None:
        """Keep the field, the given value and the rule that it breaks."""
        super().__init__(f"{field} {value!r} {rule}")
        self.field, self.value, self.rule = field, value, rule


class UndecodableMessage(HeadraceError):
    """A message on the bus is not what its subject requires; `reason` states why."""

    code = "undecodable"

    def __init__(self, subject: str, reason: str) -> None:
        """Keep the message's subject and why it can't be read."""
        super().__init__(f"message on {subject}: {reason}")
        self.subject, self.reason = subject, reason


class NewerVersion(UndecodableMessage):
    """A message has a later version of the bus contract than this process reads."""

    code = "newer_version"


class LogTooNew(HeadraceError):
    """A log has entries of a later version than this process reads; another one must serve it."""

    code = "log_too_new"
    retryable = True


class Fenced(HeadraceError):
    """Another writer has appended to the log. This writer no longer holds it and must stop."""

    code = "fenced"


class LogLost(HeadraceError):
    """The log of this writer or reader is gone: purged, trimmed or replaced by another one."""

    code = "log_lost"


class TaskForgotten(LogLost):
    """The task expired or was deleted, and a tombstone replaces its log."""

    code = "task_forgotten"

    @property
    def public(self) -> str:
        """The message for clients. It may confirm the task because they have seen its log."""
        return "this task has been deleted"


class EventTooLarge(HeadraceError):
    """An event exceeds the size limit of a bus message; `size` and `limit` are in bytes."""

    code = "event_too_large"

    def __init__(self, size: int, limit: int) -> None:
        """Keep both sizes, in bytes."""
        super().__init__(f"an event of {size} bytes exceeds the limit of {limit}")
        self.size, self.limit = size, limit


class BusUnavailable(HeadraceError):
    """NATS or the stream's leader does not answer at the moment."""

    code = "bus_unavailable"
    retryable = True

    @property
    def public(self) -> str:
        """The message for clients, without internal details."""
        return "the message bus does not respond; try again"


class NobodyListens(BusUnavailable):
    """The subject of a request has no subscribers, so the request was not carried out."""

    code = "nobody_listens"


class DeniedByNats(BusUnavailable):
    """The permissions of this process's NATS user refuse it, so it was not carried out."""

    code = "not_permitted"


class OutcomeUnknown(BusUnavailable):
    """A change was sent and its outcome is unknown: it may have happened or may still happen."""

    code = "outcome_unknown"

    @property
    def public(self) -> str:
        """The message for clients, without internal details."""
        return "the message bus does not respond; the change may have been made"


class StreamsDiffer(HeadraceError):
    """JetStream's streams differ from the bus contract or the settings."""

    code = "streams_differ"


class LogFull(BusUnavailable):
    """The stream is at its limit and refuses appends (discard: new)."""

    code = "log_full"

    @property
    def public(self) -> str:
        """The message for clients, without the stream's name."""
        return "the log is full; try again later"


class StateUnavailable(HeadraceError):
    """Task state does not answer at the moment, or is rebuilding its view."""

    code = "state_unavailable"
    retryable = True

    @property
    def public(self) -> str:
        """The message for clients, without the server's name."""
        return "task state does not respond or is being rebuilt; try again"


class FileUnknown(HeadraceError):
    """The task has no such file, or no longer: files are deleted with their task."""

    code = "file_unknown"


_NO_TASK = "task not found"


class TaskUnknown(HeadraceError):
    """The task does not exist, or it is not the caller's; the response does not reveal which."""

    code = "task_unknown"

    def __init__(self, message: str = _NO_TASK) -> None:
        """Keep the message: the default, or why a task of the caller's own is gone."""
        super().__init__(message)
        self.is_gone = message != _NO_TASK
        """Whether the caller had such a task."""


class StartRefused(HeadraceError):
    """A delegation is refused; `why` names the rule (`Refusal.why`)."""

    code = "start_refused"

    def __init__(self, why: str, message: str) -> None:
        """Keep the rule and a message that is safe to show."""
        super().__init__(message)
        self.why = why
