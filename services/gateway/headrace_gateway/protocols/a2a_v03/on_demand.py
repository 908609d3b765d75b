"""A2A 0.3 as the gateway offers it: in the JSON bindings, and over gRPC (``a2a.v1.A2AService``).

What serves it is loaded with its first request: the SDK's models of it are a large import.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.utils.constants import PROTOCOL_VERSION_0_3

from headrace.lazy import Lazy
from headrace.model.events import Json
from headrace_gateway.feeds import EntryRenderer
from headrace_gateway.protocols.a2a.grpc.forms import EventMessages
from headrace_gateway.protocols.a2a.versions import OldVersion

if TYPE_CHECKING:
    from headrace_gateway.protocols.a2a_v03.rpc_messages import RpcMessages


def _version() -> OldVersion:
    from headrace_gateway.protocols.a2a_v03.bindings import VERSION  # noqa: PLC0415 - see above

    return VERSION


def _rpc_messages() -> "RpcMessages":
    from headrace_gateway.protocols.a2a_v03.rpc_messages import RpcMessages  # noqa: PLC0415 - see above

    return RpcMessages()


JSON_BINDINGS = Lazy(_version)
"""0.3 in the JSON bindings and in agent cards."""

_RPC_MESSAGES = Lazy(_rpc_messages)

_OPERATIONS: Mapping[str, str] = {
    "SendMessage": "SendMessage",
    "SendStreamingMessage": "SendStreamingMessage",
    "GetTask": "GetTask",
    "CancelTask": "CancelTask",
    "TaskSubscription": "SubscribeToTask",
    "CreateTaskPushNotificationConfig": "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig": "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfig": "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig": "DeleteTaskPushNotificationConfig",
    "GetAgentCard": "GetExtendedAgentCard",
}


class OldForm:
    """The 0.3 service, which addresses tasks and push configurations by resource names."""

    version = PROTOCOL_VERSION_0_3

    def __init__(self) -> None:
        """Read the service descriptor."""
        self.service = a2a_v0_3_pb2.DESCRIPTOR.services_by_name["A2AService"].full_name
        self.operations: Mapping[str, str] = _OPERATIONS
        self.entry_renderer: EntryRenderer = EventMessages(self.event)

    async def load(self) -> None:
        """See `Form.load`."""
        await _RPC_MESSAGES.ready()

    def read(self, method: str, request: bytes) -> Json:
        """See `Form.read`.

        Raises:
            Malformed: a resource name is invalid, or the parameters do not fit the operation.
        """
        return _RPC_MESSAGES.value.read(method, self.operations[method], request)

    def response(self, method: str, result: Json) -> bytes:
        """See `Form.answer`."""
        return _RPC_MESSAGES.value.response(self.operations[method], result)

    def event(self, event: Json, log: str, generation: int) -> bytes:
        """See `Form.event`."""
        return _RPC_MESSAGES.value.event(event, log, generation)


OLD = OldForm()
"""0.3 over gRPC."""
