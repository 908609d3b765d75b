"""Events of another NATS account or server begin tasks, as docs/events-elsewhere.md has it."""

import asyncio
import json
import re
from pathlib import Path

import nats
from nats.aio.client import Client
from nats.js.api import StreamConfig

from headrace.directory import AgentCard, Announcer
from headrace.jetstream.connection import Bus
from headrace.model.answers import TaskAnswers
from headrace.model.task import TaskKey
from headrace.settings import BusSettings
from headrace.trigger_spec import TriggerSpec
from headrace.triggers import TriggerStore
from headrace_task_state.webhooks.bus_answers import BusAnswers
from headrace_triggers.main import TriggersReplica
from headrace_triggers.settings import TriggersSettings
from tests.architecture.tree import ROOT
from tests.support.leaf_node import LeafNode
from tests.support.secured_nats import SecuredNats
from tests.support.triggers import begun
from tests.support.waiting import TIMEOUT, eventually

_PAGE = (ROOT / "docs" / "events-elsewhere.md").read_text()


def documented(language: str, about: str = "account") -> str:
    """Return the page's block of that language about events of another account or server."""
    section = _PAGE.partition(f"## Events of another {about}")[2].partition("\n## ")[0]
    found = re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


async def events_begun(bus: Bus) -> list[str]:
    """Return the ids of the events that have begun tasks, in order."""
    tasks = await begun(bus)
    parts = [part for task in tasks for part in task["history"][0]["parts"]]
    assert len(parts) == len(tasks)
    return sorted(part["data"]["id"] for part in parts)


async def have_begun(bus: Bus, publisher: Client, *names: str) -> bool:
    """Tell whether these events have begun tasks, and publish an alert until one has.

    Alerts over core NATS are lost until the trigger is subscribed to.
    """
    found = set(await events_begun(bus))
    if "alert" not in found:
        await publisher.publish("alerts.new", b'{"id": "alert"}')
    return found >= set(names)


async def test_events_of_another_account_begin_tasks(tmp_path: Path) -> None:
    with SecuredNats(tmp_path, documented("text")) as server:
        fleet, shop = (server.url.replace("//", f"//{one}@") for one in ("fleet:f", "shop:s"))
        bus, settings = Bus(BusSettings(nats_url=fleet)), TriggersSettings(nats_url=fleet)
        replicas = [TriggersReplica(settings) for _ in range(2)]
        publisher = await nats.connect(shop)
        events = publisher.jetstream(timeout=60)
        try:
            await bus.connect("test")
            await Announcer(bus, "w").announce(AgentCard(name="shop"))
            await events.add_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
            mirror = StreamConfig.from_response(json.loads(documented("json")))
            await bus.js.add_stream(mirror)
            for spec in (
                {"name": "orders", "subject": "orders.*", "stream": "ORDERS"},
                {"name": "alerts", "subject": "alerts.*"},
            ):
                await TriggerStore(bus).put(
                    TriggerSpec.model_validate({"agent": "shop", **spec}), "default", "ann"
                )
            await replicas[0].start()

            for name in ("o1", "o2"):
                await events.publish("orders.created", json.dumps({"id": name}).encode())

            await eventually(
                lambda: have_begun(bus, publisher, "o1", "o2", "alert"), "their tasks have begun"
            )
            await replicas[0].stop()
            for name in ("o3", "o4"):
                await events.publish("orders.created", json.dumps({"id": name}).encode())
            await replicas[1].start()
            await eventually(
                lambda: have_begun(bus, publisher, "o3", "o4"), "those that waited begin tasks"
            )
            ids = [one for one in await events_begun(bus) if one != "alert"]
            assert ids == ["o1", "o2", "o3", "o4"]
        finally:
            for one in replicas:
                await one.stop()
            await publisher.close()
            await bus.close()


async def test_events_of_a_server_behind_a_leaf_node_begin_tasks_that_answer_there(
    tmp_path: Path,
) -> None:
    with LeafNode(tmp_path) as places:
        hub = places.hub.url
        bus, replica = (
            Bus(BusSettings(nats_url=hub)),
            TriggersReplica(TriggersSettings(nats_url=hub)),
        )
        publisher = await nats.connect(places.leaf.url, max_reconnect_attempts=-1)
        events = publisher.jetstream(timeout=60)
        try:
            await bus.connect("test")
            await Announcer(bus, "w").announce(AgentCard(name="shop"))
            for name in ("orders", "done"):
                await events.add_stream(StreamConfig(name=name.upper(), subjects=[f"{name}.>"]))
            mirror = StreamConfig.from_response(json.loads(documented("json", "server")))
            await bus.js.add_stream(mirror)
            for spec in (
                {"name": "orders", "subject": "orders.*", "stream": "ORDERS"},
                {"name": "alerts", "subject": "alerts.*"},
            ):
                await TriggerStore(bus).put(
                    TriggerSpec.model_validate(spec | {"agent": "shop"}), "default", "ann"
                )
            await replica.start()

            for name in ("o1", "o2"):
                await events.publish("orders.created", json.dumps({"id": name}).encode())
            await eventually(
                lambda: have_begun(bus, publisher, "o1", "o2", "alert"), "their tasks have begun"
            )
            # While the hub is away, events are stored at the leaf.
            await asyncio.to_thread(places.hub.kill)
            for name in ("o3", "o4"):
                await events.publish("orders.created", json.dumps({"id": name}).encode())
            await asyncio.to_thread(places.hub.start)
            # A mirror tries again 10 s later if its origin was not there yet.
            what = "those that waited begin tasks"
            await eventually(lambda: have_begun(bus, publisher, "o3", "o4"), what, 3 * TIMEOUT)
            ids = [one for one in await events_begun(bus) if one != "alert"]
            assert ids == ["o1", "o2", "o3", "o4"]
            place = {"subject": "done.orders", "stream": "DONE"}
            rule = TaskAnswers.model_validate(
                {**place, "what": "end", "mode": "binary", "depth": 1}
            )
            key = TaskKey("default", "shop", "0-1")
            for _ in range(2):
                failure = await BusAnswers(bus, 60.0).publish(rule, key, "log:4:x", {"message": {}})
                assert failure is None
            assert (await events.stream_info("DONE")).state.messages == 1
        finally:
            await replica.stop()
            await publisher.close()
            await bus.close()
