"""A run for a thread in which the agent is at work already: its policy says what becomes of it.

Runs of a thread are tasks of their own, each with its stream and its end. So an agent that enqueues
messages gets the new task when the others are over; one that is steered does, too.
"""

import asyncio
from contextlib import suppress
from itertools import chain

from headrace.model.task import SUBMITTED, WORKING
from headrace_gateway.call import Call
from headrace_gateway.protocols.agui.refusal import ThreadBusy
from headrace_gateway.protocols.agui.threads import Thread
from headrace_gateway.refusals import TaskEnded
from headrace_gateway.services import Services

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
