"""The run that a request refers to, from the query or from the fields of a run input."""

from typing import NamedTuple

from starlette.requests import Request

from headrace.model.events import Json
from headrace.tracing import TRACEPARENT
from headrace_gateway.json_errors import InputInvalid, check_body_type, check_id, json_object
from headrace_gateway.server.body import BodyLimits, read_body


class NamedRun(NamedTuple):
    """A thread, and one of its runs."""

    thread: str
    run: str | None
    """None means the newest run."""


async def named_run(request: Request, limits: BodyLimits) -> NamedRun:
    """Return the run that the request refers to; the body takes precedence over the query.

    Raises:
        InputInvalid: the thread or run is missing or invalid.
        BodyNotJson, BodyTooLarge: the body cannot be read.
    """
    params: dict[str, object] = dict(request.query_params)
    if request.method == "POST" and (body := await read_body(request, limits)):
        check_body_type(request)
        params |= json_object(body)
    return _named(params)


def attach_frame(frame: Json) -> tuple[NamedRun, str] | None:
    """Return the run and the cursor of a WebSocket's attach frame; None if it is another frame.

    Raises:
        InputInvalid: as `named_run`.
    """
    value = frame.get("attach")
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InputInvalid("attach: must be an object")
    after = value.get("after") or ""
    if not isinstance(after, str):
        raise InputInvalid("attach.after: must be a string")
    return _named(value), after.strip()


def frame_traceparent(frame: Json) -> str | None:
    """Return the W3C trace context of a WebSocket's frame; None if it states none.

    Raises:
        InputInvalid: it is not a string.
    """
    stated = frame.get(TRACEPARENT)
    if stated is not None and not isinstance(stated, str):
        raise InputInvalid(f"{TRACEPARENT}: must be a string")
    return stated


def _named(params: dict[str, object]) -> NamedRun:
    thread, run = params.get("threadId"), params.get("runId") or None
    if not isinstance(thread, str):
        raise InputInvalid("threadId: must be a non-empty string")
    if run is not None and not isinstance(run, str):
        raise InputInvalid("runId: must be a string")
    check_id("threadId", thread)
    if run is not None:
        check_id("runId", run)
    return NamedRun(thread, run)
