"""Messages of A2A 0.3 over gRPC, through the conversions of the official SDK."""

from collections.abc import Callable, Mapping
from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2, proto_utils
from a2a.utils.errors import A2AError, InvalidParamsError
from google.protobuf.message_factory import GetMessageClass
from pydantic import BaseModel, ValidationError

from headrace.model.events import Json
from headrace_gateway.protocols.a2a.grpc.forms import parsed, with_cursor
from headrace_gateway.protocols.a2a_v03.requests import SENDS, config_to_set, rpc_params
from headrace_gateway.protocols.a2a_v03.responses import event_of, proto_answer
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.tasks.ids import mint_message_id

_FROM = proto_utils.FromProto

_READ: Mapping[str, Callable[[Any], BaseModel]] = {
    "SendMessage": _FROM.message_send_params,
    "SendStreamingMessage": _FROM.message_send_params,
    "GetTask": _FROM.task_query_params,
    "CancelTask": _FROM.task_id_params,
    "TaskSubscription": _FROM.task_id_params,
    "CreateTaskPushNotificationConfig": config_to_set,
}


class RpcMessages:
    """The messages of 0.3's service."""

    def __init__(self) -> None:
        """Read the service descriptor."""
        service = a2a_v0_3_pb2.DESCRIPTOR.services_by_name["A2AService"]
        self._inputs = {m.name: GetMessageClass(m.input_type) for m in service.methods}

    def read(self, method: str, operation: str, request: bytes) -> Json:
        """Return the parameters of a method's operation.

        Raises:
            InvalidRequestError: the bytes are not a valid request message.
            Malformed: a resource name is invalid, or the parameters do not fit the operation.
        """
        message: Any = parsed(self._inputs[method], request)
        if operation in SENDS:
            _complete(message.request)
        try:
            params = self._params(method, message)
        except ValidationError as invalid:
            raise Malformed([Violation("", str(invalid)[:300])]) from None
        except (A2AError, ValueError) as error:
            raise Malformed([Violation("name", str(error)[:300])]) from None
        return rpc_params(operation, params)

    def response(self, operation: str, result: Json) -> bytes:
        """Serialize the operation's result.

        Raises:
            InvalidAgentResponseError: 0.3 cannot represent the result.
        """
        return proto_answer(operation, result).SerializeToString()

    def event(self, event: Json, log: str, generation: int) -> bytes:
        """Serialize a StreamResponse with its cursor.

        Raises:
            InvalidAgentResponseError: 0.3 cannot represent the event.
        """
        converted = event_of(with_cursor(event, log, generation))
        return proto_utils.ToProto.stream_response(converted).SerializeToString()

    def _params(self, method: str, message: Any) -> Json:  # noqa: ANN401 - as generated
        if method in _READ:
            return _READ[method](message).model_dump(mode="json", by_alias=True, exclude_none=True)
        if method == "ListTaskPushNotificationConfig":
            return {"id": _matched(proto_utils.TASK_NAME_MATCH, message.parent)[0]}
        if method == "GetAgentCard":
            return {}
        task, config = _matched(proto_utils.TASK_PUSH_CONFIG_NAME_MATCH, message.name)
        return {"id": task, "pushNotificationConfigId": config}


def _complete(message: Any) -> None:  # noqa: ANN401 - as generated
    """Fill in what Hector's clients omit: a message id, and the user role in place of role 0."""
    message.message_id = message.message_id or mint_message_id()
    message.role = message.role or a2a_v0_3_pb2.ROLE_USER


def _matched(pattern: Any, name: str) -> tuple[str, ...]:  # noqa: ANN401 - a compiled pattern
    found = pattern.match(name)
    if found is None:
        raise InvalidParamsError(f"{name!r} is not a valid resource name")
    groups: tuple[str, ...] = found.groups()
    return groups
