"""Cards that say whose they are, and the one for callers who are known."""

import json
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
import pytest_asyncio
from a2a.client.card_resolver import parse_agent_card
from a2a.compat.v0_3 import types
from a2a.utils.signing import (
    InvalidSignaturesError,
    create_signature_verifier,
)

from headrace import signing
from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket
from headrace.signing import KeyRing, SigningKeys, StoredKey, make_pem, rotate
from headrace_gateway.protocols.a2a_v03.responses import proto_answer
from headrace_gateway.settings import GatewaySettings
from tests.integration.gateway.scripts import EXTENDED
from tests.support.clients.bindings import Json, Rest, Rpc, Talk
from tests.support.credentials import ANN, write
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports

CARD = "/v1/agents/assistant/.well-known/agent-card.json"


async def verify(http: httpx.AsyncClient, card: Json) -> str:
    """Return the id of the key that signed the card, which is in the published set."""
    header = jwt.utils.base64url_decode(card["signatures"][0]["protected"])
    kid: str = json.loads(header)["kid"]
    published = (await http.get("/.well-known/jwks.json")).json()["keys"]
    keys = {key["kid"]: jwt.PyJWK(key) for key in published}
    assert all("d" not in key for key in published)
    check = create_signature_verifier(lambda name, _: keys[str(name)], ["ES256", "EdDSA", "RS256"])
    check(parse_agent_card(card | {}))
    return kid


async def test_every_card_is_signed_with_a_published_key(http: httpx.AsyncClient) -> None:
    kids = set()
    for agent in ("assistant", "ask", "patient", "bare"):
        card = (await http.get(f"/v1/agents/{agent}")).json()
        kids.add(await verify(http, card))
        page = (await http.get(f"/.well-known/a2a/agents/{agent}")).json()["agent"]
        assert page == card
    assert len(kids) == 1


async def test_a_card_that_was_altered_is_found_out(http: httpx.AsyncClient) -> None:
    card = (await http.get(CARD)).json()
    with pytest.raises(InvalidSignaturesError):
        await verify(http, card | {"name": "somebody else"})


async def test_the_catalog_of_all_agents_is_signed_and_leads_to_their_cards(
    http: httpx.AsyncClient,
) -> None:
    answer = await http.get("/.well-known/ai-catalog.json")
    assert answer.headers["content-type"] == "application/ai-catalog+json"
    catalog = answer.json()
    header, _, signature = catalog.pop("signature").split(".")
    canonical = json.dumps(catalog, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    kid = json.loads(jwt.utils.base64url_decode(header))["kid"]
    published = (await http.get("/.well-known/jwks.json")).json()["keys"]
    key = next(jwt.PyJWK(one) for one in published if one["kid"] == kid)
    token = f"{header}..{signature}"
    check = partial(jwt.api_jws.decode, token, key, [key.algorithm_name])
    check(detached_payload=canonical.encode())
    with pytest.raises(jwt.InvalidSignatureError):
        check(detached_payload=canonical.replace("assistant", "impostor").encode())

    assert catalog["specVersion"] == "0.9"
    entries = {one["identifier"].rpartition(":")[2]: one for one in catalog["entries"]}
    listed = (await http.get("/v1/agents")).json()["agents"]
    assert set(entries) == {one["id"] for one in listed}
    for name in ("assistant", "ask"):
        assert entries[name]["type"] == "application/a2a-agent-card+json"
        page = (await http.get(f"/.well-known/a2a/agents/{name}")).json()["agent"]
        assert (await http.get(entries[name]["url"])).json() == page


async def test_a_card_that_is_known_is_not_sent_again(http: httpx.AsyncClient) -> None:
    first = await http.get(CARD)
    etag, modified = first.headers["etag"], first.headers["last-modified"]
    for headers, status in (
        ({"If-None-Match": etag}, 304),
        ({"If-None-Match": f'"other", {etag}'}, 304),
        ({"If-None-Match": etag.removeprefix("W/")}, 304),
        ({"If-None-Match": "*"}, 304),
        ({"If-None-Match": '"other"'}, 200),
        ({"If-Modified-Since": modified}, 304),
        ({"If-Modified-Since": "Mon, 01 Jan 2001 00:00:00 GMT"}, 200),
        ({"If-Modified-Since": "yesterday"}, 200),
        ({"If-None-Match": '"other"', "If-Modified-Since": modified}, 200),
    ):
        answer = await http.get(CARD, headers=headers)
        assert answer.status_code == status, headers
        assert answer.headers["etag"] == etag
        assert answer.headers["last-modified"] == modified


async def test_all_gateways_of_a_fleet_sign_with_one_key(
    http: httpx.AsyncClient, settings: GatewaySettings
) -> None:
    other = settings.model_copy(update={"http_port": ports.pick(), "grpc_port": ports.pick()})
    async with (
        running(other) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as second,
    ):
        kid = await verify(http, (await http.get(CARD)).json())
        assert await verify(second, (await second.get(CARD)).json()) == kid


async def test_a_new_key_is_published_before_it_signs_and_an_old_one_after(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = SigningKeys(bus)
    await keys.start()
    old = keys.current.id
    new = (await rotate(bus)).id
    await keys._look()
    published = {key["kid"] for key in keys.key_set()["keys"]}
    assert (keys.current.id, published) == (old, {old, new})
    moment = time.time() + signing.LEAD
    monkeypatch.setattr("headrace.signing.time.time", lambda: moment)
    assert keys.current.id == new
    monkeypatch.undo()
    sole = (await rotate(bus, at_once=True)).id
    await keys._look()
    assert [key["kid"] for key in keys.key_set()["keys"]] == [keys.current.id] == [sole]
    await keys.stop()


async def test_a_key_that_nobody_can_read_is_replaced(bus: Bus) -> None:
    keys = Bucket(bus, bus.streams.keys)
    found = await keys.get("signing")
    ring = KeyRing(keys=[StoredKey(pem="no key", since=0.0)])
    await keys.put("signing", ring.encode(), found.sequence)
    new = await rotate(bus, at_once=True)
    assert new.replaced == ["unreadable"]
    [stored] = (await signing.read_ring(keys)).keys
    assert signing._id_of(stored) == new.id


def test_a_new_key_is_in_all_cached_key_sets_before_any_process_signs_with_it() -> None:
    last_published = signing.LOOK_EVERY
    last_without_it_expires = last_published + signing.MAX_AGE
    assert last_without_it_expires <= signing.LEAD - signing.MARGIN


def test_rotations_in_a_row_keep_the_key_in_use() -> None:
    ring, later = KeyRing().with_new(0.0, alone=True), time.time() + signing.LEAD
    for _ in range(4):
        ring = ring.with_new(later, alone=False)
    assert [one.since for one in ring.keys] == [0.0, later]


@pytest.mark.parametrize("minutes", [4, 6, 11])
def test_rotations_keep_what_a_process_whose_clock_is_off_may_sign_with(
    monkeypatch: pytest.MonkeyPatch, minutes: int
) -> None:
    """Two clocks are up to `MARGIN` apart; there is a rotation every few `minutes`."""
    start, ring = time.time(), KeyRing().with_new(0.0, alone=True)
    most = 0
    for minute in range(0, 120, minutes):
        now = start + minute * 60
        monkeypatch.setattr("headrace.signing.time.time", lambda now=now: now)
        signing_now = {
            [one for one in ring.keys if one.since <= now + apart][-1].pem
            for apart in (-signing.MARGIN, 0.0, signing.MARGIN)
        }
        ring = ring.with_new(now + signing.LEAD, alone=False)
        published = [one.pem for one in ring.keys]
        assert signing_now <= set(published)
        most = max(most, len(published))
    assert most <= 6


async def test_keys_of_files_sign_instead_and_all_are_published(bus: Bus, tmp_path: Path) -> None:
    files = [tmp_path / "new.pem", tmp_path / "old.pem"]
    for file in files:
        file.write_text(make_pem())
    keys = SigningKeys(bus, files)
    await keys.start()
    published = [key["kid"] for key in keys.key_set()["keys"]]
    assert published[0] == keys.current.id
    assert len(published) == 2
    files[0].write_text("no key")
    with pytest.raises(signing.KeyUnreadable, match=r"new\.pem"):
        SigningKeys(bus, files)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(
    settings: GatewaySettings,
    one_fleet: ScriptedFleet,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[httpx.AsyncClient]:
    assert one_fleet.working
    file = tmp_path_factory.mktemp("c") / "credentials.toml"
    update = {
        "credentials": write(file, ANN, head="required = false"),
        "http_port": ports.pick(),
        "grpc_port": ports.pick(),
    }
    async with (
        running(settings.model_copy(update=update)) as url,
        httpx.AsyncClient(
            base_url=url, headers={"A2A-Version": "1.0"}, timeout=60, verify=NO_TLS
        ) as http,
    ):
        yield http


@pytest.mark.parametrize("binding", [Rest, Rpc])
async def test_the_extended_card_is_for_callers_who_are_known(
    guarded: httpx.AsyncClient, binding: type[Talk]
) -> None:
    talk = binding(guarded, "ask")
    guarded.headers.pop("authorization", None)
    refusal = await talk.refused("GetExtendedAgentCard", {})
    assert (refusal.status, refusal.reason) == (401, "UNAUTHENTICATED")
    guarded.headers.update(ANN.bearer)
    card = await talk.call("GetExtendedAgentCard", {})
    assert card["description"] == EXTENDED["description"]
    assert [skill["id"] for skill in card["skills"]] == ["ask", "names"]
    await verify(guarded, card)
    public = (await guarded.get("/v1/agents/ask")).json()
    assert public["capabilities"]["extendedAgentCard"]
    assert [skill["id"] for skill in public["skills"]] == ["ask"]


async def test_clients_of_03_get_the_extended_card_in_their_form(
    guarded: httpx.AsyncClient,
) -> None:
    headers = {**ANN.bearer, "A2A-Version": "0.3"}
    over_rest = await guarded.get("/v1/agents/ask/v1/card", headers=headers)
    assert over_rest.status_code == 200
    call = {"jsonrpc": "2.0", "id": 1, "method": "agent/getAuthenticatedExtendedCard"}
    over_rpc = await guarded.post("/v1/agents/ask", json=call, headers=headers)
    assert over_rpc.json()["result"] == over_rest.json()
    card = types.AgentCard.model_validate(over_rest.json())
    assert (card.description, card.protocol_version) == (EXTENDED["description"], "0.3")
    assert card.url.endswith("/v1/agents/ask")
    await verify(guarded, over_rest.json())
    over_grpc: Any = proto_answer("GetExtendedAgentCard", over_rest.json())
    assert (over_grpc.description, over_grpc.url) == (card.description, card.url)


@pytest.mark.parametrize("binding", [Rest, Rpc])
async def test_an_extended_card_without_content_or_declaration_is_refused(
    guarded: httpx.AsyncClient, binding: type[Talk]
) -> None:
    guarded.headers.update(ANN.bearer)
    refusal = await binding(guarded, "patient").refused("GetExtendedAgentCard", {})
    assert refusal.reason == "EXTENDED_AGENT_CARD_NOT_CONFIGURED"
    assert refusal.code in (-32007, 400)
    refusal = await binding(guarded, "assistant").refused("GetExtendedAgentCard", {})
    assert refusal.reason == "UNSUPPORTED_OPERATION"


async def test_no_extended_card_is_configured_without_credentials(talk: Talk) -> None:
    refusal = await talk.to("ask").refused("GetExtendedAgentCard", {})
    assert refusal.reason == "EXTENDED_AGENT_CARD_NOT_CONFIGURED"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "127.0.0.1:80@evil.example", "evil.example#@[::1]"],
)
async def test_a_host_header_gets_no_signed_card_for_another_host(
    http: httpx.AsyncClient, host: str
) -> None:
    for path in (CARD, "/v1/agents/assistant"):
        answer = await http.get(path, headers={"Host": host})
        # Where no such host is served at all, nothing is signed either.
        assert answer.status_code in {200, 400, 403, 421}
        assert "signatures" not in answer.json()
