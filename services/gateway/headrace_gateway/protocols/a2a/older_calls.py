"""JSON-RPC as Hector's clients speak it, at ``/rpc`` and ``…/stream``: older names, shorter calls.

The agent may stand in ``params.name``. Methods go by the names of 0.3; what they are given and
answer is 1.0's, unless the request states a version or sends what only 0.3 has.
"""

from starlette.requests import Request

from headrace.model.events import Json
from headrace_gateway.protocols.a2a.hector_shapes import SENDS
from headrace_gateway.protocols.a2a.versions import reads_older
from headrace_gateway.protocols.hector.messages import completed
from headrace_gateway.refusals import Malformed, Violation

CARD_GET = "GetAgentCard"
"""What ``card/get`` is called here; A2A has only a page for it."""

_METHODS = {
    "message/send": "SendMessage",
    "message/stream": "SendStreamingMessage",
    "card/get": CARD_GET,
    "tasks/get": "GetTask",
    "tasks/list": "ListTasks",
    "tasks/cancel": "CancelTask",
    "tasks/resubscribe": "SubscribeToTask",
    "tasks/subscribe": "SubscribeToTask",
}


def modern(request: Request, method: str, params: Json) -> tuple[Request, str, Json]:
    """Return the request to the agent that it names, the method's name now, and the parameters.

    Raises:
        Malformed: the agent's name is none.
        VersionNotSupportedError: it states what is no version.
    """
    params = dict(params)
    request = _to(request, params.pop("name", None))
    if not reads_older(request, params):
        return request, method, params
    method = _METHODS.get(method, method)
    if method in SENDS:
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
