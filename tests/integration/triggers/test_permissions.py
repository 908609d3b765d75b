"""The service needs no more of NATS than its user may do."""

from functools import partial
from pathlib import Path

from nats.js.api import StreamConfig

from headrace.directory import AgentCard, Announcer
from headrace.jetstream.connection import Bus
from headrace.jetstream.permissions import SubjectAccess
from headrace.model.events import Json
from headrace.settings import BusSettings
from headrace.trigger_firings import FiringHistory
from headrace.trigger_spec import TriggerSpec
from headrace.triggers import Trigger, TriggerStore
from headrace_gateway.settings import GatewaySettings
from headrace_triggers.main import TriggersReplica
from headrace_triggers.settings import TriggersSettings
from tests.support.roles import NatsOfRoles
from tests.support.triggers import begun
from tests.support.waiting import eventually

# Below the prefix, because the only users of these accounts are the fleet's, which publish there.
EVENTS = [SubjectAccess("headrace.orders.>", "ORDERS"), SubjectAccess("headrace.alerts.*")]


async def test_events_begin_tasks_with_the_permissions_of_the_role(tmp_path: Path) -> None:
    with NatsOfRoles(tmp_path, [], events=EVENTS) as server:
        bus = Bus(BusSettings(nats_url=server.url_of("operator")))
        gateway = Bus(GatewaySettings(nats_url=server.url_of("gateway")))
        quotas = tmp_path / "quotas.toml"
        quotas.write_text('[[quota]]\nname = "daily"\nruns = 100\n')
        replica = TriggersReplica(
            TriggersSettings(nats_url=server.url_of("triggers"), quotas=quotas)
        )
        try:
            await bus.connect("operator")
            await gateway.connect("gateway")
            await Announcer(bus, "w").announce(AgentCard(name="shop"))
            await bus.js.add_stream(StreamConfig(name="ORDERS", subjects=["headrace.orders.>"]))
            await replica.start()
            for name, subject, stream in (
                ("one", "headrace.orders.*", "ORDERS"),
                ("two", "headrace.alerts.*", None),
            ):
                spec: Json = {"name": name, "agent": "shop", "subject": subject, "stream": stream}
                spec["answers"] = {"subject": "headrace.orders.done", "stream": "ORDERS"}
                await TriggerStore(bus).put(TriggerSpec.model_validate(spec), "default", "ann")

            async def have_begun_one() -> bool:
                return len(await begun(bus)) >= 1

            async def published_until_begun() -> bool:
                await bus.publish("headrace.alerts.new", b"[1]")
                parts = [task["history"][0]["parts"] for task in await begun(bus)]
                return [{"data": [1]}] in parts

            await bus.js.publish("headrace.orders.new", b"{}", timeout=60)
            await eventually(have_begun_one, "the stored event has begun a task")
            # Both triggers are subscribed to in turn, and the other one may be the later one.
            await eventually(published_until_begun, "the event over core NATS has begun a task")
            trigger, history = (
                await TriggerStore(gateway).get("default", "ann", "one"),
                FiringHistory(gateway),
            )

            async def is_recorded() -> bool:
                return len(await history.last(trigger)) > 0

            await eventually(is_recorded, "the firing is recorded, and a gateway reads it")
            assert await history.waiting(trigger) == 0
            assert server.violations() == []
        finally:
            await replica.stop()
            await gateway.close()
            await bus.close()


async def test_a_subject_that_the_service_may_not_subscribe_to_is_the_triggers_problem(
    tmp_path: Path,
) -> None:
    with NatsOfRoles(tmp_path, [], events=EVENTS) as server:
        bus = Bus(BusSettings(nats_url=server.url_of("operator")))
        replicas = [
            TriggersReplica(TriggersSettings(nats_url=server.url_of("triggers"))) for _ in range(2)
        ]
        try:
            await bus.connect("operator")
            await Announcer(bus, "w").announce(AgentCard(name="shop"))
            for one in replicas:
                await one.start()
            store, history = TriggerStore(bus), FiringHistory(bus)
            made = list[Trigger]()
            for name, subject in (
                ("forbidden", "Other.{x}.*"),
                ("allowed", "headrace.alerts.*"),
                ("quoted", 'other."\\x"'),
            ):
                spec = TriggerSpec.model_validate(
                    {"name": name, "agent": "shop", "subject": subject}
                )
                made.append((await store.put(spec, "default", name))[0])
            forbidden, allowed, quoted = made

            async def allowed_one_works() -> bool:
                await bus.publish("headrace.alerts.new", b"[1]")
                return len(await begun(bus)) >= 1

            for refused in (forbidden, quoted):
                problem = await eventually(
                    partial(history.problem, refused), "its problem is shown"
                )
                assert problem.reason == (
                    f"no events yet: NATS permissions forbid to subscribe to {refused.subject}"
                )
            await eventually(allowed_one_works, "the other trigger begins tasks")
            assert await history.problem(allowed) is None
        finally:
            for one in replicas:
                await one.stop()
            await bus.close()
