"""What cards say of credentials is what is enforced: asked with what each card declares."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileOwner, FileStore
from headrace.model.subjects import encode_token
from headrace.model.task import TaskKey, mint_task_id
from headrace_gateway.settings import GatewaySettings
from tests.integration.gateway.scripts import EXTENDED
from tests.support.agui.runs import run_input
from tests.support.clients.bindings import Json, Rest, Rpc, Talk, message
from tests.support.clients.grpc_binding import Grpc
from tests.support.clients.websocket import connect
from tests.support.credentials import ANN, AUDIENCE, ISSUER, Issuer, Person, write
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports

AGENTS = ("assistant", "choosy", "partners", "either")
OF_HTTP = ("accept", "accept-encoding", "connection", "host", "user-agent")
SENDER = Person("acme", "sender", ("sender",))
READER = Person("acme", "reader", ("reader",))
ROLES = """
[[role]]
name = "sender"
agents = ["assistant", "choosy"]

[[role]]
name = "reader"
operations = ["read"]
"""
JWT = f"""
[jwt]
issuer = "{ISSUER}"
audience = "{AUDIENCE}"
algorithms = ["ES256"]
keys = "keys.json"
"""
SIGN_IN = """
[jwt.sign_in]
discovery = "openid-configuration.json"
flows = ["authorization_code", "client_credentials"]
"""
TOKENS = ("http", "oauth2", "openIdConnect")
"""Types of schemes whose credentials are bearer tokens."""


@asynccontextmanager
async def guarded(
    settings: GatewaySettings, file: Path | None
) -> AsyncIterator[tuple[httpx.AsyncClient, grpc.aio.Channel]]:
    """Run a gateway with that file of credentials."""
    update = {"credentials": file, "http_port": ports.pick(), "grpc_port": ports.pick()}
    changed = settings.model_copy(update=update)
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{changed.grpc_port}")
    async with (
        running(changed) as url,
        channel,
        httpx.AsyncClient(
            base_url=url, headers={"A2A-Version": "1.0"}, timeout=60, verify=NO_TLS
        ) as http,
    ):
        yield http, channel


async def card_of(http: httpx.AsyncClient, agent: str) -> Json:
    """Return the card, which says the same to clients of 0.3 and of Hector."""
    card: Json = (await http.get(f"/v1/agents/{agent}/.well-known/agent-card.json")).json()
    required = [{name: roles.get("list", []) for name, roles in one.items()} for one in needs(card)]
    assert card.get("security", []) == required
    path = f"/.well-known/a2a/agents/{agent}?format=hector"
    output = (await http.get(path)).json()["agent"].get("security", {})
    assert set(output.get("require", [])) == {name for one in required for name in one}
    for name, scheme in card.get("securitySchemes", {}).items():
        assert output["schemes"][name] == shape_of(scheme)
    return card


def needs(card: Json) -> list[Json]:
    return [one["schemes"] for one in card.get("securityRequirements", [])]


def shape_of(scheme: Json) -> Json:
    """Return the scheme as OpenAPI has it, by what 0.3 reads of the card."""
    if scheme["type"] == "http":
        return {"type": "http", "scheme": scheme["scheme"].lower()}
    if scheme["type"] in TOKENS:
        return {key: scheme[key] for key in ("type", "flows", "openIdConnectUrl") if key in scheme}
    if scheme["type"] == "mutualTLS":
        return {"type": "mutualTLS"}
    return {"type": "apiKey", "name": scheme["name"], "in": scheme["in"]}


def satisfying(scheme: Json, token: str) -> dict[str, str]:
    """Return the headers that satisfy a scheme, by its words in the card alone."""
    if scheme["type"] in TOKENS:
        return {"Authorization": f"Bearer {token}"}
    return {scheme["name"]: token}


def talks(http: httpx.AsyncClient, channel: grpc.aio.Channel, agent: str) -> Iterator[Talk]:
    yield from (Rest(http, agent), Rpc(http, agent), Grpc(http, agent, channel))


async def outcomes(
    http: httpx.AsyncClient, channel: grpc.aio.Channel, agent: str, headers: dict[str, str]
) -> set[str]:
    """Return what operations with these headers come to, over every binding."""
    http.headers.update(headers)
    found = set[str]()
    try:
        for talk in talks(http, channel, agent):
            for operation, params in (("SendMessage", message("hello")), ("ListTasks", {})):
                try:
                    await talk.call(operation, params)
                    found.add("passes")
                except AssertionError:
                    found.add((await talk.refused(operation, params)).reason)
        found |= await beside_operations(http, agent)
        found |= await over_sockets(http, agent)
    finally:
        for name in headers:
            del http.headers[name]
    return found


async def beside_operations(http: httpx.AsyncClient, agent: str) -> set[str]:
    """Return what an AG-UI run, the extended card and the download of a file come to."""
    base = f"/v1/agents/{agent}"
    answers = {
        "run": await http.post(f"{base}/ag-ui", json=run_input()),
        "card": await http.get(f"{base}/extendedAgentCard"),
        "file": await http.get(f"{base}/tasks/{mint_task_id(0)}/files/0123456789abcdef"),
    }
    passed = {"run": 200, "card": 400, "file": 404}
    refused = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED"}
    return {
        "passes"
        if answer.status_code == passed[name]
        else refused.get(answer.status_code, f"{name}: {answer.status_code} {answer.text}")
        for name, answer in answers.items()
    }


async def over_sockets(http: httpx.AsyncClient, agent: str) -> set[str]:
    """Return what a call and an AG-UI run come to, each over a WebSocket of its own."""
    call = Rpc(http, agent).request("SendMessage", message("hello"))
    return {
        await first_of(http, f"/v1/agents/{agent}/stream", call),
        await first_of(http, f"/v1/agents/{agent}/ag-ui/ws", run_input()),
    }


async def first_of(http: httpx.AsyncClient, path: str, frame: Json) -> str:
    """Return what the first frame is answered with, of those with credentials or without."""
    url = f"{http.base_url.copy_with(scheme='ws')}".rstrip("/")
    kept = {k: v for k, v in http.headers.items() if k not in OF_HTTP}
    try:
        async with connect(f"{url}{path}", additional_headers=kept) as socket:
            await socket.send(json.dumps(frame))
            output = json.loads(await asyncio.wait_for(socket.recv(), 60))
    except ConnectionClosed as closed:
        is_refused = closed.rcvd is not None and closed.rcvd.code == CloseCode.POLICY_VIOLATION
        return "UNAUTHENTICATED" if is_refused else f"{closed.rcvd}"
    if "error" in output or output.get("type") == "RUN_ERROR":
        is_denied = "PERMISSION_DENIED" in json.dumps(output).upper()
        return "PERMISSION_DENIED" if is_denied else json.dumps(output)
    return "passes"


def write_discovery(path: Path) -> None:
    """Write the discovery document of the issuer."""
    urls = {
        "authorization_endpoint": f"{ISSUER}/authorize",
        "token_endpoint": f"{ISSUER}/token",
    }
    path.write_text(json.dumps({"issuer": ISSUER, **urls}))


@pytest.mark.parametrize("kind", ["none", "keys", "optional", "tokens"])
async def test_each_declared_scheme_passes_where_it_is_accepted_and_nowhere_else(
    settings: GatewaySettings, fleet: ScriptedFleet, tmp_path: Path, kind: str
) -> None:
    assert fleet.working
    issuer = Issuer()
    issuer.write_keys(tmp_path / "keys.json")
    write_discovery(tmp_path / "openid-configuration.json")
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": time.time() + 600}
    token = issuer.token(claims) if kind == "tokens" else ANN.token
    people = () if kind == "tokens" else (ANN,)
    heads = {"optional": "required = false", "tokens": f"mutual_tls = true\n{JWT}{SIGN_IN}"}
    head = heads.get(kind, "")
    file = None if kind == "none" else write(tmp_path / "c.toml", *people, head=head)
    count = 0
    async with guarded(settings, file) as (http, channel):
        for agent in AGENTS:
            card = await card_of(http, agent)
            accepted = {name for one in needs(card) for name in one}
            nothing = await outcomes(http, channel, agent, {})
            assert nothing == ({"UNAUTHENTICATED"} if accepted else {"passes"}), agent
            for name, scheme in card.get("securitySchemes", {}).items():
                if kind == "tokens" and scheme["type"] not in TOKENS:
                    continue  # The file has no keys, and a proxy checks certificates.
                found = await outcomes(http, channel, agent, satisfying(scheme, token))
                passes = kind != "none" if name in accepted else not accepted
                assert found == ({"passes"} if passes else {"UNAUTHENTICATED"}), (agent, name)
                count += 1
    assert count == {"none": 6, "keys": 8, "optional": 8, "tokens": 7}[kind]


async def test_callers_that_satisfy_a_scheme_get_the_extended_card_and_the_tasks_files(
    settings: GatewaySettings, bus: Bus, fleet: ScriptedFleet, tmp_path: Path
) -> None:
    assert fleet.working
    base, content = "/v1/agents/ask", b"\x89PNG"
    file = write(tmp_path / "c.toml", ANN)
    count = 0
    async with guarded(settings, file) as (http, _):
        card = await card_of(http, "ask")
        schemes = {name: card["securitySchemes"][name] for one in needs(card) for name in one}
        http.headers.update(ANN.bearer)
        sent = await Rest(http, "ask").call("SendMessage", message("hello"))
        task = sent["task"]["id"]
        key = TaskKey(encode_token(ANN.tenant), "ask", task)
        owner = FileOwner(encode_token(ANN.owner), "c")
        link = await FileStore(bus).put(key, owner, content, "a.png", "image/png")
        del http.headers["Authorization"]
        paths = (
            f"{base}/extendedAgentCard",
            f"{base}/tasks/{task}/files/{link.rpartition('/')[2]}",
        )
        for headers in ({}, {"X-Partner-Key": ANN.token}):
            answers = [await http.get(path, headers=headers) for path in paths]
            assert [answer.status_code for answer in answers] == [401, 401], headers
        for scheme in schemes.values():
            extended, download = [
                await http.get(path, headers=satisfying(scheme, ANN.token)) for path in paths
            ]
            assert extended.json()["description"] == EXTENDED["description"]
            assert (download.status_code, download.content) == (200, content)
            count += 1
    assert count == 2


async def test_a_header_that_a_card_does_not_name_is_no_key(
    settings: GatewaySettings, fleet: ScriptedFleet, tmp_path: Path
) -> None:
    assert fleet.working
    async with guarded(settings, write(tmp_path / "c.toml", ANN)) as (http, channel):
        for agent, header in (("partners", "X-API-Key"), ("assistant", "X-Partner-Key")):
            found = await outcomes(http, channel, agent, {header: ANN.token})
            assert found == {"UNAUTHENTICATED"}, agent


async def test_roles_that_are_needed_stand_in_the_card(
    settings: GatewaySettings, fleet: ScriptedFleet, tmp_path: Path
) -> None:
    assert fleet.working
    file = write(tmp_path / "c.toml", SENDER, READER, head=ROLES)
    async with guarded(settings, file) as (http, channel):
        card = await card_of(http, "assistant")
        assert needs(card) == [{name: {"list": ["sender"]}} for name in ("bearer", "apiKey")]
        assert await outcomes(http, channel, "assistant", SENDER.bearer) == {"passes"}
        refused = await outcomes(http, channel, "assistant", READER.bearer)
        assert refused == {"PERMISSION_DENIED", "passes"}, "it may list, and not send"
