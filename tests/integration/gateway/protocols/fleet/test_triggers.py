"""Triggers over HTTP: who may make, see and delete which."""

import httpx

from headrace.client import Client
from headrace.jetstream.connection import Bus
from headrace.model.subjects import encode_token
from headrace.triggers import TriggerStore
from tests.integration.gateway.protocols.fleet.conftest import FAQ, ONCALL, OpenRoleGateway
from tests.support.credentials import ANN, BOB, EVE
from tests.support.scripted_fleet import ScriptedFleet

PATH = "/v1/triggers"
SPEC = {"agent": "ask", "subject": "default.orders.*", "stream": "ORDERS", "text": "{body.id}"}


async def test_a_trigger_is_made_changed_listed_and_deleted(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    async with Client(str(http.base_url)) as client:
        made = await client.put_trigger({"name": "t1", **SPEC})
        assert made == {"name": "t1", **SPEC, "owner": "anonymous", "since": made["since"]}
        changed = await client.put_trigger({"name": "t1", **SPEC, "paused": True})
        assert changed == {**made, "paused": True}
        assert await client.triggers() == [changed]
        assert (await http.get(f"{PATH}/t1")).json() == changed
        await client.delete_trigger("t1")
        assert await client.triggers() == []
    gone = await http.delete(f"{PATH}/t1")
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "trigger_unknown")


async def test_a_refusal_names_the_field_and_the_rule(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    wrong = await http.put(f"{PATH}/t1", json=SPEC | {"text": "{id}"})
    assert wrong.status_code == 400
    assert wrong.json()["error"]["message"].startswith("text: 'id' must be subject")
    nobody = await http.put(f"{PATH}/t1", json=SPEC | {"agent": "nobody"})
    assert (nobody.status_code, nobody.json()["error"]["code"]) == (404, "agent_unknown")
    high = await http.put(f"{PATH}/t1", json=SPEC | {"priority": "high"})
    assert high.status_code == 400
    assert (await http.get(PATH)).json() == {"triggers": []}


async def test_a_trigger_belongs_to_its_owner_and_tenant(
    open_role_gateway: OpenRoleGateway, fleet: ScriptedFleet, bus: Bus
) -> None:
    assert fleet.working
    subjects = {"trigger_subjects": ["{tenant}.orders.>"]}
    async with open_role_gateway(BOB, EVE, FAQ, ONCALL, **subjects) as gateway:

        async def status(method: str, who: dict[str, str], **changed: str) -> int:
            body = SPEC | {"subject": "acme.orders.*"} | changed if method == "PUT" else None
            answer = await gateway.http.request(method, f"{PATH}/mine", json=body, headers=who)
            return answer.status_code

        assert await status("PUT", ANN.bearer, subject="other.orders.*") == 403
        assert await status("PUT", FAQ.bearer) == 403  # its roles have another agent
        assert await status("PUT", ANN.bearer) == 201
        assert await status("PUT", BOB.bearer) == 409
        assert [await status("GET", one.bearer) for one in (ANN, BOB, EVE, ONCALL)] == [
            *(200, 404, 404),
            200,
        ]
        assert await status("DELETE", BOB.bearer) == 404
        assert await status("PUT", EVE.bearer, subject="other.orders.*") == 201
        kept = await TriggerStore(bus).all()
        assert [(one.tenant, one.owner, one.subject) for one in kept] == [
            ("acme", encode_token(ANN.owner), "acme.orders.*"),
            ("other", encode_token(EVE.owner), "other.orders.*"),
        ]
        assert await status("DELETE", ONCALL.bearer) == 200
        assert await status("DELETE", EVE.bearer) == 200
