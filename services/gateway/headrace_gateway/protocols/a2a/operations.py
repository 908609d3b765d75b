"""A2A's operations by the names that JSON-RPC and gRPC use."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

from a2a.types import a2a_pb2
from a2a.utils.errors import TaskNotCancelableError
from google.protobuf.message import Message

from headrace.model import messages
from headrace.model.events import Json
from headrace.model.task import TERMINAL, TaskKey
from headrace_gateway.call import Call, keyed_request, listed_owner
from headrace_gateway.extensions import TIMELINES
from headrace_gateway.feeds import FeedBlock
from headrace_gateway.protocols.a2a.cards import extended_card
from headrace_gateway.protocols.a2a.messages import (
    check_streaming,
    input_metadata,
    send_message,
    send_streaming,
)
from headrace_gateway.protocols.a2a.parameters import (
    ForkTaskParams,
    history_length,
    list_filters,
)
from headrace_gateway.protocols.a2a.protojson import read
from headrace_gateway.protocols.a2a.push_configs import (
    create_config,
    delete_config,
    get_config,
    list_configs,
)
from headrace_gateway.protocols.a2a.timelines import with_timeline
from headrace_gateway.refusals import TaskEnded
from headrace_gateway.services import Services
from headrace_gateway.streaming.renderer import Messages, Renderer
from headrace_gateway.streaming.wait import Wait
from headrace_gateway.tasks.fork import ForkRequest
from headrace_gateway.tasks.ids import query_of, task_key
from headrace_gateway.tasks.subscribe import OpenedStream
from headrace_gateway.tasks.terms import check_parts


async def get_task(services: Services, call: Call, params: object) -> Json:
    """Return the A2A Task; if the client has its current generation, wait for a change (long poll).

    Raises:
        Malformed: the parameters do not fit the operation.
        TaskUnknown: the caller has no such task with this agent.
        ClientDisconnect: the client has disconnected.
        StateUnavailable: try again; the task may not be known yet.
    """
    request = read(a2a_pb2.GetTaskRequest, params)
    key = task_key(services.settings, call.caller, call.agent, request["id"])
    query = query_of(call.caller, key, "GetTask", history_length=history_length(request))
    found = await services.state.get(query)
    known = request.get("currentGeneration")  # The client has it, and waits for a newer one.
    if known is not None and found.generation <= known and found.state not in TERMINAL:
        await _newer(services, call, found, known)
        found = await services.state.get(query)
    length = request.get("timelineLength")
    if length is None and TIMELINES not in call.extensions:
        return found.task
    return await with_timeline(services, call, found, length)


async def _newer(services: Services, call: Call, found: messages.TaskFound, known: int) -> None:
    """Return when the task's generation exceeds `known`, its log ends, or the time is up.

    It also returns when the gateway stops: the client gets the current Task and can ask another
    gateway.
    """
    key = TaskKey(call.caller.tenant, found.agent, found.task["id"])
    async with await services.feeds.open(key) as feed:
        wait = Wait(services.subscriptions, feed, found.generation, _Newer(known))
        with suppress(TimeoutError):
            async with asyncio.timeout(services.settings.long_poll):
                why = await wait.over(call.disconnects)
                if why is not None and why.error is not None:
                    raise why.error


class _Newer(Renderer):
    """Renders nothing, and is over at the first event after a generation."""

    def __init__(self, known: int) -> None:
        """Wait for an event after generation `known`."""
        self._known = self._newest = known

    def render(self, blocks: Sequence[FeedBlock], after: int) -> Messages:  # noqa: ARG002 - any event counts
        """Record the newest generation."""
        self._newest = blocks[-1].entry.last_generation
        return ()

    def is_over(self, *, run_ended: bool) -> bool:  # noqa: ARG002 - any event counts
        """Return whether a newer event exists."""
        return self._newest > self._known


async def list_tasks(services: Services, call: Call, params: object) -> Json:
    """Return an A2A ListTasksResponse.

    Raises:
        Malformed: the parameters do not fit the operation.
        InvalidName: the page token is invalid, or the owner.
        NotPermitted: the caller is no operator, and asks for another owner's tasks.
        StateUnavailable: try again.
    """
    filters, owner = list_filters(params), listed_owner(call)
    query = messages.ListTasks(
        tenant=call.caller.tenant,
        owner=owner or call.caller.owner,
        any_owner=owner is None,
        agents=[call.agent],
        **filters,
    )
    found = await services.state.list(query)
    return {
        "tasks": found.tasks,
        "nextPageToken": found.next_page_token,
        "pageSize": found.page_size,
        "totalSize": found.total_size,
    }


async def cancel_task(services: Services, call: Call, params: object) -> Json:
    """Cancel the task and return it in its state after that.

    Raises:
        Malformed: the parameters do not fit the operation.
        TaskUnknown: the caller has no such task with this agent.
        TaskNotCancelableError: the task had already ended.
        BusUnavailable, StateUnavailable: try again.
    """
    key = _key_in(services, call, a2a_pb2.CancelTaskRequest, params)
    try:
        return (await services.canceler.cancel(call.caller, key)).task
    except TaskEnded as ended:
        raise TaskNotCancelableError(str(ended)) from ended


async def delete_task(services: Services, call: Call, params: object) -> Json:
    """Cancel the task if it has not ended, erase all its data, and return an Empty.

    This operation is not part of A2A but of an extension (`DELETION`).

    Raises:
        Malformed: the parameters do not fit the operation.
        TaskUnknown: the caller has no such task with this agent.
        BusUnavailable, StateUnavailable: try again.
    """
    key = _key_in(services, call, a2a_pb2.CancelTaskRequest, params)
    await services.deleter.delete(call.caller, key)
    return {}


async def fork_task(services: Services, call: Call, params: object) -> Json:
    """Begin a fork of the caller's task and return it, without waiting for its run.

    An operation of an extension (`FORKS`).

    Raises:
        Malformed: the parameters do not fit the operation, or the task has no such generation.
        ContentTypeNotSupportedError: the agent does not accept a part of the message.
        TaskUnknown: the caller has no such task with this agent, or its beginning is gone.
        KeyReused, TooManyWaiting, EventTooLarge, Unsettled: as SendMessage.
        BusUnavailable, StateUnavailable: try again.
    """
    parameters = ForkTaskParams.read(params)
    source = task_key(services.settings, call.caller, call.agent, parameters.task)
    message, metadata = None, None
    if parameters.sending is not None:
        message, metadata = parameters.sending.message, input_metadata(call, parameters.sending)
        check_parts(message, call.card)
    keyed = keyed_request(call, parameters.fingerprint)
    traceparent = call.traceparent or None
    request = ForkRequest(
        call.caller, source, parameters.generation, message, metadata, traceparent, keyed
    )
    key, _ = await services.forker.fork(request)
    return (await services.state.get(query_of(call.caller, key))).task


async def subscribe(services: Services, call: Call, params: object) -> OpenedStream:
    """Return the stream of the caller's task, after the call's cursor if it has one.

    Raises:
        UnsupportedOperationError: the agent does not support streaming.
        Malformed: the parameters do not fit the operation.
        NothingFollows, HeadraceError: as `TaskStreams.open`.
    """
    check_streaming(call)
    key = _key_in(services, call, a2a_pb2.SubscribeToTaskRequest, params)
    # Cursors of streams whose message came in a URL start with the task's id.
    cursor = call.cursor.removeprefix(f"{key.task}/")
    return await services.task_streams.open(call.caller, key, cursor)


def _key_in(services: Services, call: Call, kind: type[Message], params: object) -> TaskKey:
    """Return the key of the task that a request names by its ``id``."""
    return task_key(services.settings, call.caller, call.agent, read(kind, params)["id"])


type Unary = Callable[[Services, Call, object], Coroutine[Any, Any, Json]]
"""Turns raw parameters into a result; raises errors that `problems` has codes for."""

type ServerStreaming = Callable[[Services, Call, object], Coroutine[Any, Any, OpenedStream]]


UNARY: Mapping[str, Unary] = {
    "SendMessage": send_message,
    "GetTask": get_task,
    "ListTasks": list_tasks,
    "CancelTask": cancel_task,
    "DeleteTask": delete_task,
    "ForkTask": fork_task,
    "CreateTaskPushNotificationConfig": create_config,
    "GetTaskPushNotificationConfig": get_config,
    "ListTaskPushNotificationConfigs": list_configs,
    "DeleteTaskPushNotificationConfig": delete_config,
    "GetExtendedAgentCard": extended_card,
}

STREAMING: Mapping[str, ServerStreaming] = {
    "SendStreamingMessage": send_streaming,
    "SubscribeToTask": subscribe,
}
"""Both by name. A call runs the one of its `operation`, for which it has passed access control."""
