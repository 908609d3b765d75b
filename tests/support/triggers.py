"""A user's stream of orders and its trigger, and the tasks that begin."""

import json
from dataclasses import dataclass

from nats.js.api import StreamConfig

from headrace.directory import Directory
from headrace.jetstream.connection import Bus
from headrace.model.events import Json
from headrace.settings import RunLimitSettings
from headrace.tasks.admission import Admission, RunLimits
from headrace.trigger_spec import TriggerSpec
from headrace.triggers import Trigger, TriggerStore
from headrace_triggers.firing import Firings
from tests.support.waiting import eventually


@dataclass(frozen=True, slots=True)
class Orders:
    """A stream ``<name>`` on ``<name>.>``."""

    bus: Bus
    stream: str

    @classmethod
    async def make(cls, bus: Bus, name: str) -> "Orders":
        stream = f"{name}-orders"
        await bus.js.add_stream(
            StreamConfig(name=stream, subjects=[f"{stream}.>"], duplicate_window=0.1)
        )
        return cls(bus, stream)

    async def trigger(self, tenant: str = "default", **spec: object) -> Trigger:
        """Make the trigger ``orders`` of the agent ``shop``, or change it."""
        usual = {
            "name": "orders",
            "agent": "shop",
            "subject": f"{self.stream}.*",
            "stream": self.stream,
        }
        store = TriggerStore(self.bus)
        return (await store.put(TriggerSpec.model_validate(usual | spec), tenant, "ann"))[0]

    async def publish(self, body: object, **headers: str) -> bool:
        """Store an event; return whether the stream took it for a new one."""
        data = json.dumps(body).encode()
        subject = f"{self.stream}.created"
        return not (await self.bus.js.publish(subject, data, timeout=60, headers=headers)).duplicate

    async def settled(self) -> None:
        """Return once every event is acknowledged.

        A consumer does not count an event as pending at once when it is stored, so the last one
        that it delivered counts as well.
        """

        async def is_settled() -> bool:
            last = (await self.bus.js.stream_info(self.stream)).state.last_seq
            found = await self.bus.js.consumers_info(self.stream)
            left = [(one.num_pending, one.num_ack_pending) for one in found]
            delivered = min((one.delivered.stream_seq for one in found if one.delivered), default=0)
            return set(left) == {(0, 0)} and delivered >= last

        await eventually(is_settled, "all events are acknowledged")


def firings(bus: Bus, directory: Directory) -> Firings:
    """Return what begins the tasks of firings, however many runs wait."""
    settings = RunLimitSettings.model_construct(max_waiting_per_agent=-1, max_waiting_per_tenant=-1)
    return Firings(bus, directory, RunLimits(Admission(bus, settings)))


async def begun(bus: Bus) -> list[Json]:
    """Return the first event of every task, in the order in which they began."""
    stream, tasks = bus.streams.events(0), list[Json]()
    last = (await bus.js.stream_info(stream)).state.last_seq
    for sequence in range(1, last + 1):
        message = await bus.js.get_msg(stream, sequence)
        first = json.loads((message.data or b"").partition(b"\n")[0])
        tasks += [first["task"]] if "task" in first else []
    return tasks
