"""A run for a thread in which the agent is at work already: its policy says what becomes of it.

Runs of a thread are tasks of their own, so an agent that enqueues messages works on both at a time.
"""

from contextlib import suppress

from headrace.task import SUBMITTED, WORKING
from headrace_gateway.a2a.call import Call
from headrace_gateway.agui.refusal import ThreadBusy
from headrace_gateway.agui.threads import Thread
from headrace_gateway.refusals import TaskEnded
from headrace_gateway.services import Services

_MINDED = frozenset({"interrupt", "reject"})


async def make_way(services: Services, call: Call, thread: str) -> None:
    """Return once a run may begin: what an interrupting agent is at work on has been canceled.

    Raises:
        ThreadBusy: the agent is at work in the thread, and takes nothing else meanwhile.
        StateUnavailable, BusUnavailable: try again.
    """
    card = services.directory.card(call.agent)
    if card is None or card.follow_ups not in _MINDED:
        return
    for state in (SUBMITTED, WORKING):
        async for task in Thread(services, call, thread).tasks(status=state):
            if card.follow_ups == "reject":
                raise ThreadBusy(f"thread {thread} has a run at work, and its agent takes no other")
            with suppress(TaskEnded):
                await services.cancelling.cancel(call.caller, call.agent, task["id"])
