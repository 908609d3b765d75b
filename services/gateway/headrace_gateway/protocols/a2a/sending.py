"""SendStreamingMessage: the message into the log, and the log's events to the client."""

from headrace.model.events import Json
from headrace.model.messages import TaskFound
from headrace_gateway.call import Call
from headrace_gateway.protocols.a2a.accepting import accept, answering
from headrace_gateway.protocols.a2a.bare_messages import bare_answer
from headrace_gateway.protocols.a2a.parameters import SendMessage
from headrace_gateway.protocols.a2a.streaming import check_streaming
from headrace_gateway.services import Services
from headrace_gateway.tasks.accepted import Accepted
from headrace_gateway.tasks.subscribe import Snapshot, TaskStream


def with_history(task: Json, length: int | None) -> Json:
    """Return `task` with the `length` latest messages of its history; None: all, 0: no history."""
    if length is None or len(task.get("history", ())) <= length:
        return task
    rest = {key: value for key, value in task.items() if key != "history"}
    return rest | ({"history": task["history"][-length:]} if length else {})


async def send_streaming(services: Services, call: Call, params: object) -> TaskStream:
    """Accept the message and return the stream of what comes of it.

    Raises:
        Malformed: the parameters are not the operation's.
        NothingLeft: it was sent before, and the client's cursor is at its end.
        UnsupportedOperationError: the agent's card offers no streams.
        A2AError, HeadraceError: as `accept`.
    """
    check_streaming(call)
    asked = SendMessage.read(params)
    accepted = await accept(services, call, asked)
    async with services.feeds.handed_on(accepted.feed):
        with answering(call, accepted):
            return await _streamed(services, call, asked, accepted)


async def _streamed(
    services: Services, call: Call, asked: SendMessage, accepted: Accepted
) -> TaskStream:
    if accepted.again and call.cursor:
        return await _resumed(services, call, accepted)
    if accepted.snapshot is not None:
        return _continued(accepted, accepted.snapshot, asked.history_length)
    if call.card.bare_message and not asked.return_immediately:
        message = await bare_answer(accepted.feed)
        if message is not None:
            return TaskStream(accepted.feed, message - 1, accepted.log)
    return await _started(accepted, asked.history_length)


async def _resumed(services: Services, call: Call, accepted: Accepted) -> TaskStream:
    """What was sent before goes on behind the client's cursor."""
    streaming = await services.task_streams.open(call.caller, accepted.key, call.cursor)
    await services.feeds.release(accepted.feed)
    return streaming


def _continued(accepted: Accepted, snapshot: TaskFound, history_length: int | None) -> TaskStream:
    """A follow-up's stream begins with the Task as it was just before."""
    task = with_history(snapshot.task, history_length)
    first = Snapshot(snapshot.generation, {"task": task})
    return TaskStream(accepted.feed, snapshot.generation, accepted.log, first, task_shown=True)


async def _started(accepted: Accepted, history_length: int | None) -> TaskStream:
    """A new task's stream is its log from generation 1, unless the history is not wanted."""
    if history_length != 0:
        return TaskStream(accepted.feed, 0, accepted.log, task_shown=True)
    (block, *_) = await accepted.feed.reader(0).read()
    task: Json = with_history(block.entry.events[0]["task"], 0)
    return TaskStream(accepted.feed, 1, accepted.log, Snapshot(1, {"task": task}), task_shown=True)
