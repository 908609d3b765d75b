"""Errors in the shape of Hector's A2A: one of its eight codes, which go with HTTP statuses."""

from http import HTTPStatus

from headrace.model.events import Json

_STATUSES = {
    "OK": HTTPStatus.OK,
    "INVALID_ARGUMENT": HTTPStatus.BAD_REQUEST,
    "UNAUTHENTICATED": HTTPStatus.UNAUTHORIZED,
    "PERMISSION_DENIED": HTTPStatus.FORBIDDEN,
    "NOT_FOUND": HTTPStatus.NOT_FOUND,
    "RESOURCE_EXHAUSTED": HTTPStatus.TOO_MANY_REQUESTS,
    "INTERNAL": HTTPStatus.INTERNAL_SERVER_ERROR,
    "UNAVAILABLE": HTTPStatus.SERVICE_UNAVAILABLE,
}


def refused(code: str, message: str, details: Json) -> tuple[int, Json]:
    """Return HTTP status and body for an error whose gRPC status is `code`.

    What Hector has no code for is the client's doing: it can't be had as it was asked.
    """
    code = code if code in _STATUSES else "INVALID_ARGUMENT"
    body = {"error": {"code": code, "message": message, "details": details}}
    return _STATUSES[code], body
