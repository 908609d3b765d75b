"""Requests of 0.3 as the 1.0 parameters of operations."""

from collections.abc import Callable, Mapping
from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2, conversions, proto_utils, types
from a2a.utils.errors import A2AError, InvalidParamsError
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message
from pydantic import BaseModel, ValidationError

from headrace.events import Json
from headrace_gateway.a2a.protojson import Malformed, Violation
from headrace_gateway.a2a.whole_numbers import whole

METHODS: Mapping[str, str] = {
    "message/send": "SendMessage",
    "message/stream": "SendStreamingMessage",
    "tasks/get": "GetTask",
    "tasks/cancel": "CancelTask",
    "tasks/resubscribe": "SubscribeToTask",
    "tasks/pushNotificationConfig/set": "CreateTaskPushNotificationConfig",
    "tasks/pushNotificationConfig/get": "GetTaskPushNotificationConfig",
    "tasks/pushNotificationConfig/list": "ListTaskPushNotificationConfigs",
    "tasks/pushNotificationConfig/delete": "DeleteTaskPushNotificationConfig",
    "agent/getAuthenticatedExtendedCard": "GetExtendedAgentCard",
}
"""JSON-RPC methods, and what the operation is called now."""

type _Turn = Callable[[Any], Message]
"""The SDK's conversion of a request."""

_REQUESTS: Mapping[str, tuple[type[BaseModel], _Turn]] = {
    "SendMessage": (types.SendMessageRequest, conversions.to_core_send_message_request),
    "SendStreamingMessage": (types.SendMessageRequest, conversions.to_core_send_message_request),
    "GetTask": (types.GetTaskRequest, conversions.to_core_get_task_request),
    "CancelTask": (types.CancelTaskRequest, conversions.to_core_cancel_task_request),
    "SubscribeToTask": (
        types.TaskResubscriptionRequest,
        conversions.to_core_subscribe_to_task_request,
    ),
    "CreateTaskPushNotificationConfig": (
        types.SetTaskPushNotificationConfigRequest,
        conversions.to_core_create_task_push_notification_config_request,
    ),
    "GetTaskPushNotificationConfig": (
        types.GetTaskPushNotificationConfigRequest,
        conversions.to_core_get_task_push_notification_config_request,
    ),
    "ListTaskPushNotificationConfigs": (
        types.ListTaskPushNotificationConfigRequest,
        conversions.to_core_list_task_push_notification_config_request,
    ),
    "DeleteTaskPushNotificationConfig": (
        types.DeleteTaskPushNotificationConfigRequest,
        conversions.to_core_delete_task_push_notification_config_request,
    ),
}

SENDS = ("SendMessage", "SendStreamingMessage")
"""Operations whose parameters are a message."""
_CONFIGURED = ("CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig")
_SETS = "CreateTaskPushNotificationConfig"


def rpc_params(operation: str, params: Json) -> Json:
    """Return the 1.0 parameters of a JSON-RPC call.

    Raises:
        Malformed: they are not the operation's in 0.3 either.
    """
    if operation not in _REQUESTS:
        return {}
    kind, turn = _REQUESTS[operation]
    try:
        request = kind.model_validate({"id": 0, "params": params})
        return _with_config_id(operation, as_params(turn(request)))
    except ValidationError as invalid:
        raise Malformed(_violations(invalid)) from None
    except (ParseError, ValueError, TypeError, A2AError) as trouble:
        raise Malformed([Violation("params", f"can't be read: {trouble}"[:300])]) from None


def _with_config_id(operation: str, params: Json) -> Json:
    """Return `params` with the id of a push configuration that goes without: the task's."""
    if operation in _CONFIGURED and not params.get("id"):
        return params | {"id": params.get("taskId", "")}
    return params


def rest_params(operation: str, params: Json) -> Json:
    """Return the 1.0 parameters of a REST request: its body with what the path says.

    0.3's REST body is its protobuf's JSON (a ``request`` with ``content``). Clients also send what
    JSON-RPC has as params; both are read.

    Raises:
        Malformed: they are not the operation's in 0.3 either.
    """
    if operation in SENDS:
        if "request" not in params:
            return rpc_params(operation, params)
        sent = _parsed(a2a_v0_3_pb2.SendMessageRequest, params)
        said = proto_utils.FromProto.message_send_params(sent)
        return rpc_params(operation, said.model_dump(by_alias=True, exclude_none=True))
    if operation == _SETS and "config" in params:
        config = _parsed(a2a_v0_3_pb2.CreateTaskPushNotificationConfigRequest, params)
        told = proto_utils.FromProto.task_push_notification_config_request(config)
        told.task_id = params["task_id"]
        return rpc_params(operation, told.model_dump(by_alias=True, exclude_none=True))
    return params


def as_params(request: Message) -> Json:
    """Return a 1.0 request as JSON."""
    params: Json = whole(MessageToDict(request))
    return params


def _parsed(kind: type[Message], params: Json) -> Any:  # noqa: ANN401 - as generated
    try:
        return ParseDict(params, kind(), ignore_unknown_fields=True)
    except (ParseError, InvalidParamsError) as trouble:
        raise Malformed([Violation("", f"is not what 0.3 sends: {trouble}"[:300])]) from None


def _violations(invalid: ValidationError) -> list[Violation]:
    return [
        Violation(_path(error["loc"]), f"is at fault: {error['msg'].lower()}")
        for error in invalid.errors()[:20]
    ]


def _path(place: tuple[int | str, ...]) -> str:
    """Return where the fault is, without the envelope that was put around the parameters."""
    return ".".join(str(step) for step in place if step not in ("params", "root")) or "params"
