"""Conversion of 0.3 requests to the 1.0 parameters of operations."""

from collections.abc import Callable, Mapping
from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2, conversions, proto_utils, types
from a2a.utils.errors import A2AError
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message
from pydantic import BaseModel, ValidationError

from headrace.model.events import Json
from headrace.model.nesting import RULE, is_too_deep
from headrace.model.whole_numbers import carried
from headrace_gateway.protocols.a2a.protojson import as_json
from headrace_gateway.refusals import Malformed, Violation

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
"""1.0 operation names by 0.3 JSON-RPC method."""

type _Turn = Callable[[Any], Message]
"""The SDK's conversion of one request type."""

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
"""Operations whose parameters contain a message."""
_CONFIGURED = ("CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig")
_SETS = "CreateTaskPushNotificationConfig"


def rpc_params(operation: str, params: Json) -> Json:
    """Return the 1.0 parameters of a JSON-RPC call.

    Raises:
        Malformed: the parameters are not valid in 0.3.
    """
    if operation not in _REQUESTS:
        return {}
    kind, turn = _REQUESTS[operation]
    try:
        request = kind.model_validate({"id": 0, "params": params})
        return _with_config_id(operation, as_json(turn(request)))
    except ValidationError as invalid:
        raise Malformed(_violations(invalid)) from None
    except (ParseError, ValueError, TypeError, A2AError) as error:
        raise Malformed(_unread(params, "params", f"can't be read: {error}")) from None


def of_json(read: Callable[[str, Json], Json], operation: str, params: Json) -> Json:
    """Return what `read` makes of parameters in JSON, with its numbers unchanged.

    Raises:
        Malformed: the parameters are not valid in 0.3.
    """
    return read(operation, carried(params) if operation in SENDS else params)


def _with_config_id(operation: str, params: Json) -> Json:
    """Return `params`; a push configuration without an id gets the task's id."""
    if operation in _CONFIGURED and not params.get("id"):
        return params | {"id": params.get("taskId", "")}
    return params


def rest_params(operation: str, params: Json) -> Json:
    """Return the 1.0 parameters of a REST request: its body, and the parameters in its path.

    The REST body of 0.3 is the JSON form of its protobuf. Some clients send JSON-RPC params
    instead; both are read.

    Raises:
        Malformed: the parameters are not valid in 0.3.
    """
    if operation in SENDS:
        if not is_protobufs(params):
            return rpc_params(operation, params)
        sent = _from_protobuf(
            a2a_v0_3_pb2.SendMessageRequest, params, proto_utils.FromProto.message_send_params
        )
        return rpc_params(operation, sent)
    if operation == _SETS and "config" in params:
        named = params | {"parent": f"tasks/{params['taskId']}"}
        return rpc_params(
            operation,
            _from_protobuf(
                a2a_v0_3_pb2.CreateTaskPushNotificationConfigRequest, named, config_to_set
            ),
        )
    return params


def config_to_set(request: Any) -> BaseModel:  # noqa: ANN401 - as generated
    """Return the configuration of a CreateTaskPushNotificationConfigRequest, including its id.

    Raises:
        InvalidParamsError: the request names no task.
    """
    if not request.config.push_notification_config.id:
        request.config.push_notification_config.id = request.config_id
    config: BaseModel = proto_utils.FromProto.task_push_notification_config_request(request)
    return config


def is_protobufs(params: Json) -> bool:
    """Return whether the params are the JSON form of 0.3's protobuf.

    That form has ``content`` instead of ``parts``. It calls the message ``request``, and
    ``message`` in JSON; the SDK's clients send ``request``.
    """
    message = params.get("message")
    is_other = isinstance(message, dict) and "content" in message and "parts" not in message
    return "request" in params or is_other


def _from_protobuf(kind: type[Message], params: Json, turn: Callable[[Any], BaseModel]) -> Json:
    """Convert the JSON form of 0.3's protobuf to JSON-RPC params."""
    try:
        model = turn(ParseDict(params, kind(), ignore_unknown_fields=True))
    except ValidationError as invalid:
        raise Malformed(_violations(invalid)) from None
    except (ParseError, A2AError, ValueError, TypeError) as error:
        raise Malformed(_unread(params, "", f"is not valid in A2A 0.3: {error}")) from None
    content: Json = model.model_dump(by_alias=True, exclude_none=True)
    return content


def _unread(params: Json, field: str, error: str) -> list[Violation]:
    """Return why `params` cannot be converted; the SDK does not name fields nested too deeply."""
    deep = [Violation(name, RULE) for name, value in params.items() if is_too_deep(value)]
    return deep or [Violation(field, error[:300])]


def _violations(invalid: ValidationError) -> list[Violation]:
    return [
        Violation(_path(error["loc"]), f"is invalid: {error['msg'].lower()}")
        for error in invalid.errors()[:20]
    ]


def _path(place: tuple[int | str, ...]) -> str:
    """Return the path of an error without the envelope added around the parameters."""
    return ".".join(str(step) for step in place if step not in ("params", "root")) or "params"
