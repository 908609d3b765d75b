"""JSON-RPC as Hector's clients speak it, at ``/rpc`` and ``…/stream``: older names, shorter calls.

The agent may stand in ``params.name``. Methods go by the names of 0.3; what they are given and
answer is 1.0's, unless the request states a version or sends what only 0.3 has.
"""

from starlette.requests import Request

from headrace.model.events import Json
from headrace_gateway.protocols.hector.messages import completed
from headrace_gateway.refusals import Malformed, Violation

_METHODS = {
    "message/send": "SendMessage",
    "message/stream": "SendStreamingMessage",
    "card/get": "GetAgentCard",
    "tasks/get": "GetTask",
    "tasks/list": "ListTasks",
    "tasks/cancel": "CancelTask",
    "tasks/resubscribe": "SubscribeToTask",
    "tasks/subscribe": "SubscribeToTask",
}
_SENDS = ("SendMessage", "SendStreamingMessage")


def adapted(
    request: Request, method: str, params: Json, *, is_short: bool
) -> tuple[Request, str, Json]:
    """Return the request to the agent that it names, and A2A's method and parameters.

    Raises:
        Malformed: the agent's name is none.
    """
    params = dict(params)
    request = _to(request, params.pop("name", None))
    if not is_short:
        return request, method, params
    method = _METHODS.get(method, method)
    if method in _SENDS:
        params = completed(params)
    elif "task_id" in params:
        params.setdefault("id", params.pop("task_id"))
    return request, method, params


def _to(request: Request, name: object) -> Request:
    if name is None:
        return request
    if not isinstance(name, str):
        raise Malformed([Violation("name", "must be an agent's name")])
    scope = {**request.scope, "path_params": {**request.path_params, "agent": name}}
    return Request(scope, request.receive)
