"""Events and triggers of one owner that are hostile, or broken, concern no other owner's."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from nats.js.api import StreamConfig

from headrace.directory import AgentCard, Announcer
from headrace.jetstream.connection import Bus
from headrace.metrics import CHAIN_LIMITS
from headrace.model.answers import CHAIN, DEPTH
from headrace.model.parts import text_of
from headrace.tasks.dead_letters import Letter, LetterFilter, Letters
from headrace.trigger_firings import FiringHistory, TriggerFirings, TriggerProblem
from headrace.trigger_spec import TriggerSpec
from headrace.triggers import Trigger, TriggerStore
from headrace_triggers.main import TriggersReplica
from headrace_triggers.settings import TriggersSettings
from tests.support.triggers import begun
from tests.support.waiting import eventually

ACME, ZOO = ("acme", "eve"), ("zoo", "zed")
"""Tenants and owners: eve is hostile."""


class Shops:
    """A stream of each of the two tenants, on subjects below its name."""

    def __init__(self, bus: Bus, name: str) -> None:
        self.bus, self._name = bus, name

    async def make(self) -> "Shops":
        await Announcer(self.bus, "worker-1").announce(AgentCard(name="shop"))
        for tenant, _ in (ACME, ZOO):
            config = StreamConfig(name=self.stream(tenant), subjects=[self.subject(tenant, ">")])
            await self.bus.js.add_stream(config)
        return self

    def stream(self, tenant: str) -> str:
        return f"{self._name}-{tenant}"

    def subject(self, tenant: str, rest: str) -> str:
        return f"{self._name}-{tenant}.{rest}"

    async def trigger(self, whose: tuple[str, str], rest: str = "*", **spec: object) -> Trigger:
        """Make a trigger of an owner on its stream; `spec` may state otherwise."""
        usual = {
            "name": "orders",
            "agent": "shop",
            "subject": self.subject(whose[0], rest),
            "stream": self.stream(whose[0]),
            "text": f"{whose[1]} {{body.id}}",
        }
        store = TriggerStore(self.bus)
        return (await store.put(TriggerSpec.model_validate(usual | spec), *whose))[0]

    async def publish(self, tenant: str, data: bytes, rest: str = "x", **headers: str) -> None:
        await self.bus.js.publish(self.subject(tenant, rest), data, timeout=60, headers=headers)

    async def texts(self) -> list[str]:
        """Return the texts that have begun tasks, sorted."""
        return sorted(text_of(task["history"][0]["parts"]) for task in await begun(self.bus))

    async def until_begun(self, *texts: str) -> None:
        """Return once there are tasks of exactly these texts."""

        async def are_there() -> bool:
            return await self.texts() == sorted(texts)

        await eventually(are_there, f"tasks of {texts} have begun")


@pytest.fixture
async def shops(settings: TriggersSettings, bus: Bus) -> Shops:
    return await Shops(bus, settings.prefix).make()


@asynccontextmanager
async def two_replicas(settings: TriggersSettings) -> AsyncIterator[list[TriggersReplica]]:
    async with AsyncExitStack() as stack:
        made = [TriggersReplica(settings) for _ in range(2)]
        for one in made:
            stack.push_async_callback(one.stop)
            await one.start()
        yield made


@pytest.fixture
async def replicas(settings: TriggersSettings) -> AsyncIterator[list[TriggersReplica]]:
    async with two_replicas(settings) as made:
        yield made


async def letters(bus: Bus, count: int) -> list[Letter]:
    """Return all dead letters, once there are `count`."""

    async def look() -> list[Letter]:
        found = [one async for one in Letters(bus).find(LetterFilter())]
        return found if len(found) >= count else []

    return await eventually(look, f"there are {count} dead letters")


async def record_of(bus: Bus, trigger: Trigger) -> TriggerFirings:
    """Return what is recorded of a trigger, once it has failures."""

    async def look() -> TriggerFirings | None:
        found = await FiringHistory(bus).record(trigger)
        return found if found.failures else None

    return await eventually(look, "a failure is recorded")


async def problem_of(bus: Bus, trigger: Trigger) -> TriggerProblem:
    return await eventually(lambda: FiringHistory(bus).problem(trigger), "a problem is recorded")


def event_of(size: int) -> bytes:
    """Return an event without an id, of which no task can be made."""
    return b'{"x":"' + b"y" * (size - 8) + b'"}'


async def test_letters_as_large_as_a_message_leave_the_services_connection_open(
    shops: Shops, bus: Bus, replicas: list[TriggersReplica]
) -> None:
    eves, _ = await shops.trigger(ACME), await shops.trigger(ZOO)
    # Base64 makes four bytes of three: some letters fit into a message without their headers only.
    sizes = range(785_600, bus.max_payload * 3 // 4 + 24, 48)
    for size in sizes:
        await shops.publish("acme", event_of(size))
    found = await letters(bus, len(sizes))
    places = {one.content.sequence: one.content.size or len(one.body) for one in found}
    assert places == dict(enumerate(sizes, 1))
    await shops.publish("zoo", b'{"id": 1}')
    await shops.until_begun("zed 1")
    assert all(one.is_ready for one in replicas)
    assert (await record_of(bus, eves)).dropped == 0


async def test_events_that_are_too_large_for_a_letter_are_kept_in_part_and_block_nothing(
    shops: Shops, bus: Bus, replicas: list[TriggersReplica]
) -> None:
    assert len(replicas) == 2
    eves, _ = await shops.trigger(ACME, limit=4), await shops.trigger(ZOO)
    for size in range(900_000, 900_008):
        await shops.publish("acme", event_of(size), Huge="h" * 60_000)
    await shops.publish("acme", b'{"id": 2}')
    await shops.publish("zoo", b'{"id": 1}')
    await shops.until_begun("eve 2", "zed 1")
    found = await letters(bus, 8)
    assert {one.content.size for one in found} == set(range(900_000, 900_008))
    for one in found:
        whole = event_of(one.content.size or 0)
        assert one.body
        assert whole.startswith(one.body)
        assert one.content.sha256 == hashlib.sha256(whole).hexdigest()
        assert one.details()["size"] == len(whole)
        assert one.content.stream == shops.stream("acme")

    async def is_counted() -> TriggerFirings | None:
        found = await FiringHistory(bus).record(eves)
        return found if found.letters >= 8 else None

    record = await eventually(is_counted, "the letters are counted")
    assert (record.letters, record.dropped) == (8, 0)
    assert record.failures[0].reason == "trigger/eve/orders: the event has no 'body.id'"


async def test_an_event_of_which_no_letter_can_be_kept_is_a_drop_that_is_counted_and_placed(
    shops: Shops, bus: Bus, replicas: list[TriggersReplica]
) -> None:
    assert len(replicas) == 2
    eves, _ = await shops.trigger(ACME), await shops.trigger(ZOO)
    dead = (await bus.js.stream_info(bus.streams.dead)).config
    dead.max_msgs = 1
    await bus.js.update_stream(dead)
    await shops.publish("acme", b"{}")
    await letters(bus, 1)
    await shops.publish("acme", b"{}")
    await shops.publish("acme", b'{"id": 2}')
    await shops.publish("zoo", b'{"id": 1}')
    await shops.until_begun("eve 2", "zed 1")

    async def is_dropped() -> TriggerFirings | None:
        found = await FiringHistory(bus).record(eves)
        return found if found.dropped else None

    record = await eventually(is_dropped, "the drop is recorded")
    last = record.failures[-1]
    assert (record.letters, record.dropped) == (1, 1)
    assert (last.outcome, last.stream, last.sequence) == ("dropped", shops.stream("acme"), 2)
    assert "no room for a dead letter" in last.reason


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("rest", ["{a}.{a}", "{1}", "{x}", "{{x}}", "}{"])
async def test_braces_in_a_subject_are_read_as_they_are(
    shops: Shops, bus: Bus, replicas: list[TriggersReplica], rest: str, *, is_stored: bool
) -> None:
    assert len(replicas) == 2
    source = {} if is_stored else {"stream": None}
    eves = await shops.trigger(ACME, rest, **source)
    await shops.trigger(ZOO)
    await shops.publish("zoo", b'{"id": 1}')
    await shops.until_begun("zed 1")

    async def is_begun() -> bool:
        # Over core NATS, nobody may have subscribed yet.
        await shops.publish("acme", b'{"id": "it"}', rest)
        return "eve it" in await shops.texts()

    await eventually(is_begun, "an event on its subject has begun a task")
    for other in ("y.y", "one", "one.two"):
        await shops.publish("acme", b'{"id": "other"}', other)
    # Deleted, and the neighbour's continues.
    await TriggerStore(bus).delete(eves)
    await shops.publish("zoo", b'{"id": 2}')

    async def is_next() -> bool:
        return "zed 2" in await shops.texts()

    await eventually(is_next, "the other tenant's next event has begun a task")
    assert set(await shops.texts()) == {"eve it", "zed 1", "zed 2"}


@pytest.mark.parametrize("rest", ["a__faststream_escaped_left__b", "*"])
async def test_a_trigger_that_can_not_begin_is_its_owners_problem_alone(
    shops: Shops, bus: Bus, replicas: list[TriggersReplica], rest: str
) -> None:
    assert len(replicas) == 2
    source = {"stream": "MISSING" if rest == "*" else None}
    eves, zeds = await shops.trigger(ACME, rest, **source), await shops.trigger(ZOO)
    await shops.publish("zoo", b'{"id": 1}')
    await shops.until_begun("zed 1")
    problem = await problem_of(bus, eves)
    assert "stream not found" in problem.reason or "can't be subscribed to" in problem.reason
    assert await FiringHistory(bus).problem(zeds) is None
    found = await FiringHistory(bus).problems("acme", [eves])
    assert found[eves.key].reason == problem.reason
    assert await FiringHistory(bus).problems("zoo", [zeds]) == {}


async def test_a_content_type_that_the_body_contradicts_has_no_effect(
    shops: Shops, bus: Bus, replicas: list[TriggersReplica]
) -> None:
    assert len(replicas) == 2
    await shops.trigger(ACME, text="eve {headers.n}", limit=1)
    kinds = ("application/json", "text/plain", "application/json; x=é")
    for number, (kind, body) in enumerate(zip(kinds, (b"{", b"\xff", b"{"), strict=True)):
        await shops.publish("acme", body, **{"content-type": kind, "n": str(number)})
    await shops.until_begun("eve 0", "eve 2")
    [letter] = await letters(bus, 1)
    assert (letter.body, letter.content.sequence) == (b"\xff", 2)


async def test_events_over_core_nats_with_one_id_begin_a_task_each(
    shops: Shops, bus: Bus, replicas: list[TriggersReplica]
) -> None:
    assert len(replicas) == 2
    await shops.trigger(ACME, "core", stream=None)
    await shops.trigger(ZOO)
    subject = shops.subject("acme", "core")

    async def has_subscribed() -> bool:
        await bus.publish(subject, b'{"id": "first"}')
        return "eve first" in await shops.texts()

    await eventually(has_subscribed, "the trigger receives events")
    for _ in range(3):
        await bus.publish(subject, b'{"id": "same"}', headers={"message_id": "1"})

    async def are_there() -> bool:
        return (await shops.texts()).count("eve same") == 3

    await eventually(are_there, "each event has begun a task")


async def test_a_chain_of_answers_begins_as_many_tasks_of_an_owner_as_it_may(
    shops: Shops, bus: Bus, settings: TriggersSettings
) -> None:
    eves, zeds = await shops.trigger(ACME), await shops.trigger(ZOO)
    limit = CHAIN_LIMITS.labels("tasks")
    before = limit._value.get()
    async with two_replicas(settings.model_copy(update={"chain_tasks": 20})):
        for number in range(30):
            answer = {DEPTH: "1", CHAIN: "3-first"}
            await shops.publish("acme", b'{"id": 1}', n=str(number), **answer)
            await shops.publish("zoo", b'{"id": 1}', **answer | {CHAIN: f"3-{number}"})

        async def all_have_ended() -> bool:
            begun = await shops.texts()
            refused = [one async for one in Letters(bus).find(LetterFilter())]
            return begun.count("zed 1") == 30 and begun.count("eve 1") + len(refused) == 30

        await eventually(all_have_ended, "each answer has begun a task or is a letter")
        begun = (await shops.texts()).count("eve 1")
        found = await letters(bus, 30 - begun)
    # What a replica has not recorded when it stops, it records then.
    record = await FiringHistory(bus).record(eves)
    assert (begun, len(found)) == (20, 10)
    assert (
        "answers have begun 20 tasks of this owner in the chain 3-first"
        in record.failures[-1].reason
    )
    assert record.letters == limit._value.get() - before == 10
    assert (await FiringHistory(bus).record(zeds)).letters == 0


async def test_answers_begin_tasks_of_an_owner_at_a_rate_and_others_do_not_wait(
    shops: Shops, bus: Bus, settings: TriggersSettings
) -> None:
    eves, _ = await shops.trigger(ACME), await shops.trigger(ZOO)
    async with two_replicas(settings.model_copy(update={"chain_rate": 1.0})):
        for number in range(20):
            await shops.publish("acme", b'{"id": 1}', **{DEPTH: "1", CHAIN: f"3-{number}"})
        problem = await problem_of(bus, eves)
        await shops.publish("zoo", b'{"id": 1}', **{DEPTH: "1", CHAIN: "3-1"})

        async def is_begun() -> bool:
            return "zed 1" in await shops.texts()

        await eventually(is_begun, "the other owner's answer has begun its task")
        assert "answers begin at most 1 tasks per second for an owner" in problem.reason
        assert 0 < (await shops.texts()).count("eve 1") <= 20
        await shops.until_begun(*["eve 1"] * 20, "zed 1")
    assert [one async for one in Letters(bus).find(LetterFilter())] == []


async def test_many_triggers_without_a_stream_delay_no_other(
    shops: Shops, replicas: list[TriggersReplica]
) -> None:
    assert len(replicas) == 2
    for number in range(40):
        await shops.trigger(ACME, name=f"t{number}", stream="MISSING")
    await shops.trigger(ZOO)
    await shops.publish("zoo", b'{"id": 1}')
    await shops.until_begun("zed 1")
    await asyncio.gather(*(one.stop() for one in replicas))
    assert await shops.texts() == ["zed 1"]


async def test_a_consumer_and_a_stream_that_somebody_deletes_are_followed_again(
    shops: Shops, bus: Bus, replicas: list[TriggersReplica]
) -> None:
    assert len(replicas) == 2
    eves, _ = await shops.trigger(ACME), await shops.trigger(ZOO)
    await shops.publish("acme", b'{"id": 1}')
    await shops.until_begun("eve 1")
    name = shops.stream("acme")
    await bus.js.delete_consumer(name, eves.consumer)
    await shops.publish("acme", b'{"id": 2}')
    await shops.until_begun("eve 1", "eve 2")
    await bus.js.delete_stream(name)

    async def is_shown() -> bool:
        return "stream not found" in (await problem_of(bus, eves)).reason

    await eventually(is_shown, "its owner is shown that there is no stream")
    await shops.publish("zoo", b'{"id": 1}')
    await bus.js.add_stream(StreamConfig(name=name, subjects=[shops.subject("acme", ">")]))
    await shops.publish("acme", b'{"id": 3}')
    await shops.until_begun("eve 1", "eve 2", "eve 3", "zed 1")


async def test_white_space_in_an_events_subject_leaves_the_services_connection_open(
    shops: Shops, bus: Bus, replicas: list[TriggersReplica]
) -> None:
    assert len(replicas) == 2
    await shops.trigger(ACME, ">", text="eve {subject}")
    await shops.trigger(ACME, ">", name="core", stream=None, text="core {subject}")
    await shops.trigger(ZOO)
    rests = ["\x0bv", "f\x0c", "\x1c\x1d", "\u00a0", "\x85.\u2028"]

    async def has_subscribed() -> bool:
        await bus.publish(shops.subject("acme", "first"), b"{}")
        return f"core {shops.subject('acme', 'first')}" in await shops.texts()

    await eventually(has_subscribed, "events over core NATS are received")
    for rest in rests:
        await shops.publish("acme", b"{}", rest)
    await shops.publish("zoo", b'{"id": 1}')
    wanted = {f"{name} {shops.subject('acme', rest)}" for rest in rests for name in ("eve", "core")}

    async def have_begun() -> bool:
        return {*wanted, "zed 1"} <= set(await shops.texts())

    await eventually(have_begun, "each event has begun a task")


async def test_an_event_with_a_header_status_is_no_status_of_its_consumer(
    shops: Shops, replicas: list[TriggersReplica]
) -> None:
    assert len(replicas) == 2
    await shops.trigger(ACME, text="eve {headers.Status}", limit=2)
    statuses = ("100", "404", "408", "409", "503", "up")
    for status in statuses:
        headers = {"Status": status, "Description": "Consumer Deleted"}
        await shops.publish("acme", b"{}", **headers)
    await shops.publish("acme", b"{}", Status="the last")
    await shops.until_begun(*[f"eve {status}" for status in (*statuses, "the last")])


async def flood(shops: Shops, tenant: str, number: int) -> None:
    """Store events with the ids from 1 to `number`."""
    for first in range(1, number + 1, 50):
        part = range(first, min(first + 50, number + 1))
        await asyncio.gather(*(shops.publish(tenant, b'{"id": %d}' % each) for each in part))


async def test_a_trigger_that_is_deleted_in_a_flood_ends_and_delays_no_other(
    shops: Shops, bus: Bus, replicas: list[TriggersReplica]
) -> None:
    assert len(replicas) == 2
    store, stream = TriggerStore(bus), shops.stream("acme")
    eves = await shops.trigger(ACME, limit=4)
    await shops.trigger(ZOO)
    await flood(shops, "acme", 1000)

    async def of_eve() -> int:
        return sum(text.startswith("eve") for text in await shops.texts())

    async def has_begun() -> bool:
        return await of_eve() > 0

    async def is_gone() -> bool:
        return await bus.js.consumers_info(stream) == []

    await eventually(has_begun, "the flood begins tasks")
    await store.delete(eves)
    await eventually(is_gone, "the consumer is deleted")
    await asyncio.sleep(0.5)  # What was delivered before may begin.
    before = await of_eve()
    await shops.publish("zoo", b'{"id": 1}')

    async def zed_has_begun() -> bool:
        return "zed 1" in await shops.texts()

    await eventually(zed_has_begun, "the other owner's event has begun its task")
    assert await of_eve() == before < 1000
    # Stored again, it takes what comes from then on.
    await shops.trigger(ACME, text="again {body.id}")

    async def is_taken() -> bool:
        return len(await bus.js.consumers_info(stream)) == 1

    await eventually(is_taken, "the trigger has a consumer again")
    await shops.publish("acme", b'{"id": 0}')

    async def again() -> list[str]:
        return [text for text in await shops.texts() if text.startswith("again")]

    await eventually(again, "the later event has begun its task")
    assert await again() == ["again 0"]


async def test_each_event_begins_one_task_while_replicas_are_replaced_in_turn(
    shops: Shops, settings: TriggersSettings
) -> None:
    await shops.trigger(ACME)
    await shops.trigger(ZOO)
    async with two_replicas(settings) as replicas:
        floods = [asyncio.create_task(flood(shops, one, 150)) for one in ("acme", "zoo")]
        for turn in range(6):
            await asyncio.sleep(0.2)
            await replicas[turn % 2].stop()
            replicas[turn % 2] = TriggersReplica(settings)
            await replicas[turn % 2].start()
        await asyncio.gather(*floods)
        each = range(1, 151)
        await shops.until_begun(*(f"eve {n}" for n in each), *(f"zed {n}" for n in each))
        await replicas[0].stop()
        await replicas[1].stop()


async def test_a_loop_over_a_subject_that_owners_share_ends_and_takes_their_other_events(
    shops: Shops, bus: Bus, settings: TriggersSettings
) -> None:
    shared = f"{settings.prefix}-shared"
    await bus.js.add_stream(StreamConfig(name=shared, subjects=[f"{shared}.>"]))
    for whose in (ACME, ZOO):
        await shops.trigger(whose, stream=shared, subject=f"{shared}.*")
    async with two_replicas(settings.model_copy(update={"chain_tasks": 10, "chain_depth": 3})):
        # What eve's agent answers is an event of both again.
        for depth in range(1, 6):
            for number in range(6):
                answer = {DEPTH: str(depth), CHAIN: "3-loop", "n": f"{depth}-{number}"}
                await bus.js.publish(f"{shared}.x", b'{"id": 1}', headers=answer)
        await bus.js.publish(f"{shared}.x", b'{"id": 2}')

        async def all_have_ended() -> bool:
            begun = await shops.texts()
            refused = [one async for one in Letters(bus).find(LetterFilter())]
            return len(begun) + len(refused) == 2 * 31 and {"eve 2", "zed 2"} <= set(begun)

        await eventually(all_have_ended, "each answer has begun a task or is a letter")
    begun = await shops.texts()
    assert 0 < begun.count("eve 1") <= 10
    assert 0 < begun.count("zed 1") <= 10
