"""Lanes: the runs of one agent that wait in one line, those of one tenant and one priority.

Each lane is a consumer of the work queue, so that workers can take turns between them: however many
runs one tenant has waiting, another's first one is next. The lane of the tenant without a name is
made by workers as they start; every other one by who first asks for a run of it. Workers in an
account without streams have task state make lanes.
"""

import asyncio

from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import consumer_info
from headrace.jetstream.durables import ensure_consumer, of_runs
from headrace.jetstream.errors import ErrorCode, Refused
from headrace.model.errors import BusUnavailable, StateUnavailable, StreamsDiffer
from headrace.model.messages import OpenLane
from headrace.model.queues import Lane
from headrace.state_client import StateClient

REMEMBERED = 60.0
"""Seconds for which a lane that was there is taken to be there still."""

UNUSED = 600.0
"""Seconds without a run after which a lane is let go; many times `REMEMBERED`, so that nobody who
takes it to be there has one to publish."""


async def ensure_lane(bus: Bus, lane: Lane, timeout: float = 5.0) -> None:
    """Make the lane, if it is not there, or have task state make it where this process may not.

    Raises:
        BusUnavailable: JetStream or task state does not answer, or refuses.
        StreamsDiffer: it is there and breaks the bus contract.
    """
    try:
        await make_lane(bus, lane, timeout)
    except Refused as refused:
        if refused.number != ErrorCode.NOT_ENABLED_FOR_ACCOUNT:
            raise
        await _have_made(bus, lane, timeout)


async def _have_made(bus: Bus, lane: Lane, timeout: float) -> None:
    try:
        await consumer_info(bus, bus.streams.runs, lane.consumer, timeout)
    except Refused as refused:
        if refused.number == ErrorCode.CONSUMER_NOT_FOUND:
            await _ask_for(bus, lane)
            return
        if refused.number != ErrorCode.NOT_ENABLED_FOR_ACCOUNT:
            raise
        raise BusUnavailable(no_right_to(lane.consumer)) from refused


def no_right_to(consumer: str) -> str:
    """Return what to say of a lane that this process' NATS account keeps from it."""
    return (
        f"NATS gives this worker no right to the lane {consumer}: add its agent, or its tenant, to "
        "the worker's group (headrace nats-permissions)"
    )


async def _ask_for(bus: Bus, lane: Lane) -> None:
    wanted = OpenLane(tenant=lane.tenant, agent=lane.agent, priority=lane.priority)
    try:
        await StateClient(bus).open_lane(wanted)
    except StateUnavailable as trouble:
        raise BusUnavailable(f"the lane {lane.consumer}: {trouble}") from trouble


async def make_lane(bus: Bus, lane: Lane, timeout: float = 5.0) -> None:
    """Make the lane's consumer of the work queue, if it is not there, within `timeout` seconds.

    Raises:
        StreamsDiffer: it is there and breaks the bus contract.
        BusUnavailable: JetStream does not answer, or refuses.
    """
    config = of_runs(bus.subjects, lane)
    await ensure_consumer(bus, bus.streams.runs, config, timeout)


class Lanes:
    """Where somebody who publishes runs makes sure that they find a lane."""

    def __init__(self, bus: Bus) -> None:
        """Make lanes on `bus`."""
        self._bus = bus
        self._known: dict[Lane, float] = {}

    async def open(self, lane: Lane) -> None:
        """Return once there is the lane; who published into it lately is not held up.

        Raises:
            BusUnavailable: JetStream does not answer, or refuses.
        """
        now = asyncio.get_running_loop().time()
        if now - self._known.get(lane, -REMEMBERED) < REMEMBERED:
            return
        try:
            await ensure_lane(self._bus, lane)
        except StreamsDiffer as trouble:
            raise BusUnavailable(f"the lane {lane.consumer}: {trouble}") from trouble
        self._known = {one: at for one, at in self._known.items() if now - at < REMEMBERED}
        self._known[lane] = now
        await self._bus.publish(self._bus.subjects.lane(lane.agent), b"")
