"""Errors in A2A's terms: one table from exceptions to codes, for every binding.

A2A's own errors are the SDK's classes with the SDK's codes. Other errors (an unknown agent, a body
that is too large, an unavailable service) have the nearest JSON-RPC code, with their own reason in
their own domain.
"""

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus

from a2a.utils import errors as a2a

from headrace.agent_versions import RouteRefused, VersionInUse, VersionUnknown
from headrace.log_lines import UNLIMITED
from headrace.metrics import REFUSALS
from headrace.model.errors import (
    BusUnavailable,
    EventTooLarge,
    FileUnknown,
    HeadraceError,
    InvalidName,
    LogLost,
    LogTooNew,
    StateUnavailable,
    TaskUnknown,
)
from headrace.model.schedule_machine import ScheduleOver
from headrace.schedules import (
    ScheduleUnknown,
    ScheduleUnreadable,
    TooManySchedules,
)
from headrace.tasks.admission import TooManyWaiting
from headrace.tasks.dead_letters import LetterUnknown, NotRetryable
from headrace.tasks.end import AlreadyOver
from headrace.tasks.feedback import NotOver
from headrace.tasks.quotas import QuotaExceeded
from headrace.tasks.wake import NotWaiting
from headrace.triggers import (
    EventsUnstored,
    TooManyTriggers,
    TriggerTooNew,
    TriggerUnknown,
)
from headrace.webhooks import TooManyWebhooks
from headrace_gateway.refusals import (
    AgentUnknown,
    ContextMismatch,
    CredentialsMissing,
    CredentialsRefused,
    GatewayRestarting,
    GatewayStarting,
    GenerationMismatch,
    KeyReused,
    Malformed,
    NotPermitted,
    RateLimited,
    SignatureRefused,
    TaskBusy,
    TaskEnded,
    TooManyAtOnce,
    TooManyBytes,
    TooManyBytesOfOwner,
    TooManyStreams,
    TooManyStreamsOfOwner,
    Unanswered,
    Violation,
)
from headrace_gateway.request_span import note_refusal
from headrace_gateway.server.auth.schemes import CHALLENGE, REFUSED
from headrace_gateway.server.body import BodyEncoded, BodyTooLarge, RequestNotWhole
from headrace_gateway.server.origin import PageRefused
from headrace_gateway.streaming.renderer import Cause, Interruption
from headrace_gateway.tasks.webhook_call import AlreadyAnswered

_log = logging.getLogger(__name__)

_FAULT = HTTPStatus.INTERNAL_SERVER_ERROR
"""Lowest status of errors that are not the client's."""

A2A_DOMAIN = "a2a-protocol.org"
OWN_DOMAIN = "headrace"

RETRY_AFTER = 1
"""Seconds after which a client may retry if a service is unavailable."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as all bindings report it."""

    rpc_code: int
    http_status: int
    """Status in the REST binding."""
    grpc_status: str
    reason: str
    message: str = ""
    domain: str = A2A_DOMAIN
    rpc_http_status: int = HTTPStatus.OK
    """Status in JSON-RPC: 200 for its own errors; errors below JSON-RPC have their own status."""
    retry_after: int | None = None
    """Seconds; None if a retry does not help."""
    challenge: str | None = None
    """``WWW-Authenticate``: the credentials that would help."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    violations: tuple[Violation, ...] = ()


def _own(
    rpc_code: int, http_status: int, grpc_status: str, reason: str, retry_after: int | None = None
) -> Problem:
    return Problem(
        rpc_code,
        http_status,
        grpc_status,
        reason,
        domain=OWN_DOMAIN,
        rpc_http_status=http_status,
        retry_after=retry_after,
    )


def _standard(error: type[a2a.A2AError]) -> Problem:
    mapping = a2a.A2A_ERROR_MAPPING[error]
    return Problem(a2a.JSON_RPC_ERROR_CODE_MAP[error], *mapping)


_INVALID_PARAMS = _standard(a2a.InvalidParamsError)
_UNAVAILABLE = _own(-32603, 503, "UNAVAILABLE", "UNAVAILABLE", RETRY_AFTER)
_not_found = partial(_own, -32602, 404, "NOT_FOUND")
_conflict = partial(_own, -32600, 409, "FAILED_PRECONDITION")
_exhausted = partial(_own, -32603, 429, "RESOURCE_EXHAUSTED")
_forbidden = partial(_own, -32600, 403, "PERMISSION_DENIED")
_UNAUTHENTICATED = _own(-32600, 401, "UNAUTHENTICATED", "UNAUTHENTICATED")
_TOO_LARGE = _own(-32600, 413, "INVALID_ARGUMENT", "REQUEST_TOO_LARGE")

PROBLEMS: Mapping[type[Exception], Problem] = {
    a2a.JSONParseError: Problem(-32700, 400, "INVALID_ARGUMENT", "INVALID_REQUEST"),
    **{error: _standard(error) for error in a2a.A2A_ERROR_MAPPING},
    Malformed: _INVALID_PARAMS,
    InvalidName: _INVALID_PARAMS,
    ContextMismatch: _INVALID_PARAMS,
    KeyReused: _INVALID_PARAMS,
    TooManyWebhooks: _exhausted("TOO_MANY_PUSH_CONFIGS"),
    TaskUnknown: _standard(a2a.TaskNotFoundError),
    LogLost: _standard(a2a.TaskNotFoundError),
    TaskEnded: _standard(a2a.UnsupportedOperationError),
    TaskBusy: _standard(a2a.UnsupportedOperationError),
    # A2A v1.1's TaskGenerationMismatchError, which the SDK does not define yet.
    GenerationMismatch: Problem(-32010, 409, "ABORTED", "TASK_GENERATION_MISMATCH"),
    CredentialsMissing: replace(_UNAUTHENTICATED, challenge=CHALLENGE),
    CredentialsRefused: replace(_UNAUTHENTICATED, challenge=REFUSED),
    PageRefused: _forbidden("PAGE_REFUSED"),
    SignatureRefused: _forbidden("SIGNATURE_REFUSED"),
    AgentUnknown: _not_found("AGENT_NOT_FOUND"),
    FileUnknown: _not_found("FILE_NOT_FOUND"),
    LetterUnknown: _not_found("LETTER_NOT_FOUND"),
    TriggerUnknown: _not_found("TRIGGER_NOT_FOUND"),
    EventsUnstored: _conflict("EVENTS_UNSTORED"),
    ScheduleUnknown: _not_found("SCHEDULE_NOT_FOUND"),
    ScheduleOver: _conflict("SCHEDULE_OVER"),
    TooManySchedules: _conflict("TOO_MANY_SCHEDULES"),
    TooManyTriggers: _conflict("TOO_MANY_TRIGGERS"),
    VersionUnknown: _not_found("VERSION_NOT_FOUND"),
    VersionInUse: _conflict("VERSION_IN_USE"),
    RouteRefused: _conflict("ROUTE_REFUSED"),
    NotRetryable: _conflict("NOT_RETRYABLE"),
    AlreadyOver: _conflict("ALREADY_OVER"),
    NotOver: _conflict("NOT_OVER"),
    NotWaiting: _not_found("NOT_WAITING"),
    AlreadyAnswered: _conflict("ALREADY_ANSWERED"),
    BodyTooLarge: _TOO_LARGE,
    BodyEncoded: _own(-32600, 415, "INVALID_ARGUMENT", "BODY_ENCODED"),
    RequestNotWhole: _own(-32600, 408, "DEADLINE_EXCEEDED", "REQUEST_NOT_WHOLE"),
    EventTooLarge: _TOO_LARGE,
    GatewayStarting: _UNAVAILABLE,
    GatewayRestarting: _UNAVAILABLE,
    TooManyStreams: _UNAVAILABLE,
    TooManyStreamsOfOwner: _exhausted("TOO_MANY_STREAMS", RETRY_AFTER),
    TooManyAtOnce: _exhausted("TOO_MANY_AT_ONCE", RETRY_AFTER),
    TooManyBytes: _UNAVAILABLE,
    TooManyBytesOfOwner: _exhausted("TOO_MANY_BYTES", RETRY_AFTER),
    NotPermitted: _forbidden("PERMISSION_DENIED"),
    RateLimited: _exhausted("RATE_LIMITED"),
    QuotaExceeded: _exhausted("QUOTA_EXCEEDED"),
    TooManyWaiting: _exhausted("TOO_MANY_WAITING"),
    BusUnavailable: _UNAVAILABLE,
    LogTooNew: _UNAVAILABLE,
    TriggerTooNew: _UNAVAILABLE,
    ScheduleUnreadable: _UNAVAILABLE,
    StateUnavailable: _UNAVAILABLE,
    # The message may have been accepted; sending it again could have the work done twice.
    Unanswered: replace(_UNAVAILABLE, retry_after=None),
}

# Prometheus computes an increase only from an earlier value.
for _problem in PROBLEMS.values():
    REFUSALS.labels(_problem.reason)


def problem_of(error: Exception) -> Problem:
    """Return the problem for `error`; unexpected errors are logged under an incident id."""
    for kind in type(error).__mro__:
        if (found := PROBLEMS.get(kind)) is not None:
            REFUSALS.labels(found.reason).inc()
            note_refusal(found.reason, is_fault=found.http_status >= _FAULT)
            return replace(
                found,
                message=_public(error),
                violations=_violations(error),
                metadata=_metadata(error),
                retry_after=_retry_after(error, found),
            )
    incident = secrets.token_hex(6)
    _log.error("incident %s", incident, exc_info=error, extra=UNLIMITED)
    REFUSALS.labels("INTERNAL_ERROR").inc()
    note_refusal("INTERNAL_ERROR", is_fault=True)
    return replace(PROBLEMS[a2a.InternalError], message=f"internal error, incident {incident}")


def status_of(error: Exception) -> int:
    """Return the HTTP status of the problem for `error`, without logging or counting it."""
    kinds = type(error).__mro__
    return next((PROBLEMS[kind].http_status for kind in kinds if kind in PROBLEMS), 500)


def headers(problem: Problem) -> dict[str, str]:
    """Return the problem's response headers."""
    found = {} if problem.retry_after is None else {"Retry-After": str(problem.retry_after)}
    if problem.http_status == HTTPStatus.UNSUPPORTED_MEDIA_TYPE:
        found["Accept-Encoding"] = "identity"
    return found | ({} if problem.challenge is None else {"WWW-Authenticate": problem.challenge})


def problem_of_interruption(why: Interruption, task: str) -> Problem:
    """Return the problem for a stream's early end; the client may resume with its cursor.

    It has no ``Retry-After``: the request may have sent a message, which would be sent again.
    """
    if why.cause is Cause.FAILED:
        if why.error is not None and type(why.error) in PROBLEMS:
            return problem_of(why.error)
        found = PROBLEMS[a2a.InternalError]
    else:
        found = replace(_UNAVAILABLE, retry_after=None, metadata={"taskId": task, "contextId": ""})
    REFUSALS.labels(found.reason).inc()
    return replace(found, message=why.reason)


def _public(error: Exception) -> str:
    if isinstance(error, BusUnavailable | StateUnavailable):
        _log.warning("refused a request: %s", error)
    return error.public if isinstance(error, HeadraceError) else str(error)


def _retry_after(error: Exception, found: Problem) -> int | None:
    if isinstance(error, TooManyWaiting | RateLimited | QuotaExceeded):
        return error.retry_after
    return found.retry_after


def _violations(error: Exception) -> tuple[Violation, ...]:
    match error:
        case Malformed():
            return error.violations
        case InvalidName():
            return (Violation(error.field, error.rule),)
        case ContextMismatch():
            return (Violation("message.contextId", "is not the task's context"),)
        case KeyReused():
            return (Violation("Idempotency-Key", "was used with another request"),)
    return ()


def _metadata(error: Exception) -> Mapping[str, str]:
    if isinstance(error, GenerationMismatch):
        return {"generation": str(error.generation)}
    if isinstance(error, AgentUnknown):
        return {"name": error.name}
    if isinstance(error, Unanswered):
        return {"taskId": error.task, "contextId": error.context}
    if isinstance(error, a2a.A2AError) and error.data:
        return {key: str(value) for key, value in error.data.items()}
    return {}
