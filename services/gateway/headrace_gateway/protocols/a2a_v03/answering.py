"""Results and events as 0.3 has them: with ``kind`` (JSON-RPC), or as its protobuf."""

from collections.abc import Callable, Mapping
from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2, conversions, proto_utils, types
from a2a.types import a2a_pb2
from a2a.utils.errors import InvalidAgentResponseError
from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message
from pydantic import BaseModel

from headrace.model.events import Json
from headrace.model.whole_numbers import whole

type Said = types.Task | types.Message | types.TaskStatusUpdateEvent | types.TaskArtifactUpdateEvent
"""An event of 0.3."""


def event_of(event: Json) -> Said:
    """Return a StreamResponse, or a SendMessageResponse, of 1.0 as an event of 0.3.

    Raises:
        InvalidAgentResponseError: it can't be said in 0.3.
    """
    core = _core(a2a_pb2.StreamResponse, event)
    said: Said = _turned(conversions.to_compat_stream_response, core).result
    # The stream ends there too, which is what the field is for.
    if isinstance(said, types.TaskStatusUpdateEvent):
        said.final = said.final or said.status.state == types.TaskState.input_required
    return said


def rpc_event(event: Json) -> Json:
    """Return the result of a JSON-RPC response that is one event of a stream."""
    return dumped(event_of(event))


def rpc_answer(operation: str, result: Json) -> Any:  # noqa: ANN401 - any JSON
    """Return the result of a JSON-RPC response.

    Raises:
        InvalidAgentResponseError: it can't be said in 0.3.
    """
    if operation == "SendMessage":
        return rpc_event(result)
    if operation == "DeleteTaskPushNotificationConfig":
        return None
    if operation == "ListTaskPushNotificationConfigs":
        return [dumped(config) for config in _configs(result)]
    if operation not in _MODELS:
        # A card: it says the same to clients of every version.
        return result
    return dumped(_model(operation, result))


def rest_event(event: Json) -> Json:
    """Return a StreamResponse in the JSON of 0.3's protobuf."""
    return as_json(proto_utils.ToProto.stream_response(event_of(event)))


def rest_answer(operation: str, result: Json) -> Json:
    """Return a result in the JSON of 0.3's protobuf; an agent's card is as it always was.

    Raises:
        InvalidAgentResponseError: it can't be said in 0.3.
    """
    if operation == "GetExtendedAgentCard":
        return dumped(_model(operation, result))
    return as_json(proto_answer(operation, result))


def proto_answer(operation: str, result: Json) -> Message:
    """Return a result as 0.3's protobuf.

    Raises:
        InvalidAgentResponseError: it can't be said in 0.3.
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
    return _TO_PROTO[operation](_model(operation, result))


def dumped(model: BaseModel) -> Json:
    """Return a model of 0.3 as the JSON that goes over the wire."""
    content: Json = whole(model.model_dump(mode="json", by_alias=True, exclude_none=True))
    return content


def as_json(message: Message) -> Json:
    """Return a protobuf of 0.3 as JSON."""
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
    "GetExtendedAgentCard": (a2a_pb2.AgentCard, conversions.to_compat_agent_card),
}

_TO_PROTO: Mapping[str, Callable[[Any], Message]] = {
    "GetTask": proto_utils.ToProto.task,
    "CancelTask": proto_utils.ToProto.task,
    "CreateTaskPushNotificationConfig": proto_utils.ToProto.task_push_notification_config,
    "GetTaskPushNotificationConfig": proto_utils.ToProto.task_push_notification_config,
    "GetExtendedAgentCard": proto_utils.ToProto.agent_card,
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
    except (ParseError, ValueError, TypeError, RecursionError) as trouble:
        raise _unsaid(trouble) from None


def _turned(turn: Callable[[Any], Any], core: Message) -> Any:  # noqa: ANN401 - as generated
    try:
        return turn(core)
    except (ValueError, TypeError, KeyError) as trouble:
        raise _unsaid(trouble) from None


def _unsaid(trouble: Exception) -> InvalidAgentResponseError:
    return InvalidAgentResponseError(f"the answer does not fit A2A 0.3: {trouble}"[:300])
