"""SendMessage: the message into the log, and one answer when the task rests."""

from headrace.model.entry import ANSWERED, Entry
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.messages import GetTask
from headrace.model.task import INTERRUPTED, TERMINAL
from headrace_gateway.call import Call
from headrace_gateway.protocols.a2a.accepting import accept, answering
from headrace_gateway.protocols.a2a.parameters import SendMessage
from headrace_gateway.services import Services
from headrace_gateway.streaming.wait import Waiting
from headrace_gateway.tasks.accepted import Accepted

_RESTS = TERMINAL | INTERRUPTED | {ANSWERED}


async def send_message(services: Services, call: Call, params: object) -> Json:
    """Accept the message and return a SendMessageResponse: a Task, or a bare Message.

    Unless it is to return immediately it waits until the task is over or waits for its user.

    Raises:
        Malformed: the parameters are not the operation's.
        ClientDisconnect, Unanswered: nobody waits any more, or nothing more can be read; the task
            goes on.
        A2AError, HeadraceError: as `accept`.
    """
    asked = SendMessage.read(params)
    accepted = await accept(services, call, asked)
    try:
        with answering(call, accepted):
            if accepted.snapshot is None:
                return await _begun(services, call, accepted, asked)
            return {"task": await _continued(services, call, accepted, asked)}
    finally:
        await services.feeds.release(accepted.feed)


async def _begun(services: Services, call: Call, accepted: Accepted, asked: SendMessage) -> Json:
    """Fold a new task from its log, all of which passes here: no need to ask for it."""
    fold = TaskFold()
    async with Waiting(
        services.streams,
        accepted.feed,
        0,
        accepted.context,
        call.receive,
        services.full_streams,
    ) as waiting:
        while entries := await waiting.read():
            for entry in entries:
                fold.apply_entry(entry)
            if _rests(accepted, entries[-1]) or (
                asked.return_immediately and entries[-1].last_generation >= accepted.feed.head
            ):
                break
    if fold.state == ANSWERED and not asked.return_immediately:
        return {"message": entries[-1].events[-1]["message"]}
    return {"task": fold.task(asked.history_length)}


async def _continued(
    services: Services, call: Call, accepted: Accepted, asked: SendMessage
) -> Json:
    """Ask for a task whose past is not known here."""
    if not asked.return_immediately:
        after = accepted.generation - 1
        async with Waiting(
            services.streams,
            accepted.feed,
            after,
            accepted.context,
            call.receive,
            services.full_streams,
        ) as waiting:
            while entries := await waiting.read():
                if _rests(accepted, entries[-1]):
                    break
    query = GetTask(
        tenant=call.caller.tenant,
        owner=call.caller.owner,
        agent=call.agent,
        task=accepted.key.task,
        history_length=asked.history_length,
    )
    return (await services.state.get(query)).task


def _rests(accepted: Accepted, newest: Entry) -> bool:
    """Whether the task waits for somebody, or is over, as far as anybody knows."""
    return newest.stamp.state in _RESTS and newest.last_generation == accepted.feed.head
