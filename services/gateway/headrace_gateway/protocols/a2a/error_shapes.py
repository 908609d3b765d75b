"""A problem in the shape of each JSON binding: a JSON-RPC error, a ``google.rpc.Status``."""

import orjson
from a2a.utils.error_handlers import BAD_REQUEST_TYPE, ERROR_INFO_TYPE
from a2a.utils.errors import A2A_REASON_TO_ERROR

from headrace.model.events import Json
from headrace_gateway.problems import Problem

RETRY_INFO_TYPE = "type.googleapis.com/google.rpc.RetryInfo"


def details(problem: Problem) -> list[Json]:
    """Return the typed details: an ErrorInfo, the fields at fault, when to try again."""
    found: list[Json] = [
        {
            "@type": ERROR_INFO_TYPE,
            "reason": problem.reason,
            "domain": problem.domain,
            "metadata": dict(problem.metadata),
        }
    ]
    if problem.violations:
        fields = [{"field": v.field, "description": v.rule} for v in problem.violations]
        found.append({"@type": BAD_REQUEST_TYPE, "fieldViolations": fields})
    if problem.retry_after is not None:
        found.append({"@type": RETRY_INFO_TYPE, "retryDelay": f"{problem.retry_after}s"})
    return found


def rest_body(problem: Problem, *, named: bool = False) -> bytes:
    """Return the REST binding's body; 0.3's clients want the error `named` beside it."""
    error = {
        "code": problem.http_status,
        "status": problem.grpc_status,
        "message": problem.message,
        "details": details(problem),
    }
    if named and problem.reason in A2A_REASON_TO_ERROR:
        kind = A2A_REASON_TO_ERROR[problem.reason].__name__
        return orjson.dumps({"type": kind, "message": problem.message, "error": error})
    return orjson.dumps({"error": error})


def rpc_body(request_id: object, problem: Problem, data: Json | None = None) -> bytes:
    """Return the JSON-RPC error response to the request with that id; `data` if not A2A's own."""
    error = rpc_error(problem) | ({} if data is None else {"data": data})
    return orjson.dumps({"jsonrpc": "2.0", "id": request_id, "error": error})


def rpc_error(problem: Problem) -> Json:
    """Return the JSON-RPC error object."""
    return {"code": problem.rpc_code, "message": problem.message, "data": details(problem)}
