"""Requesting the clean-up of a task that ended without its agent.

An agent ends work that it started elsewhere when its run is stopped. A task that waits for its user
has no running run, nor has one whose worker is dead. The process that ends such a task publishes a
last run request, named after the generation of the end. Its worker calls the agent's `clean_up`.
"""

import logging

from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket
from headrace.log import first_entry
from headrace.model import events
from headrace.model.agent_card import AgentCard, card_key
from headrace.model.agent_route import UNPINNED
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable, UndecodableMessage
from headrace.model.run import Run, RunTerms
from headrace.model.task import TaskKey
from headrace.tasks.runs import RunRequests

_log = logging.getLogger(__name__)


async def request_clean_up(bus: Bus, key: TaskKey, last: Entry, context: str, owner: str) -> None:
    """Publish the clean-up run, if the task was started and its agent has a clean-up.

    `last` is the entry after which the end was appended. If NATS does not accept the run request, a
    warning is logged: the task has ended all the same.
    """
    if last.stamp.attempt == 0 and last.stamp.run == 1:
        return
    try:
        await _publish(bus, key, last, context, owner)
    except BusUnavailable as error:
        _log.warning("task %s: could not request the agent's clean-up: %s", key.task, error)


async def _publish(bus: Bus, key: TaskKey, last: Entry, context: str, owner: str) -> None:
    version = await _version(bus, key)
    if not await _cleans_up(bus, key.agent, version):
        return
    terms, generation = RunTerms(version=version or None), last.last_generation + 1
    run = Run(key, generation, last.stamp.log, context, owner, terms, cleans_up=True)
    await RunRequests(bus).publish(run)


async def _version(bus: Bus, key: TaskKey) -> str:
    """Return the version that began the task, which also cleans it up; empty: it is not pinned."""
    first = await first_entry(bus, key)
    metadata = {} if first is None else first.events[0].get("task", {}).get("metadata") or {}
    return str(metadata.get(events.VERSION) or UNPINNED)


async def _cleans_up(bus: Bus, agent: str, version: str) -> bool:
    value = await Bucket(bus, bus.streams.agents).get(card_key(agent, version))
    try:
        return value.data is not None and AgentCard.decode(agent, value.data).cleans_up
    except UndecodableMessage:
        return False
