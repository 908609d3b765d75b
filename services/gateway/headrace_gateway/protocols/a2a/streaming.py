"""SubscribeToTask, and what every streaming operation asks first."""

from a2a.utils.errors import UnsupportedOperationError

from headrace_gateway.call import Call
from headrace_gateway.protocols.a2a.parameters import OneTask
from headrace_gateway.services import Services
from headrace_gateway.tasks.ids import task_key
from headrace_gateway.tasks.subscribe import TaskStream


def check_streaming(call: Call) -> None:
    """Return if the agent's card offers streams.

    Raises:
        UnsupportedOperationError: it does not.
    """
    if not call.card.streaming:
        raise UnsupportedOperationError(f"agent {call.agent} offers no streams")


async def subscribe(services: Services, call: Call, params: object) -> TaskStream:
    """Return the caller's stream of the task, behind the call's cursor if it has one.

    Raises:
        Malformed: the parameters are not the operation's.
        UnsupportedOperationError, NothingLeft, HeadraceError: as `TaskStreams.open`.
    """
    check_streaming(call)
    asked = OneTask.of_subscribe(params)
    key = task_key(services.settings, call.caller, call.agent, asked.task)
    # Streams whose message stood in a URL say in their cursors whose task it is.
    cursor = call.cursor.removeprefix(f"{key.task}/")
    return await services.task_streams.open(call.caller, key, cursor)
