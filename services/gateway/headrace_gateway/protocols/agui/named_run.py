"""Which run a request means that starts none: by query, or by the fields of a run input."""

from typing import NamedTuple

import orjson
from starlette.requests import Request

from headrace.model.names import LONGEST_CONTEXT
from headrace_gateway.json_errors import InputInvalid, check_body_type
from headrace_gateway.server.body import BodyLimits, read_body


class NamedRun(NamedTuple):
    """A thread, and one of its runs."""

    thread: str
    run: str | None
    """None: the newest."""


async def named_run(request: Request, limits: BodyLimits) -> NamedRun:
    """Return which run the request means; a body within `limits` beats the query.

    Raises:
        InputInvalid: it names no thread, or not as it should.
        BodyNotJson, BodyTooLarge: the body can't be read.
    """
    said: dict[str, object] = dict(request.query_params)
    if request.method == "POST" and (body := await read_body(request, limits)):
        check_body_type(request)
        said |= _object(body)
    return _named(said)


def attach_frame(body: bytes) -> tuple[NamedRun, str] | None:
    """Return which run a WebSocket's frame comes back to, and its cursor; None: to none.

    Raises:
        InputInvalid: as `named_run`.
    """
    said = _object(body).get("attach")
    if said is None:
        return None
    if not isinstance(said, dict):
        raise InputInvalid("attach: must be an object")
    after = said.get("after") or ""
    if not isinstance(after, str):
        raise InputInvalid("attach.after: must be a string")
    return _named(said), after.strip()


def _named(said: dict[str, object]) -> NamedRun:
    thread, run = said.get("threadId"), said.get("runId") or None
    if not isinstance(thread, str):
        raise InputInvalid("threadId: must be a string that is not empty")
    if run is not None and not isinstance(run, str):
        raise InputInvalid("runId: must be a string")
    check_id("threadId", thread)
    if run is not None:
        check_id("runId", run)
    return NamedRun(thread, run)


def check_id(field: str, value: str) -> None:
    """Check the id of a thread or run.

    Raises:
        InputInvalid: it is empty, or longer than `LONGEST_CONTEXT` characters.
    """
    if not value:
        raise InputInvalid(f"{field}: must not be empty")
    if len(value) > LONGEST_CONTEXT:
        raise InputInvalid(f"{field}: must not be longer than {LONGEST_CONTEXT} characters")


def _object(body: bytes) -> dict[str, object]:
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InputInvalid(f"the body is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise InputInvalid("the body must be a JSON object")
    return parsed
