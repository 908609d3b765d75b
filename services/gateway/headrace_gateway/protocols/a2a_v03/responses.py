"""Results and events of A2A 0.3: as JSON-RPC JSON (with ``kind``) or as its protobuf."""

from collections.abc import Callable, Mapping
from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2, conversions, proto_utils, types
from a2a.types import a2a_pb2
from a2a.utils.errors import InvalidAgentResponseError
from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import DecodeError, Message
from pydantic import BaseModel

from headrace.model.events import Json
from headrace.model.whole_numbers import carried, whole
from headrace_gateway.protocols.a2a_v03.cards import dumped, old_card, readable_by_old
from headrace_gateway.protocols.a2a_v03.requests import METHODS, SENDS

type LegacyEvent = (
    types.Task | types.Message | types.TaskStatusUpdateEvent | types.TaskArtifactUpdateEvent
)
"""An event of A2A 0.3."""


def event_of(event: Json) -> LegacyEvent:
    """Convert a 1.0 StreamResponse or SendMessageResponse to an event of 0.3.

    Raises:
        InvalidAgentResponseError: 0.3 cannot represent the event.
    """
    core = _core(a2a_pb2.StreamResponse, event)
    converted: LegacyEvent = _turned(conversions.to_compat_stream_response, core).result
    # 0.3 sets `final` on the last event of a stream, and the stream ends in this state too.
    if isinstance(converted, types.TaskStatusUpdateEvent):
        converted.final = (
            converted.final or converted.status.state == types.TaskState.input_required
        )
    return converted


def rpc_event(event: Json) -> Json:
    """Convert one stream event to the result of a JSON-RPC response."""
    return dumped(event_of(carried(event)))


def rpc_answer(operation: str, result: Json) -> Any:  # noqa: ANN401 - any JSON
    """Convert an operation's result to the result of a JSON-RPC response.

    Raises:
        InvalidAgentResponseError: 0.3 cannot represent the result.
    """
    if operation == "SendMessage":
        return rpc_event(result)
    if operation == "DeleteTaskPushNotificationConfig":
        return None
    if operation == "ListTaskPushNotificationConfigs":
        return [dumped(config) for config in _configs(result)]
    if operation == "GetExtendedAgentCard":
        return readable_by_old(result)
    if operation not in _MODELS:
        # The public card is the same for clients of all versions.
        return result
    return dumped(_model(operation, carried(result)))


def rest_event(event: Json) -> Json:
    """Convert a StreamResponse to the JSON form of 0.3's protobuf."""
    return as_json(proto_utils.ToProto.stream_response(event_of(carried(event))))


def rest_answer(operation: str, result: Json) -> Json:
    """Convert a result to the JSON form of 0.3's protobuf; cards are as their page has them.

    Raises:
        InvalidAgentResponseError: 0.3 cannot represent the result.
    """
    if operation == "GetExtendedAgentCard":
        return readable_by_old(result)
    return as_json(proto_answer(operation, carried(result)))


def proto_answer(operation: str, result: Json) -> Message:
    """Convert a result to 0.3's protobuf.

    Raises:
        InvalidAgentResponseError: 0.3 cannot represent the result.
    """
    if operation == "SendMessage":
        answer: Any = event_of(result)
        return proto_utils.ToProto.task_or_message(answer)
    if operation == "DeleteTaskPushNotificationConfig":
        return Empty()
    if operation == "ListTaskPushNotificationConfigs":
        turn = _TO_PROTO["GetTaskPushNotificationConfig"]
        configs: list[Any] = [turn(config) for config in _configs(result)]
        return a2a_v0_3_pb2.ListTaskPushNotificationConfigResponse(configs=configs)
    if operation == "GetExtendedAgentCard":
        return proto_utils.ToProto.agent_card(old_card(result))
    message: Message = _turned(_TO_PROTO[operation], _model(operation, result))
    return message


def as_json(message: Message) -> Json:
    """Return a 0.3 protobuf message as JSON."""
    content: Json = whole(MessageToDict(message))
    return content


_MODELS: Mapping[str, tuple[type[Message], Callable[[Any], BaseModel]]] = {
    "GetTask": (a2a_pb2.Task, conversions.to_compat_task),
    "CancelTask": (a2a_pb2.Task, conversions.to_compat_task),
    "CreateTaskPushNotificationConfig": (
        a2a_pb2.TaskPushNotificationConfig,
        conversions.to_compat_task_push_notification_config,
    ),
    "GetTaskPushNotificationConfig": (
        a2a_pb2.TaskPushNotificationConfig,
        conversions.to_compat_task_push_notification_config,
    ),
}

_TO_PROTO: Mapping[str, Callable[[Any], Message]] = {
    "GetTask": proto_utils.ToProto.task,
    "CancelTask": proto_utils.ToProto.task,
    "CreateTaskPushNotificationConfig": proto_utils.ToProto.task_push_notification_config,
    "GetTaskPushNotificationConfig": proto_utils.ToProto.task_push_notification_config,
}


def _model(operation: str, result: Json) -> BaseModel:
    kind, turn = _MODELS[operation]
    model: BaseModel = _turned(turn, _core(kind, result))
    return model


def _configs(result: Json) -> list[BaseModel]:
    turn = "GetTaskPushNotificationConfig"
    return [_model(turn, config) for config in result.get("configs", [])]


def _core(kind: type[Message], value: Json) -> Message:
    try:
        return ParseDict(value, kind(), ignore_unknown_fields=True)
    except (ParseError, ValueError, TypeError, RecursionError) as error:
        raise _not_convertible(error) from None


def _turned(turn: Callable[[Any], Any], given: Any) -> Any:  # noqa: ANN401 - as generated
    try:
        return turn(given)
    except (ValueError, TypeError, KeyError, DecodeError) as error:
        raise _not_convertible(error) from None


def _not_convertible(error: Exception) -> InvalidAgentResponseError:
    return InvalidAgentResponseError(f"the response can't be converted to A2A 0.3: {error}"[:300])


_STATE = "TASK_STATE_"
_ROLE = "ROLE_"


def is_unkinded(method: str, params: Json) -> bool:
    """Return whether a call's message has parts, and none with a ``kind``.

    No client of 0.3 leaves it out. fasta2a's does: it sends and expects 0.3's methods, and words
    for states and roles, with 1.0's wrapper and parts.
    """
    message = params.get("message")
    parts = message.get("parts") if isinstance(message, dict) else None
    if METHODS.get(method) not in SENDS or not isinstance(parts, list):
        return False
    return bool(parts) and all(isinstance(part, dict) and "kind" not in part for part in parts)


def unkinded_answer(operation: str, result: Json) -> Json:
    """Return an operation's 1.0 result as the client expects it."""
    if operation in SENDS:
        return unkinded_event(result)
    found: Json = rpc_answer(operation, result)
    return found


def unkinded_event(wrapped: Json) -> Json:
    """Return a 1.0 StreamResponse with 0.3's words."""
    return {name: _in_old_words(name, content) for name, content in wrapped.items()}


def _in_old_words(name: str, content: Json) -> Json:
    if name == "message":
        return _message_in_old_words(content)
    found = dict(content)
    if "status" in found:
        status = dict(found["status"])
        status["state"] = status["state"].removeprefix(_STATE).lower().replace("_", "-")
        if "message" in status:
            status["message"] = _message_in_old_words(status["message"])
        found["status"] = status
    if "history" in found:
        found["history"] = list(map(_message_in_old_words, found["history"]))
    return found


def _message_in_old_words(message: Json) -> Json:
    return {**message, "role": message["role"].removeprefix(_ROLE).lower()}
