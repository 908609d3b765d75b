"""Why a run is refused before its stream starts."""

from http import HTTPStatus

from headrace_gateway.json_errors import CodedError


class NotAcceptable(CodedError):
    """The client accepts nothing that a run can be streamed as."""

    code = "not_acceptable"
    status = HTTPStatus.NOT_ACCEPTABLE


class ResumeMismatch(CodedError):
    """The run resumes what does not wait for it, or only a part of what does."""

    code = "resume_mismatch"
    status = HTTPStatus.CONFLICT


class ThreadBusy(CodedError):
    """The agent is at work in the thread and takes no other run meanwhile."""

    code = "thread_busy"
    status = HTTPStatus.CONFLICT


class RunUnknown(CodedError):
    """The caller has no such thread, or the thread no such run (any more)."""

    code = "run_unknown"
    status = HTTPStatus.NOT_FOUND


class RunIdReused(CodedError):
    """The thread has a run of that id that was asked for in other words."""

    code = "run_id_reused"
    status = HTTPStatus.CONFLICT
