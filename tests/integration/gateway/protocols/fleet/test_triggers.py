"""Triggers over HTTP: who may make, see and delete which."""

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta

import httpx
import orjson
import pytest

from headrace import clock
from headrace.client import Client, RequestRefused
from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket
from headrace.model.events import now
from headrace.model.messages import DeadLetter
from headrace.model.subjects import encode_token
from headrace.number_limit import NumberLimit
from headrace.tasks.dead_letters import LetterFilter, Letters, write_letter
from headrace.trigger_firings import FiringHistory, TriggerFailure, TriggerFiring
from headrace.trigger_spec import TriggerSpec
from headrace.triggers import TooManyTriggers, TriggerStore
from headrace_gateway.server.auth.audit import Audited
from tests.integration.gateway.protocols.fleet.conftest import FAQ, ONCALL, OpenRoleGateway
from tests.support.credentials import ANN, BOB, EVE, Person
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.waiting import eventually

PATH = "/v1/triggers"
SPEC = {"agent": "ask", "subject": "default.orders.*", "stream": "ORDERS", "text": "{body.id}"}


async def test_a_trigger_is_made_changed_listed_and_deleted(
    http: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus
) -> None:
    assert fleet.working
    async with Client(str(http.base_url)) as client:
        made = await client.triggers.apply({"name": "t1", **SPEC})
        assert made == {"name": "t1", **SPEC, "owner": "anonymous", "since": made["since"]}
        changed = await client.triggers.apply({"name": "t1", **SPEC, "paused": True})
        assert changed == {**made, "paused": True}
        assert [one async for one in client.triggers.list()] == [changed]
        assert await client.triggers.resume("t1") == made
        assert await client.triggers.pause("t1") == changed
        firing = TriggerFiring(at="2030-01-01T00:00:00Z", agent="ask", task="0-1")
        trigger = await TriggerStore(bus).get("default", "anonymous", "t1")
        await FiringHistory(bus).add(trigger, [firing])
        none = {"letters": 0, "dropped": 0, "failures": []}
        shown = {**changed, "waiting": None, "firings": [firing.model_dump()], **none}
        assert (await http.get(f"{PATH}/t1")).json() == shown
        await client.triggers.delete("t1")
        assert [one async for one in client.triggers.list()] == []
        with pytest.raises(RequestRefused, match="does not exist"):
            await client.triggers.pause("t1")
    gone = await http.delete(f"{PATH}/t1")
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "trigger_unknown")


async def test_its_owner_is_shown_what_a_trigger_can_not_do(
    http: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus
) -> None:
    assert fleet.working
    async with Client(str(http.base_url)) as client:
        await client.triggers.apply({"name": "t1", **SPEC})
        await client.triggers.apply({"name": "t2", **SPEC})
        trigger, history = (
            await TriggerStore(bus).get("default", "anonymous", "t1"),
            FiringHistory(bus),
        )
        at = "2030-01-01T00:00:00Z"
        dropped = TriggerFailure(at=at, outcome="dropped", reason="full", stream="S", sequence=7)
        letter = TriggerFailure(at=at, outcome="letter", reason="no id")
        await history.add(trigger, [], [letter, dropped], letters=3, dropped=1)
        await history.note_problem(trigger, at, "no such stream")
        problem = {"at": at, "reason": "no such stream"}

        async def listed() -> bool:  # a replica of the bucket may lag behind
            found = {one["name"]: one.get("problem") async for one in client.triggers.list()}
            return found == {"t1": problem, "t2": None}

        await eventually(listed, "the list shows the problem")
        shown = (await http.get(f"{PATH}/t1")).json()
        assert shown["problem"] == problem
        assert (shown["letters"], shown["dropped"]) == (3, 1)
        assert shown["failures"] == [
            {"at": at, "outcome": "dropped", "reason": "full", "stream": "S", "sequence": 7},
            {"at": at, "outcome": "letter", "reason": "no id"},
        ]
        assert "problem" not in (await http.get(f"{PATH}/t2")).json()
        for name in ("t1", "t2"):
            await client.triggers.delete(name)


async def test_a_refusal_names_the_field_and_the_rule(
    http: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus
) -> None:
    assert fleet.working
    wrong = await http.put(f"{PATH}/t1", json=SPEC | {"text": "{id}"})
    assert wrong.status_code == 400
    assert wrong.json()["error"]["message"].startswith("text: 'id' must be subject")
    answers = await http.put(f"{PATH}/t1", json=SPEC | {"answers": {"subject": "$JS.API.x"}})
    assert answers.json()["error"]["message"].startswith("answers.subject: must be a NATS subject")
    runs = f"{bus.subjects.prefix}.run.a"
    own = await http.put(f"{PATH}/t1", json=SPEC | {"answers": {"subject": runs}})
    assert own.status_code == 403
    nobody = await http.put(f"{PATH}/t1", json=SPEC | {"agent": "nobody"})
    assert (nobody.status_code, nobody.json()["error"]["code"]) == (404, "agent_unknown")
    high = await http.put(f"{PATH}/t1", json=SPEC | {"priority": "high"})
    assert high.status_code == 400
    assert (await http.get(PATH)).json() == {"triggers": []}


async def test_what_is_changed_before_a_trigger_is_paused_stays(
    http: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus
) -> None:
    assert fleet.working
    store = TriggerStore(bus)
    await http.put(f"{PATH}/t1", json=SPEC)
    seen = await store.get("default", "anonymous", "t1")
    await http.put(f"{PATH}/t1", json=SPEC | {"text": "Order {body.id}"})
    await store.pause(seen)
    found = (await http.get(f"{PATH}/t1")).json()
    await http.delete(f"{PATH}/t1")
    assert (found["text"], found["paused"]) == ("Order {body.id}", True)


async def test_a_trigger_that_is_made_again_stays_paused_unless_it_states_otherwise(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    unstored = {"agent": "ask", "subject": "default.orders.*"}

    async def is_paused(**changed: object) -> bool:
        body = unstored if "stream" in changed else SPEC | changed
        answer = await http.put(f"{PATH}/t1", json=body)
        assert answer.is_success, answer.text
        return bool(answer.json().get("paused", False))

    states = [
        await is_paused(),
        await is_paused(paused=True),
        await is_paused(text="Order {body.id}"),
        await is_paused(paused=False),
        await is_paused(),
    ]
    assert states == [False, True, True, False, False]
    await http.post(f"{PATH}/t1:pause")
    assert not await is_paused(stream=None)  # its events can't wait
    await http.delete(f"{PATH}/t1")


async def test_a_trigger_of_a_later_release_is_left_to_its_gateways(
    http: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus
) -> None:
    assert fleet.working
    bucket = Bucket(bus, bus.streams.triggers)
    for name in ("t1", "t2"):
        await http.put(f"{PATH}/{name}", json=SPEC)
        key = f"event.default.anonymous.{name}"
        plain = await bucket.get(key)
        later = orjson.dumps(orjson.loads(plain.data or b"") | {"later": 1})
        await bucket.put(key, later, plain.sequence)
        answers = [
            await http.put(f"{PATH}/{name}", json=SPEC),
            await http.post(f"{PATH}/{name}:pause"),
            await http.get(f"{PATH}/{name}"),
        ]
        assert {answer.status_code for answer in answers} == {503}
        assert (await bucket.get(key)).data == later
        unreadable = [{"name": name, "owner": "anonymous"}]
        assert (await http.get(PATH)).json() == {"triggers": [], "unreadable": unreadable}
        await bucket.delete(key)


async def test_each_change_of_a_trigger_or_schedule_is_audited(
    open_role_gateway: OpenRoleGateway, fleet: ScriptedFleet, caplog: pytest.LogCaptureFixture
) -> None:
    assert fleet.working
    caplog.set_level(logging.INFO, "headrace.audit")
    subjects = {"trigger_subjects": ["{tenant}.>"], "audit": Audited.CHANGES}
    bodies = {
        PATH: SPEC | {"subject": "acme.orders.*"},
        "/v1/schedules": {"agent": "ask", "message": "count", "every": "720h"},
    }
    async with open_role_gateway(BOB, ONCALL, **subjects) as gateway:
        for path, body in bodies.items():
            for who in (ANN, BOB):
                one = f"{path}/{who.owner[:3]}"
                answers = [await gateway.http.put(one, json=body, headers=who.bearer)]
                answers += [
                    await gateway.http.post(f"{one}:{verb}", headers=who.bearer)
                    for verb in ("pause", "resume")
                ]
                answers.append(await gateway.http.delete(one, headers=who.bearer))
                assert [answer.is_success for answer in answers] == [True] * 4
    audited = [one.__dict__["audit"] for one in caplog.records if one.name == "headrace.audit"]
    expected = [
        (encode_token(who.owner), "owner", f"{verb}{kind}", "ask", who.owner[:3])
        for kind in ("Trigger", "Schedule")
        for who in (ANN, BOB)
        for verb in ("Put", "Pause", "Resume", "Delete")
    ]
    fields = ("owner", "role", "operation", "agent")
    assert [
        (*(one[field] for field in fields), one.get("trigger") or one.get("schedule"))
        for one in audited
    ] == expected
    assert all(one["target_owner"] == one["owner"] for one in audited)
    named = ["trigger" in one for one in audited], ["schedule" in one for one in audited]
    assert named == ([True] * 8 + [False] * 8, [False] * 8 + [True] * 8)


async def test_an_operators_call_is_audited_once(
    open_role_gateway: OpenRoleGateway, fleet: ScriptedFleet, caplog: pytest.LogCaptureFixture
) -> None:
    assert fleet.working
    bodies = {
        PATH: SPEC | {"subject": "acme.orders"},
        "/v1/schedules": {"agent": "ask", "message": "count", "every": "720h"},
    }
    async with open_role_gateway(ONCALL, trigger_subjects=["{tenant}.>"]) as gateway:
        http, anns = gateway.http, ANN.bearer
        for path, body in bodies.items():
            query = {
                "owner": (await http.put(f"{path}/d1", json=body, headers=anns)).json()["owner"]
            }
            caplog.set_level(logging.INFO, "headrace.audit")
            caplog.clear()
            for method, action in (
                ("GET", ""),
                ("POST", ":pause"),
                ("POST", ":resume"),
                ("DELETE", ""),
            ):
                answer = await http.request(
                    method, f"{path}/d1{action}", params=query, headers=ONCALL.bearer
                )
                answer.raise_for_status()
            audited = [one.__dict__["audit"] for one in caplog.records if "audit" in one.__dict__]
            seen = [
                (one["role"], one["agent"], one["operation"], one["target_owner"])
                for one in audited
            ]
            kind = "Trigger" if path == PATH else "Schedule"
            assert seen == [
                ("operator", "ask", f"{verb}{kind}", encode_token(ANN.owner))
                for verb in ("Get", "Pause", "Resume", "Delete")
            ]


async def test_events_that_no_stream_keeps_can_not_wait(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    await http.put(f"{PATH}/t1", json={"agent": "ask", "subject": "default.orders"})
    refused = await http.post(f"{PATH}/t1:pause")
    await http.delete(f"{PATH}/t1")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "events_unstored")


async def test_a_trigger_states_only_what_its_agent_accepts(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    stated = SPEC | {"data": {"id": "body.id"}}
    refused = await http.put(f"{PATH}/t1", json=stated)
    assert (refused.status_code, refused.json()["error"]) == (
        400,
        {
            "code": "invalid_input",
            "message": "data: agent ask accepts text/plain, not application/json",
        },
    )
    taken = await http.put(f"{PATH}/t1", json=stated | {"agent": "patient"})
    assert taken.status_code == 201
    await http.delete(f"{PATH}/t1")


async def test_a_trigger_belongs_to_its_owner_and_tenant(
    open_role_gateway: OpenRoleGateway, fleet: ScriptedFleet, bus: Bus
) -> None:
    assert fleet.working
    subjects = {"trigger_subjects": ["{tenant}.orders.>"]}
    async with open_role_gateway(BOB, EVE, FAQ, ONCALL, **subjects) as gateway:

        async def status(method: str, who: dict[str, str], **changed: object) -> int:
            body = SPEC | {"subject": "acme.orders.*"} | changed if method == "PUT" else None
            query = {"owner": ANN.owner} if who == ONCALL.bearer else {}
            answer = await gateway.http.request(
                method, f"{PATH}/mine", params=query, json=body, headers=who
            )
            return answer.status_code

        assert await status("PUT", ANN.bearer, subject="other.orders.*") == 403
        answered = {"subject": "other.orders.done"}
        assert await status("PUT", ANN.bearer, answers=answered) == 403
        assert await status("PUT", FAQ.bearer) == 403  # its roles have another agent
        assert await status("PUT", ANN.bearer) == 201
        assert await status("PUT", ONCALL.bearer) == 400  # only its owner changes it
        assert [await status("GET", one.bearer) for one in (ANN, BOB, EVE, ONCALL)] == [
            *(200, 404, 404),
            200,
        ]
        assert await status("DELETE", BOB.bearer) == 404
        owner = {"owner": ANN.owner}
        pausing = [
            await gateway.http.post(f"{PATH}/mine:pause", params=owner, headers=one.bearer)
            for one in (BOB, EVE, ANN, ONCALL)
        ]
        assert [one.status_code for one in pausing] == [404, 404, 200, 200]
        assert await status("PUT", EVE.bearer, subject="other.orders.*") == 201
        assert await status("PUT", BOB.bearer) == 201
        assert await status("DELETE", BOB.bearer) == 200
        kept = await TriggerStore(bus).all()
        assert [(one.tenant, one.owner, one.subject) for one in kept] == [
            ("acme", encode_token(ANN.owner), "acme.orders.*"),
            ("other", encode_token(EVE.owner), "other.orders.*"),
        ]
        assert await status("DELETE", ONCALL.bearer) == 200
        assert await status("DELETE", EVE.bearer) == 200


async def test_a_trigger_that_is_deleted_takes_its_dead_letters_along(
    http: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus
) -> None:
    assert fleet.working
    await http.put(f"{PATH}/t1", json=SPEC)
    for owner in ("anonymous", "ann"):
        letter = DeadLetter(reason="why", subject="s", trigger=f"trigger/{owner}/t1", at=now())
        await write_letter(bus, letter, to=("default", "ask"))
    (await http.delete(f"{PATH}/t1")).raise_for_status()
    left = [one.content.trigger async for one in Letters(bus).find(LetterFilter("default"))]
    assert left == ["trigger/ann/t1"]


async def test_an_owner_reads_the_dead_letters_of_its_own_triggers(
    open_role_gateway: OpenRoleGateway, fleet: ScriptedFleet, bus: Bus
) -> None:
    assert fleet.working
    async with open_role_gateway(BOB, EVE, ONCALL, trigger_subjects=["{tenant}.>"]) as gateway:
        http, stored = gateway.http, list[str]()
        for one in (ANN, BOB):
            spec = SPEC | {"subject": "acme.orders.*"}
            (await http.put(f"{PATH}/t1", json=spec, headers=one.bearer)).raise_for_status()
            stored.append(f"trigger/{encode_token(one.owner)}/t1")
        for source in (*stored, *stored):
            letter = DeadLetter(reason="why", subject="s", trigger=source, body="e30=", at=now())
            await write_letter(bus, letter, to=("acme", "ask"))
        numbers = [one.number async for one in Letters(bus).find(LetterFilter("acme"))]

        async def get(path: str, person: Person = ANN, **query: str | int) -> httpx.Response:
            letters = f"{PATH}/t1/dead-letters{path}"
            return await http.get(letters, params=query, headers=person.bearer)

        page = (await get("", limit=1)).json()
        assert ([one["id"] for one in page["letters"]], page["next"]) == (numbers[:1], numbers[0])
        rest = (await get("", after=page["next"])).json()
        assert ([one["id"] for one in rest["letters"]], rest["next"]) == (numbers[2:3], None)
        assert (await get(f"/{numbers[0]}")).json()["body"] == "{}"
        assert (await get(f"/{numbers[1]}")).json()["error"]["code"] == "letter_unknown"
        assert (await get("", EVE)).json()["error"]["code"] == "trigger_unknown"
        # An operator reads them where it reads the others of its tenant.
        assert (await get("", ONCALL, owner=ANN.owner)).json()["error"]["code"] == "invalid_input"
        for one in (ANN, BOB):
            (await http.delete(f"{PATH}/t1", headers=one.bearer)).raise_for_status()
    assert [one async for one in Letters(bus).find(LetterFilter("acme"))] == []


async def test_letters_from_before_a_trigger_was_made_are_not_read(bus: Bus) -> None:
    await write_letter(bus, DeadLetter(reason="why", subject="s", at=now()), to=("aside", "ask"))
    found = list[int]()
    for since in (clock.now() - timedelta(minutes=5), clock.now() + timedelta(minutes=5)):
        wanted = LetterFilter("aside", since=since)
        found.append(len([one async for one in Letters(bus).find(wanted)]))
    assert found == [1, 0]


async def test_a_list_of_ones_triggers_reads_no_others(
    http: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus
) -> None:
    assert fleet.working
    store, large = (
        TriggerStore(bus),
        TriggerSpec.model_validate(SPEC | {"name": "large", "text": "x" * 50_000}),
    )
    for tenant, owner in (("default", "ann"), ("other", "ann"), ("default", "bob")):
        await store.put(large, tenant, owner)
    received = bus.connection.stats["in_bytes"]
    assert [one.owner for one in await store.all("default", "bob")] == ["bob"]
    assert 50_000 < bus.connection.stats["in_bytes"] - received < 100_000
    assert [one.owner for one in await store.all("other")] == ["ann"]
    for one in await store.all():
        await store.delete(one)
    assert (await http.get(PATH)).json() == {"triggers": []}


class OvertakenTriggers(TriggerStore):
    """Triggers of which others are made, or replaced, while one is added."""

    def __init__(self, bus: Bus, other: TriggerSpec, most: int) -> None:
        super().__init__(bus, most)
        self._other = other

    def _limit(self, tenant: str, owner: str) -> NumberLimit:
        async def count() -> int:
            stored = await self.all(tenant, owner)
            if stored or self._most_per_owner > 1:
                await TriggerStore(self._bus).put(self._other, tenant, owner)
            return 3 * len(stored)

        return replace(super()._limit(tenant, owner), count=count)


async def test_a_trigger_over_the_limit_stays_if_another_request_has_replaced_it(bus: Bus) -> None:
    spec, other = (
        TriggerSpec.model_validate(SPEC | {"name": "t", "text": text}) for text in ("own", "other")
    )
    with pytest.raises(TooManyTriggers):
        await OvertakenTriggers(bus, other, 1).put(spec, "default", "ann")
    [kept] = await TriggerStore(bus).all("default", "ann")
    assert kept.text == "other"
    await TriggerStore(bus).delete(kept)


async def test_a_trigger_that_another_request_makes_meanwhile_is_changed(bus: Bus) -> None:
    spec, other = (
        TriggerSpec.model_validate(SPEC | {"name": "t", "text": text}) for text in ("own", "other")
    )
    changed, is_new = await OvertakenTriggers(bus, other, 2).put(spec, "default", "ann")
    assert (changed.text, is_new) == ("own", False)
    assert await TriggerStore(bus).all("default", "ann") == [changed]
    await TriggerStore(bus).delete(changed)


async def test_no_more_triggers_than_allowed_are_made_at_the_same_time(bus: Bus) -> None:
    store = TriggerStore(bus, most_per_owner=3)
    specs = [TriggerSpec.model_validate(SPEC | {"name": f"t{number}"}) for number in range(20)]
    putting = (store.put(spec, "default", "ann") for spec in specs)
    made = await asyncio.gather(*putting, return_exceptions=True)
    refused = [one for one in made if isinstance(one, BaseException)]
    assert {type(one) for one in refused} == {TooManyTriggers}
    kept = await store.all("default", "ann")
    assert len(kept) == len(specs) - len(refused) <= 3
    for one in kept:
        await store.delete(one)
