"""Opening runs: new ones, those that go on, and those that a client comes back to."""

import asyncio
from contextlib import suppress
from itertools import chain

from headrace.model import events, parts
from headrace.model.task import SUBMITTED, WORKING
from headrace_gateway.call import Call
from headrace_gateway.protocols.agui.attaching import attach
from headrace_gateway.protocols.agui.errors import RunUnknown, ThreadBusy
from headrace_gateway.protocols.agui.history import past_of
from headrace_gateway.protocols.agui.named_run import NamedRun
from headrace_gateway.protocols.agui.opened import Opened
from headrace_gateway.protocols.agui.run_frames import RunFrames
from headrace_gateway.protocols.agui.run_input import RunInput
from headrace_gateway.protocols.agui.threads import Thread, ThreadRun
from headrace_gateway.protocols.agui.waiting import answered
from headrace_gateway.refusals import TaskEnded
from headrace_gateway.services import Services
from headrace_gateway.tasks.accepted import Accepted
from headrace_gateway.tasks.asked import FollowUp
from headrace_gateway.tasks.media import check_parts
from headrace_gateway.tasks.terms import terms

_MOST = 100
"""Tasks in each state that are looked at: the newest ones, which wait for older ones themselves."""


async def make_way(services: Services, call: Call, thread: str) -> list[str]:
    """Return the tasks that a run which begins now is to wait for.

    What an interrupting agent is at work on has been canceled, and is none of them.

    Raises:
        ThreadBusy: the agent is at work in the thread, and takes nothing else meanwhile.
        StateUnavailable, BusUnavailable: try again.
    """
    card = services.directory.card(call.agent)
    if card is None:
        return []
    busy = await _at_work(Thread(services, call, thread))
    if card.follow_ups == "reject" and busy:
        raise ThreadBusy(f"thread {thread} has a run at work, and its agent takes no other")
    if card.follow_ups != "interrupt":
        return busy
    for task in busy:
        with suppress(TaskEnded):
            await services.cancelling.cancel(call.caller, call.agent, task)
    return []


async def _at_work(thread: Thread) -> list[str]:
    waiting, working = await asyncio.gather(_of(thread, SUBMITTED), _of(thread, WORKING))
    # One that is begun in between is in both lists.
    return list(dict.fromkeys(chain(working, waiting)))


async def _of(thread: Thread, status: str) -> list[str]:
    return [task["id"] async for task in thread.tasks(_MOST, status)]


async def begin(services: Services, call: Call, asked: RunInput) -> Accepted:
    """Accept the run that `asked` describes; the caller releases its feed.

    What resumes an interrupt, or answers tool calls that a task waits for, goes on with the task.

    Raises:
        ResumeMismatch: it resumes what does not wait.
        ThreadBusy: the agent is at work in the thread, and takes nothing else meanwhile.
        A2AError, HeadraceError: as `check_parts`, `Intake.start` and `Intake.follow_up`.
    """
    _check_taken(call, asked)
    metadata = asked.metadata | call.marks
    metadata |= terms(call.caller, call.card, asked.wishes, "forwardedProps.headrace.")
    task = await answered(services, call, asked)
    if task is not None:
        follow_up = FollowUp(task, asked.message, asked.thread, metadata)
        return await services.submissions.follow_up(call.caller, call.agent, follow_up)
    if ahead := await make_way(services, call, asked.thread):
        metadata[events.BEHIND] = ahead
    return await services.submissions.start(
        call.caller, call.agent, asked.message, context=asked.thread, metadata=metadata
    )


def _check_taken(call: Call, asked: RunInput) -> None:
    """Return if the agent takes what the user said; answers to its own questions it takes.

    Raises:
        ContentTypeNotSupportedError: it does not.
    """
    if asked.resumes:
        return
    said = [p for p in asked.message["parts"] if parts.event_type(p) != parts.TOOL_CALL]
    check_parts({**asked.message, "parts": said}, call.card)


async def open_run(services: Services, call: Call, asked: RunInput) -> Opened:
    """Return the run that `asked` describes: begun or, with a cursor, come back to.

    Raises:
        CodedError, A2AError, HeadraceError: as `Access.check`, `begin` and `attach`.
    """
    services.access.check(call.caller, call.agent, "SendStreamingMessage")
    if call.cursor and (found := await _known(services, call, asked)) is not None:
        return await attach(services, call, found)
    accepted = await begin(services, call, asked)
    return Opened(accepted.feed, accepted.log, RunFrames(accepted.generation))


async def open_again(services: Services, call: Call, named: NamedRun) -> Opened:
    """Return a run that has been started; without a run's id, the thread's newest.

    Raises:
        RunUnknown: the caller has no such run.
        HeadraceError: as `Access.check`, `Thread` and `attach`.
    """
    services.access.check(call.caller, call.agent, "SubscribeToTask")
    thread = Thread(services, call, named.thread)
    if named.run is not None:
        return await attach(services, call, await thread.find(named.run))
    newest = await thread.newest()
    earlier = await past_of(thread, before=newest)
    return await attach(services, call, newest, earlier.messages)


async def _known(services: Services, call: Call, asked: RunInput) -> ThreadRun | None:
    try:
        return await Thread(services, call, asked.thread).find(asked.run)
    except RunUnknown:
        # The client lost its connection before the run began.
        return None
