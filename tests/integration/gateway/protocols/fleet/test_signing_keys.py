"""Operators rotate the fleet's signing key over HTTP."""

from pathlib import Path

import httpx
import pytest

from headrace.jetstream.connection import Bus
from headrace.signing import LEAD, SigningKeys, make_pem
from tests.integration.gateway.protocols.fleet.conftest import (
    DEPLOYER,
    OPERATOR,
    RELEASER,
    OpenRoleGateway,
)

ROTATE = "/v1/signing-keys:rotate"


async def published(bus: Bus) -> list[str]:
    """Return the ids of the published keys, the newest first."""
    keys = SigningKeys(bus)
    await keys.start()
    await keys.stop()
    return [key["kid"] for key in keys.key_set()["keys"]]


async def test_a_new_key_is_published_and_signs_later_or_at_once(
    http: httpx.AsyncClient, bus: Bus
) -> None:
    [before] = await published(bus)
    later = (await http.post(ROTATE)).raise_for_status().json()
    assert (later["usedInSeconds"], later["replaced"]) == (LEAD, [])
    assert await published(bus) == [later["kid"], before]
    again = (await http.post(ROTATE)).raise_for_status().json()
    assert again["replaced"] == [later["kid"]]
    assert await published(bus) == [again["kid"], before]
    sole = (await http.post(ROTATE, json={"atOnce": True})).raise_for_status().json()
    assert (sole["usedInSeconds"], sorted(sole["replaced"])) == (0, sorted([again["kid"], before]))
    assert await published(bus) == [sole["kid"]]


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ({"atOnce": 1}, "atOnce: must be true or false"),
        ({"now": True}, "now: unknown; the body may have atOnce"),
    ],
)
async def test_an_invalid_body_is_refused_and_no_key_is_made(
    http: httpx.AsyncClient, bus: Bus, body: dict[str, object], rule: str
) -> None:
    before = await published(bus)
    answer = await http.post(ROTATE, json=body)
    error = {"code": "invalid_input", "message": rule}
    assert (answer.status_code, answer.json()["error"]) == (400, error)
    assert await published(bus) == before


async def test_only_who_may_route_all_agents_rotates_and_it_is_audited(
    open_role_gateway: OpenRoleGateway, bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    before = await published(bus)
    async with open_role_gateway(OPERATOR, RELEASER, DEPLOYER) as gateway:
        refused = [
            (await gateway.http.post(ROTATE, headers=headers)).status_code
            for headers in ({}, OPERATOR.bearer, RELEASER.bearer)
        ]
        assert (refused, await published(bus)) == ([401, 403, 403], before)
        with caplog.at_level("INFO", "headrace.audit"):
            answer = await gateway.http.post(ROTATE, headers=DEPLOYER.bearer)
    assert answer.status_code == 200
    logged = [one.getMessage() for one in caplog.records if one.name == "headrace.audit"]
    who = "tenant=acme owner=deployer role=operator operation"
    assert f"{who}=RotateSigningKey agent=* task=- target_owner=- outcome=permitted" in logged


async def test_keys_of_files_are_rotated_there(
    open_role_gateway: OpenRoleGateway, bus: Bus, tmp_path: Path
) -> None:
    before, file = await published(bus), tmp_path / "key.pem"
    file.write_text(make_pem())
    async with open_role_gateway(DEPLOYER, signing_keys=[file]) as gateway:
        answer = await gateway.http.post(ROTATE, headers=DEPLOYER.bearer)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "keys_in_files")
    assert "HEADRACE_SIGNING_KEYS" in answer.json()["error"]["message"]
    assert await published(bus) == before
