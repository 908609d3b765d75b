"""Stopping a run for all who watch it: closing a stream stops nothing."""

from typing import NamedTuple

from headrace_gateway.call import Call
from headrace_gateway.protocols.agui.named_run import NamedRun
from headrace_gateway.protocols.agui.threads import Thread
from headrace_gateway.refusals import TaskEnded
from headrace_gateway.services import Services


class Stopped(NamedTuple):
    """A run that goes on no more."""

    run: str
    was_going_on: bool
    """False: it was over before."""


async def stop(services: Services, call: Call, named: NamedRun) -> Stopped:
    """Cancel the task of the run that is named, or of the thread's newest.

    Raises:
        RunUnknown: the caller has no such run.
        HeadraceError: as `Access.check`, `Thread` and `Cancelling.cancel`.
    """
    services.access.check(call.caller, call.agent, "CancelTask")
    thread = Thread(services, call, named.thread)
    found = await (thread.find(named.run) if named.run else thread.newest())
    try:
        await services.cancelling.cancel(call.caller, call.agent, found.key.task)
    except TaskEnded:
        return Stopped(found.run.id, was_going_on=False)
    return Stopped(found.run.id, was_going_on=True)
