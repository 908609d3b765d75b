"""Errors that refuse a run before its stream starts."""

from collections.abc import Sequence
from http import HTTPStatus

from headrace_gateway.json_errors import CodedError


class NotAcceptable(CodedError):
    """The client accepts none of the media types of a run's stream."""

    code = "not_acceptable"
    status = HTTPStatus.NOT_ACCEPTABLE


class ResumeMismatch(CodedError):
    """The run resumes interrupts that are not open, or not all that are."""

    code = "resume_mismatch"
    status = HTTPStatus.CONFLICT

    def __init__(self, current: Sequence[str], *, is_open: bool) -> None:
        """Name the `current` interrupts; `is_open` tells whether the run names one of them."""
        rule = f"resume: must answer all open interrupts of one task: {list(current)}"
        way = "; to go on after closed ones, cancel them and add a message of the user"
        super().__init__(rule if is_open else rule + way)
        self.is_open = is_open


class RunUnknown(CodedError):
    """The caller has no such thread, or the thread has no such run (any more)."""

    code = "run_unknown"
    status = HTTPStatus.NOT_FOUND


class RunIdReused(CodedError):
    """The thread has a run with the same id and other content."""

    code = "run_id_reused"
    status = HTTPStatus.CONFLICT
