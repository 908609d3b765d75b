"""Having an agent clean up after a task that ended while nobody was at work on it.

An agent that has begun something elsewhere ends it when its run is stopped. A task that waits for
its user has no run at work, nor has one whose worker is dead: whoever ends it over the agent's head
asks for a last run, named after the generation of the end. Its worker calls the agent's `clean_up`.
"""

import logging

from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket
from headrace.model.agent_card import AgentCard
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable, UndecodableMessage
from headrace.model.messages import RunRequest
from headrace.model.task import TaskKey
from headrace.tasks.runs import RunRequests

_log = logging.getLogger(__name__)


async def have_cleaned_up(bus: Bus, key: TaskKey, last: Entry, context: str, owner: str) -> None:
    """Ask for it, where somebody has begun the task and its agent cleans up.

    `last` is the entry behind which the end was appended. Should NATS not take the run, that is
    logged: the task has ended all the same.
    """
    if last.stamp.attempt == 0 and last.stamp.run == 1:
        return
    try:
        await _ask(bus, key, last, context, owner)
    except BusUnavailable as trouble:
        _log.warning("task %s: its agent can't clean up: %s", key.task, trouble)


async def _ask(bus: Bus, key: TaskKey, last: Entry, context: str, owner: str) -> None:
    if not await _cleans_up(bus, key.agent):
        return
    request = RunRequest(log=last.stamp.log, context=context, owner=owner)
    await RunRequests(bus).publish(key, last.last_generation + 1, request)


async def _cleans_up(bus: Bus, agent: str) -> bool:
    value = await Bucket(bus, bus.streams.agents).get(f"card.{agent}")
    try:
        return value.data is not None and AgentCard.decode(agent, value.data).cleans_up
    except UndecodableMessage:
        return False
