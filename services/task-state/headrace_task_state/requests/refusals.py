"""Errors as answers."""

import logging

from pydantic import ValidationError

from headrace.model.errors import (
    BusUnavailable,
    EventTooLarge,
    InvalidName,
    StartRefused,
    StateUnavailable,
    TaskUnknown,
)
from headrace.model.messages import Refusal
from headrace_task_state.queries.frontier import ViewBehind

_log = logging.getLogger(__name__)


def refusal_of(error: Exception) -> Refusal:
    """Return the answer for `error`."""
    match error:
        case TaskUnknown():
            return Refusal(code="task_unknown", message=str(error))
        case StartRefused():
            return Refusal.model_validate(
                {"code": "start_refused", "message": str(error), "why": error.why}
            )
        case InvalidName() | EventTooLarge() | ValidationError():
            return Refusal(code="bad_request", message=_rule_of(error))
        case BusUnavailable() | StateUnavailable() | TimeoutError():
            return Refusal(
                code="state_unavailable",
                message=str(error) or "no answer in time; try again",
                why="no_leader" if isinstance(error, BusUnavailable) else None,
                is_late=isinstance(error, ViewBehind),
            )
        case _:
            _log.error("a query failed", exc_info=error)
            return Refusal(code="state_unavailable", message="task state failed; its log says how")


def _rule_of(error: InvalidName | EventTooLarge | ValidationError) -> str:
    if not isinstance(error, ValidationError):
        return error.rule if isinstance(error, InvalidName) else str(error)
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"])) or "body"
    return f"{where}: {first['msg']}"
