"""Cards and discovery."""

import httpx
import pytest
from a2a.client.card_resolver import A2ACardResolver
from a2a.compat.v0_3.types import AgentCard as OldCard
from a2a.utils.proto_utils import validate_proto_required_fields

from headrace_gateway.settings import GatewaySettings
from tests.integration.gateway.scripts import AGENTS
from tests.support.clients.bindings import Json
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports
from tests.support.waiting import eventually

CARD = "/.well-known/agent-card.json"


async def test_a_card_is_valid_and_states_where_the_agent_is(
    gateway: str, settings: GatewaySettings
) -> None:
    async with httpx.AsyncClient(timeout=60, verify=NO_TLS) as http:
        card = await A2ACardResolver(http, gateway).get_agent_card()
    validate_proto_required_fields(card)
    assert card.name == "assistant"
    assert [
        (at.url, at.protocol_binding, at.protocol_version) for at in card.supported_interfaces
    ] == [
        (f"{gateway}/v1/agents/assistant", "JSONRPC", "1.0"),
        (f"{gateway}/v1/agents/assistant", "HTTP+JSON", "1.0"),
        (f"127.0.0.1:{settings.grpc_port}", "GRPC", "1.0"),
    ]
    assert [at.tenant for at in card.supported_interfaces] == ["", "", "assistant"]
    assert card.capabilities.streaming
    assert card.capabilities.push_notifications
    assert not card.capabilities.extended_agent_card
    assert [extension.uri for extension in card.capabilities.extensions] == [
        "urn:headrace:cursor:v1",
        "urn:headrace:generation:v1",
        "urn:headrace:timeline:v1",
        "urn:headrace:delete-task:v1",
        "urn:headrace:fork:v1",
        "urn:headrace:thread:v1",
        "urn:headrace:start-at:v1",
        "https://ag-ui.org/protocol/v1",
    ]


@pytest.mark.parametrize("path", [CARD, "", "/"])
async def test_each_agents_card_is_under_its_base(http: httpx.AsyncClient, path: str) -> None:
    card = (await http.get(f"/v1/agents/ask{path}")).json()
    assert card["name"] == "Asks for names"
    assert (await http.get(path or "/")).json()["name"] == "assistant"


async def test_an_agent_without_details_has_a_complete_card(
    http: httpx.AsyncClient,
) -> None:
    card = (await http.get(f"/v1/agents/ask{CARD}")).json()
    assert card["description"]
    assert card["skills"][0]["tags"]


@pytest.mark.parametrize("path", [CARD, ""])
async def test_a_card_shows_people_who_and_whose_an_agent_is(
    http: httpx.AsyncClient, path: str
) -> None:
    card = (await http.get(f"/v1/agents/ask{path}")).json()
    assert card["iconUrl"] == "https://ask.example/icon.png"
    assert card["documentationUrl"] == "https://ask.example/docs"
    assert card["provider"] == {"organization": "Acme", "url": "https://acme.example"}
    old = OldCard.model_validate(card)
    assert (old.name, old.icon_url) == ("Asks for names", "https://ask.example/icon.png")
    assert old.provider is not None
    assert old.provider.organization == "Acme"
    hectors = (await http.get("/.well-known/a2a/agents/ask?format=hector")).json()["agent"]
    assert hectors["name"] == "Asks for names"


async def test_cards_depend_on_the_host_of_the_request(
    http: httpx.AsyncClient, settings: GatewaySettings
) -> None:
    host = f"localhost:{settings.http_port}"
    card = (await http.get(CARD, headers={"Host": host})).json()
    assert [at["url"] for at in card["supportedInterfaces"]] == [
        f"http://{host}/v1/agents/assistant",
        f"http://{host}/v1/agents/assistant",
        f"localhost:{settings.grpc_port}",
    ]


@pytest.mark.parametrize("grpc", [[], ["grpc.example:443"]], ids=["http", "grpc"])
async def test_cards_go_by_the_public_url_where_there_is_one(
    settings: GatewaySettings, grpc: list[str]
) -> None:
    public: dict[str, object] = {"public_url": "https://agents.example/fleet/"}
    public |= {"public_grpc": grpc[0] if grpc else None}
    public |= {"http_port": ports.pick(), "grpc_port": 0}
    async with (
        running(settings.model_copy(update=public)) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as http,
    ):
        card = (await http.get(CARD, headers={"Host": "agents.example"})).json()
    base = "https://agents.example/fleet/v1/agents/assistant"
    assert [at["url"] for at in card["supportedInterfaces"]] == [base, base, *grpc]


async def test_a_card_that_a_client_has_is_not_sent_again(http: httpx.AsyncClient) -> None:
    first = await http.get(CARD)
    etag = first.headers["etag"]
    assert "max-age" in first.headers["cache-control"]
    for known in (etag, f'"other", {etag.removeprefix("W/")}'):
        again = await http.get(CARD, headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == etag
    assert (await http.get(CARD, headers={"If-None-Match": '"other"'})).is_success


async def test_all_agents_are_listed_with_who_is_there(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    for name in AGENTS:
        await fleet.announcer.renew(name)
    agents = dict[str, Json]()

    async def are_there() -> bool:
        listed = (await http.get("/v1/agents")).json()["agents"]
        agents.update({entry["id"]: entry for entry in listed})
        return all(entry["available"] for entry in listed)

    await eventually(are_there, "all agents are available")
    assert list(agents) == sorted(AGENTS)
    assert [name for name, entry in agents.items() if entry["default"]] == ["assistant"]
    card = await http.get(agents["ask"]["card"])
    assert card.json()["name"] == "Asks for names"

    async def is_gone() -> bool:
        for name in AGENTS.keys() - {"ask"}:
            await fleet.announcer.renew(name)
        # Again each time: the fleet renews all of its keys, as a worker does.
        await fleet.announcer.withdraw("ask")
        listed = (await http.get("/v1/agents")).json()["agents"]
        return [entry["id"] for entry in listed if not entry["available"]] == ["ask"]

    await eventually(is_gone, "the agent is listed as unavailable")
    assert (await http.get(f"/v1/agents/ask{CARD}")).is_success
    await fleet.announcer.renew("ask")


async def test_the_well_known_pages(http: httpx.AsyncClient) -> None:
    page = (await http.get("/.well-known/a2a")).json()
    assert page["agents"][0] == {"id": "ask", "name": "Asks for names", "url": "/v1/agents/ask"}
    agent = (await http.get("/.well-known/a2a/agents/ask")).json()["agent"]
    assert agent == (await http.get(f"/v1/agents/ask{CARD}")).json()


@pytest.mark.parametrize(
    "path", [f"/v1/agents/nobody{CARD}", "/v1/agents/nobody", "/.well-known/a2a/agents/nobody"]
)
async def test_an_unknown_agent_has_no_card(http: httpx.AsyncClient, path: str) -> None:
    response = await http.get(path)
    assert response.status_code == 404
    assert response.json()["error"]["details"][0]["reason"] == "AGENT_NOT_FOUND"


async def test_extensions_that_a_client_activates_are_echoed(http: httpx.AsyncClient) -> None:
    named = {"A2A-Extensions": "urn:other, urn:headrace:cursor:v1"}
    response = await http.get("/tasks", headers=named)
    assert response.headers["a2a-extensions"] == "urn:headrace:cursor:v1"
    assert "a2a-extensions" not in (await http.get("/tasks")).headers
