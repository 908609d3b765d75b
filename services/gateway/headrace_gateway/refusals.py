"""Why a request is not answered, as exceptions that each binding renders in its own format."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.model.errors import HeadraceError


class CredentialsMissing(HeadraceError):
    """Credentials are required, and the request has none."""

    code = "unauthenticated"


class CredentialsRefused(HeadraceError):
    """The credentials are unknown or no longer valid."""

    code = "unauthenticated"


class AgentUnknown(HeadraceError):
    """No agent of that name is registered."""

    code = "agent_unknown"
    name = ""

    @classmethod
    def called(cls, name: str, *, at_root: bool) -> "AgentUnknown":
        """Return the error for the agent `name`, with a hint if it is the root's default agent."""
        hint = "GET /v1/agents lists the agents"
        at_root_too = (
            f"the default agent {name!r} does not exist; set HEADRACE_DEFAULT_AGENT; {hint}"
        )
        unknown = cls(at_root_too if at_root else f"agent {name!r} does not exist")
        unknown.name = name
        return unknown

    @classmethod
    def unnamed(cls) -> "AgentUnknown":
        """Return the error for a path that was joined to an agent's URL as URLs are joined."""
        return cls(
            "the path names no agent: end the agent's URL with a slash, as in /v1/agents/NAME/, "
            "where a client joins paths to it"
        )


class TaskEnded(HeadraceError):
    """The task is over: it accepts no messages and can't be canceled."""

    code = "task_ended"


class TaskBusy(HeadraceError):
    """The task is running and accepts no message at the moment."""

    code = "task_busy"


class GenerationMismatch(HeadraceError):
    """The task is not at the generation that the message requires."""

    code = "generation_mismatch"

    def __init__(self, task: str, generation: int) -> None:
        """Keep the task's generation."""
        super().__init__(f"task {task} is at generation {generation}")
        self.generation = generation


class KeyReused(HeadraceError):
    """The Idempotency-Key was used with another request."""

    code = "key_reused"


class ContextMismatch(HeadraceError):
    """The task belongs to another context than the message names."""

    code = "context_mismatch"


class GatewayStarting(HeadraceError):
    """The gateway is starting, and waits for NATS."""

    code = "starting"
    retryable = True

    def __init__(
        self, message: str = "the gateway is starting and waits for NATS; try again"
    ) -> None:
        """Tell the client to try again."""
        super().__init__(message)


class GatewayRestarting(HeadraceError):
    """The gateway is stopping before it has an answer; the request stored no message."""

    code = "restarting"
    retryable = True


class TooManyStreams(HeadraceError):
    """The gateway has reached its limit of open streams."""

    code = "too_many_streams"
    retryable = True


class TooManyStreamsOfOwner(HeadraceError):
    """The caller has reached its limit of open streams on this gateway."""

    code = "too_many_streams_of_owner"
    retryable = True


class TooManyAtOnce(HeadraceError):
    """The connection has reached its limit of concurrent calls."""

    code = "too_many_at_once"
    retryable = True


class TooManyBytes(HeadraceError):
    """The gateway has reached its limit of bytes of requests in progress."""

    code = "too_many_bytes"
    retryable = True


class TooManyBytesOfOwner(HeadraceError):
    """The caller has reached its limit of bytes of requests in progress."""

    code = "too_many_bytes_of_owner"
    retryable = True


class NotPermitted(HeadraceError):
    """The caller's roles do not include this operation of this agent."""

    code = "permission_denied"


class SignatureRefused(HeadraceError):
    """The signed URL of a file is not the fleet's, or its time is over; ask for another one."""

    code = "signature_refused"


class RateLimited(HeadraceError):
    """The caller or its tenant has reached its request rate; nothing was started."""

    code = "rate_limited"
    retryable = True

    def __init__(self, message: str, retry_after: int = 1) -> None:
        """Keep the seconds after which to retry."""
        super().__init__(message)
        self.retry_after = retry_after


class Unanswered(HeadraceError):
    """The message was accepted, or may have been; the error names its task.

    Sending it again could ask for the work twice, so there is no ``Retry-After``.
    """

    code = "unanswered"

    def __init__(self, message: str, task: str = "", context: str = "") -> None:
        """Keep the task's id, which the client may not have received yet."""
        super().__init__(message)
        self.task, self.context = task, context


class GatewayStopping(Unanswered):
    """The gateway is stopping; the task continues, and another gateway can answer."""

    code = "stopping"

    def __init__(self, reason: str, task: str = "", context: str = "") -> None:
        """Keep which task continues."""
        super().__init__(f"{reason}; task {task} continues", task, context)


class AnswerLost(Unanswered):
    """The message has been accepted, and its result can't be read now."""

    code = "answer_lost"

    def __init__(self, task: str, context: str) -> None:
        """Keep which task continues."""
        message = f"the message was accepted as task {task}, which can't be read now; use GetTask"
        super().__init__(message, task, context)


class Unsettled(Unanswered):
    """It is not known yet whether the log has the message; the gateway keeps trying."""

    code = "unsettled"

    def __init__(self, task: str, context: str) -> None:
        """Keep the id that the task has, or will have."""
        message = f"the message may have been accepted as task {task}; use GetTask, do not resend"
        super().__init__(message, task, context)


@dataclass(frozen=True, slots=True)
class Violation:
    """A field that breaks a rule."""

    field: str
    """The field's path, such as ``message.parts[0].text``; empty for the whole."""
    rule: str
    """Text that follows the path: ``must be a string``."""

    def __str__(self) -> str:
        return f"{self.field or 'the request'} {self.rule}"


class Malformed(Exception):
    """The request's JSON does not match the schema; `violations` has at least one entry."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        """Keep every violation found."""
        super().__init__("; ".join(map(str, violations)))
        self.violations = tuple(violations)
