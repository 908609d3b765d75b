"""A2A's operations by name: what the JSON-RPC binding calls them, and gRPC too."""

from collections.abc import Awaitable, Callable, Mapping

from a2a.utils.errors import PushNotificationNotSupportedError, UnsupportedOperationError

from headrace.events import Json
from headrace_gateway.a2a.answering import send_message
from headrace_gateway.a2a.call import Call
from headrace_gateway.a2a.reading import cancel_task, get_task, list_tasks
from headrace_gateway.a2a.sending import send_streaming
from headrace_gateway.a2a.streaming import Streaming
from headrace_gateway.a2a.subscribing import subscribe
from headrace_gateway.services import Services

type Unary = Callable[[Services, Call, object], Awaitable[Json]]
"""From raw parameters to a result; raises what `problems` knows how to tell."""

type ServerStreaming = Callable[[Services, Call, object], Awaitable[Streaming]]


async def _no_push(services: Services, call: Call, params: object) -> Json:  # noqa: ARG001 - refused whatever it says
    raise PushNotificationNotSupportedError(f"agent {call.agent} sends no push notifications")


async def _no_extended_card(services: Services, call: Call, params: object) -> Json:  # noqa: ARG001 - as _no_push
    raise UnsupportedOperationError(f"agent {call.agent} has no extended card")


UNARY: Mapping[str, Unary] = {
    "SendMessage": send_message,
    "GetTask": get_task,
    "ListTasks": list_tasks,
    "CancelTask": cancel_task,
    "CreateTaskPushNotificationConfig": _no_push,
    "GetTaskPushNotificationConfig": _no_push,
    "ListTaskPushNotificationConfigs": _no_push,
    "DeleteTaskPushNotificationConfig": _no_push,
    "GetExtendedAgentCard": _no_extended_card,
}

STREAMING: Mapping[str, ServerStreaming] = {
    "SendStreamingMessage": send_streaming,
    "SubscribeToTask": subscribe,
}
