"""Reasons to refuse a request, as exceptions that each binding renders in its own format."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.model.errors import HeadraceError


class CredentialsMissing(HeadraceError):
    """Nobody may call without credentials, and there are none."""

    code = "unauthenticated"


class CredentialsRefused(HeadraceError):
    """The credentials are nobody's, or not any more."""

    code = "unauthenticated"


class AgentUnknown(HeadraceError):
    """No agent of that name has ever been announced."""

    code = "agent_unknown"
    name = ""

    @classmethod
    def called(cls, name: str, *, at_root: bool) -> "AgentUnknown":
        """Return the error for the agent `name`, with a hint if it is the root's default agent."""
        hint = "GET /v1/agents lists those that there are, and HEADRACE_DEFAULT_AGENT names"
        at_root_too = (
            f"no agent answers here: there is none called {name!r}; {hint} the one for here"
        )
        unknown = cls(at_root_too if at_root else f"there is no agent {name!r}")
        unknown.name = name
        return unknown


class TaskEnded(HeadraceError):
    """The task is over: it takes no message and can't be canceled."""

    code = "task_ended"


class TaskBusy(HeadraceError):
    """The task is being worked on and takes no message now."""

    code = "task_busy"


class GenerationMismatch(HeadraceError):
    """The task is at another generation than the message wants it to be."""

    code = "generation_mismatch"

    def __init__(self, task: str, generation: int) -> None:
        """Keep the task's generation."""
        super().__init__(f"task {task} is at generation {generation}")
        self.generation = generation


class KeyReused(HeadraceError):
    """The Idempotency-Key was used with another request."""

    code = "key_reused"


class ContextMismatch(HeadraceError):
    """The task belongs to another context than the message says."""

    code = "context_mismatch"


class Restarting(HeadraceError):
    """The gateway stops before it has an answer; no message has been stored for the request."""

    code = "restarting"
    retryable = True


class TooManyStreams(HeadraceError):
    """The gateway has as many streams open as it takes."""

    code = "too_many_streams"
    retryable = True


class TooManyStreamsOfOwner(HeadraceError):
    """The caller has as many streams open as one may have on a gateway."""

    code = "too_many_streams_of_owner"
    retryable = True


class TooManyAtOnce(HeadraceError):
    """One connection has as much under way as it may have."""

    code = "too_many_at_once"
    retryable = True


class TooManyBytes(HeadraceError):
    """The gateway holds as many bytes of requests under way as it may."""

    code = "too_many_bytes"
    retryable = True


class TooManyBytesOfOwner(HeadraceError):
    """The caller's requests under way have as many bytes as those of one owner may."""

    code = "too_many_bytes_of_owner"
    retryable = True


class NotPermitted(HeadraceError):
    """The caller's roles do not include this operation of this agent."""

    code = "permission_denied"


class RateLimited(HeadraceError):
    """The caller, or its tenant, asks more often than it may; nothing has been begun."""

    code = "rate_limited"
    retryable = True

    def __init__(self, message: str, retry_after: int = 1) -> None:
        """Keep the seconds after which to retry."""
        super().__init__(message)
        self.retry_after = retry_after


class TooManyWaiting(HeadraceError):
    """As many runs wait for the agent's workers as may; nothing has been begun."""

    code = "too_many_waiting"
    retryable = True

    def __init__(self, message: str, retry_after: int = 1) -> None:
        """Keep the seconds after which to retry."""
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Violation:
    """A field that breaks a rule."""

    field: str
    """The field's path, such as ``message.parts[0].text``; empty for the whole."""
    rule: str
    """Text that follows the path: ``must be a string``."""


class Malformed(Exception):
    """The JSON is not of the schema; `violations` has at least one."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        """Keep every violation found."""
        super().__init__("; ".join(f"{v.field or 'the request'} {v.rule}" for v in violations))
        self.violations = tuple(violations)
