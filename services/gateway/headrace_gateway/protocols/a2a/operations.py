"""A2A's operations by name: what the JSON-RPC binding calls them, and gRPC too."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from a2a.utils.errors import UnsupportedOperationError

from headrace.metrics import REQUEST_SECONDS
from headrace.model.events import Json
from headrace_gateway.call import Call
from headrace_gateway.protocols.a2a.cards import extended_card
from headrace_gateway.protocols.a2a.messages import send_message, send_streaming
from headrace_gateway.protocols.a2a.push_configs import (
    create_config,
    delete_config,
    get_config,
    list_configs,
)
from headrace_gateway.protocols.a2a.reading import (
    cancel_task,
    delete_task,
    get_task,
    list_tasks,
    subscribe,
)
from headrace_gateway.services import Services
from headrace_gateway.tasks.subscribe import TaskStream

type Unary = Callable[[Services, Call, object], Coroutine[Any, Any, Json]]
"""From raw parameters to a result; raises what `problems` has a code for."""

type ServerStreaming = Callable[[Services, Call, object], Coroutine[Any, Any, TaskStream]]


_UNARY: Mapping[str, Unary] = {
    "SendMessage": send_message,
    "GetTask": get_task,
    "ListTasks": list_tasks,
    "CancelTask": cancel_task,
    "DeleteTask": delete_task,
    "CreateTaskPushNotificationConfig": create_config,
    "GetTaskPushNotificationConfig": get_config,
    "ListTaskPushNotificationConfigs": list_configs,
    "DeleteTaskPushNotificationConfig": delete_config,
    "GetExtendedAgentCard": extended_card,
}

_STREAMING: Mapping[str, ServerStreaming] = {
    "SendStreamingMessage": send_streaming,
    "SubscribeToTask": subscribe,
}


def _timed[Result](
    name: str, operation: Callable[[Services, Call, object], Coroutine[Any, Any, Result]]
) -> Callable[[Services, Call, object], Coroutine[Any, Any, Result]]:
    seconds = REQUEST_SECONDS.labels(name)

    async def timed(services: Services, call: Call, params: object) -> Result:
        if call.operation != name:
            raise LookupError(f"a call of {call.operation} can't carry out {name}")
        with seconds.time():
            return await operation(services, call, params)

    return timed


def _offered(operation: ServerStreaming) -> ServerStreaming:
    """Return `operation` for agents whose cards offer streams."""

    async def streaming(services: Services, call: Call, params: object) -> TaskStream:
        if not call.card.streaming:
            raise UnsupportedOperationError(f"agent {call.agent} offers no streams")
        return await operation(services, call, params)

    return streaming


UNARY: Mapping[str, Unary] = {name: _timed(name, one) for name, one in _UNARY.items()}
STREAMING: Mapping[str, ServerStreaming] = {
    name: _timed(name, _offered(one)) for name, one in _STREAMING.items()
}
