"""Errors of the client: refused requests and lost connections."""

import dataclasses
from dataclasses import dataclass

import orjson

from headrace.model import json_text
from headrace.model.events import Json
from headrace.model.retry_after import seconds_to_wait


class ClientError(Exception):
    """Base class of the client's errors."""


class ConnectionLost(ClientError):
    """No gateway answered, or a connection broke too often in a row.

    A stream that raised it can be resumed later, with its `cursor`.
    """


class Unreachable(Exception):
    """The connection broke, or the gateway can't answer now; another attempt may help."""

    def __init__(
        self, reason: str, *, response: "ErrorResponse | None" = None, was_connected: bool = True
    ) -> None:
        """Keep why.

        Args:
            reason: Why, for people.
            response: The gateway's response, if there was one.
            was_connected: Whether there was a connection, so that the gateway may have the request.
        """
        super().__init__(reason)
        self.response, self.was_connected = response, was_connected


class TimedOut(Unreachable):
    """The gateway sent no data for too long."""


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """A gateway's error response."""

    status: int
    """HTTP status."""
    message: str
    reason: str = ""
    """The error's name, such as ``TASK_NOT_FOUND``; over AG-UI its code, such as ``run_unknown``.
    ``docs/errors.md`` lists both."""
    field: str = ""
    """The first invalid field, such as ``message.parts``; empty: no field is invalid."""
    metadata: Json = dataclasses.field(default_factory=dict)
    """More about the error, such as the ``task`` that it concerns."""
    retry_after: float | None = None
    """Seconds after which the same request may succeed; None: unknown."""


class RequestRefused(ClientError):
    """A gateway refused a request; the same request would be refused again."""

    def __init__(self, response: ErrorResponse) -> None:
        """Keep the gateway's response."""
        super().__init__(response.message)
        self.status, self.reason, self.field = response.status, response.reason, response.field
        self.metadata, self.retry_after = response.metadata, response.retry_after


def read_error(status: int, phrase: str, body: bytes, retry_after: str = "") -> ErrorResponse:
    """Read an error response, with the HTTP status if `body` contains no error.

    Args:
        status: HTTP status.
        phrase: The status' name.
        body: The body: A2A's or AG-UI's, or a proxy's.
        retry_after: The header ``Retry-After``.
    """
    seconds = seconds_to_wait(retry_after)
    error = _error(body)
    if error is None:
        return ErrorResponse(status, f"{status} {phrase}", retry_after=seconds)
    details = _objects(error.get("details"))
    info: Json = next((one for one in details if "reason" in one), {})
    violations = [v for one in details for v in _objects(one.get("fieldViolations"))]
    metadata = info.get("metadata")
    return ErrorResponse(
        status,
        str(error["message"]),
        str(info.get("reason") or error.get("code") or ""),
        str(violations[0].get("field", "")) if violations else "",
        metadata if isinstance(metadata, dict) else {},
        seconds,
    )


def _objects(found: object) -> list[Json]:
    """Return the objects of a list; a proxy's error may have anything else there."""
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _error(body: bytes) -> Json | None:
    try:
        content = json_text.decode(body)
    except orjson.JSONDecodeError:
        return None
    error = content.get("error", content) if isinstance(content, dict) else None
    return error if isinstance(error, dict) and "message" in error else None
