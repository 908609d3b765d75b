"""The last run of a task that ended over its agent's head: the agent cleans up."""

import asyncio
import logging

from headrace.jetstream.connection import Bus
from headrace.model.entry import Entry
from headrace.model.errors import LogLost
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.sdk.agent import Agent
from headrace.sdk.ended import EndedTask
from headrace_worker.claim import Assignment
from headrace_worker.recovery import events_before

_log = logging.getLogger(__name__)

TIMEOUT = 10.0
"""Seconds that an agent's clean-up may take."""

PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0)
"""Seconds between its tries."""


async def clean_up(bus: Bus, agent: Agent, assignment: Assignment, end: Entry) -> None:
    """Let `agent` clean up after the task that has ended with `end`; then the run is over.

    A clean-up that fails is tried again after each of `PAUSES`: what it wants to reach may be back
    then.
    """
    if agent.clean_up is None:
        await assignment.ack(bus)
        return
    key, tries = assignment.key, assignment.message.metadata.num_delivered
    try:
        async with asyncio.timeout(TIMEOUT):
            told = await events_before(bus, key, end.sequence)
            request = assignment.request
            await agent.clean_up(
                EndedTask(key, request.context, request.owner, _folded(told), told)
            )
    except LogLost as loss:
        _log.info("task %s is gone: %s", key.task, loss)
    except Exception as error:  # noqa: BLE001  # an agent's
        if tries <= len(PAUSES):
            pause = PAUSES[tries - 1]
            _log.warning("task %s: clean-up, again in %g s: %r", key.task, pause, error)
            await assignment.give_back(bus, pause)
            return
        _log.error("task %s: the agent could not clean up", key.task, exc_info=error)
    await assignment.ack(bus)


def _folded(told: list[tuple[int, Json]]) -> Json:
    fold = TaskFold()
    for _, event in told:
        fold.apply(event)
    return fold.task()
