"""Events of another NATS account begin tasks, as docs/triggers.md has it configured."""

import json
import re
from pathlib import Path

import nats
from nats.js.api import StreamConfig

from headrace.directory import AgentCard, Announcer
from headrace.jetstream.connection import Bus
from headrace.settings import BusSettings
from headrace.trigger_spec import read_spec
from headrace.triggers import TriggerStore
from headrace_triggers.main import TriggersReplica
from headrace_triggers.settings import TriggersSettings
from tests.architecture.tree import ROOT
from tests.support.secured_nats import SecuredNats
from tests.support.triggers import begun
from tests.support.waiting import eventually

_PAGE = (ROOT / "docs" / "triggers.md").read_text()


def documented(language: str) -> str:
    """Return the page's block of that language about accounts."""
    section = _PAGE.partition("## Events of another account")[2].partition("\n## ")[0]
    found = re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


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
                await TriggerStore(bus).put(read_spec({"agent": "shop", **spec}), "default", "ann")
            await replicas[0].start()

            async def bodies() -> set[str]:
                tasks = await begun(bus)
                parts = [part for task in tasks for part in task["history"][0]["parts"]]
                assert len(parts) == len(tasks)
                return {part["data"]["id"] for part in parts}

            for name in ("o1", "o2"):
                await events.publish("orders.created", json.dumps({"id": name}).encode())

            async def have_begun(*names: str) -> bool:
                # Alerts over core NATS are lost until the trigger is subscribed to.
                await publisher.publish("alerts.new", b'{"id": "alert"}')
                return await bodies() >= set(names)

            await eventually(lambda: have_begun("o1", "o2", "alert"), "their tasks have begun")
            await replicas[0].stop()
            for name in ("o3", "o4"):
                await events.publish("orders.created", json.dumps({"id": name}).encode())
            await replicas[1].start()
            await eventually(lambda: have_begun("o3", "o4"), "those that waited begin tasks")
            ids = [task["history"][0]["parts"][0]["data"]["id"] for task in await begun(bus)]
            assert sorted(one for one in ids if one != "alert") == ["o1", "o2", "o3", "o4"]
        finally:
            for one in replicas:
                await one.stop()
            await publisher.close()
            await bus.close()
