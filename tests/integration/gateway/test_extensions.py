"""Extensions and capabilities as an agent's card declares them, on every binding."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from a2a.utils.constants import TransportProtocol

from headrace.model.task import mint_task_id
from headrace_gateway.settings import GatewaySettings
from tests.integration.gateway.scripts import OPTIONAL, REQUIRED
from tests.support.clients.a2a_v03 import TRANSPORTS, old
from tests.support.clients.bindings import Talk, message
from tests.support.clients.websocket import connect
from tests.support.scripted_fleet import ScriptedFleet

HEADER = "A2A-Extensions"
OLD_HEADER = "X-A2A-Extensions"
"""What clients of 0.3 send."""


@contextmanager
def activating(http: httpx.AsyncClient, *uris: str, header: str = HEADER) -> Iterator[None]:
    http.headers[header] = ", ".join(uris)
    try:
        yield
    finally:
        del http.headers[header]


@pytest.mark.parametrize(
    ("operation", "params"),
    [
        ("SendMessage", message()),
        ("SendStreamingMessage", message()),
        ("GetTask", {"id": mint_task_id(0)}),
        ("ListTasks", {}),
        ("CancelTask", {"id": mint_task_id(0)}),
    ],
)
async def test_who_does_not_activate_what_is_required_is_refused(
    talk: Talk, operation: str, params: dict[str, object]
) -> None:
    refusal = await talk.to("demanding").refused(operation, params)
    assert refusal.reason == "EXTENSION_SUPPORT_REQUIRED"
    assert refusal.code in (400, -32008)
    assert REQUIRED["uri"] in refusal.text
    with activating(talk.http, str(OPTIONAL["uri"])):
        again = await talk.to("demanding").refused(operation, params)
    assert again.reason == "EXTENSION_SUPPORT_REQUIRED"


async def test_activated_extensions_are_echoed_and_passed_to_the_agent(
    talk: Talk, fleet: ScriptedFleet
) -> None:
    uris = [str(OPTIONAL["uri"]), str(REQUIRED["uri"])]
    with activating(talk.http, *uris, "urn:test:unknown"):
        response = await talk.to("demanding").send("SendMessage", message())
    assert response.headers[HEADER].split(", ") == uris
    assert fleet.runs[-1].metadata["headrace.extensions"] == uris


async def test_an_extension_may_be_activated_in_the_query(http: httpx.AsyncClient) -> None:
    query = {HEADER: REQUIRED["uri"]}
    response = await http.get("/v1/agents/demanding/tasks", params=query)
    assert response.headers[HEADER] == REQUIRED["uri"]


@pytest.mark.parametrize("operation", ["SendMessage", "SendStreamingMessage"])
async def test_who_activates_in_the_header_of_0_3_is_answered_in_it(
    talk: Talk, fleet: ScriptedFleet, operation: str
) -> None:
    uris = [str(OPTIONAL["uri"]), str(REQUIRED["uri"])]
    with activating(talk.http, *uris, header=OLD_HEADER):
        response = await talk.to("demanding").send(operation, message())
    assert response.headers[OLD_HEADER].split(", ") == uris
    assert HEADER not in response.headers
    assert fleet.runs[-1].metadata["headrace.extensions"] == uris


async def test_who_names_extensions_in_both_headers_is_answered_in_both(
    talk: Talk, fleet: ScriptedFleet
) -> None:
    required, optional = str(REQUIRED["uri"]), str(OPTIONAL["uri"])
    with (
        activating(talk.http, required),
        activating(talk.http, optional, header=OLD_HEADER),
    ):
        response = await talk.to("demanding").send("SendMessage", message())
    both = [optional, required]
    assert [response.headers[name].split(", ") for name in (HEADER, OLD_HEADER)] == [both, both]
    assert fleet.runs[-1].metadata["headrace.extensions"] == both


async def test_a_websocket_is_opened_with_the_header_of_0_3(gateway: str) -> None:
    where = f"{gateway.replace('http', 'ws', 1)}/v1/agents/demanding/stream"
    uri = str(REQUIRED["uri"])
    async with connect(where, additional_headers={OLD_HEADER: uri}) as socket:
        assert socket.response is not None
        assert socket.response.headers[OLD_HEADER] == uri


@pytest.mark.parametrize("transport", TRANSPORTS, ids=lambda transport: transport.value)
async def test_the_sdks_clients_of_0_3_activate_extensions(
    gateway: str, settings: GatewaySettings, fleet: ScriptedFleet, transport: TransportProtocol
) -> None:
    uri = str(REQUIRED["uri"])
    async with old(gateway, settings, transport, "demanding") as client:
        client.say(OLD_HEADER, uri)
        events = await client.send("hello")
    assert events
    assert fleet.runs[-1].metadata["headrace.extensions"] == [uri]


async def test_an_agents_own_extensions_stand_on_its_card(http: httpx.AsyncClient) -> None:
    card = (await http.get("/v1/agents/demanding")).json()
    assert card["capabilities"]["extensions"][-2:] == [REQUIRED, OPTIONAL]


@pytest.mark.parametrize("operation", ["SendStreamingMessage", "SubscribeToTask"])
async def test_an_agent_that_offers_no_streams_refuses_them(talk: Talk, operation: str) -> None:
    agent = talk.to("terse")
    task = (await agent.call("SendMessage", message()))["task"]["id"]
    params = message() if operation == "SendStreamingMessage" else {"id": task}
    refusal = await agent.refused(operation, params)
    assert refusal.reason == "UNSUPPORTED_OPERATION"
    assert "does not support streaming" in refusal.text


async def test_the_agent_gets_the_modes_that_a_client_accepts(
    talk: Talk, fleet: ScriptedFleet
) -> None:
    request = message() | {"configuration": {"acceptedOutputModes": ["text/html", "text/plain"]}}
    await talk.call("SendMessage", request)
    accepted = fleet.runs[-1].metadata["headrace.acceptedOutputModes"]
    assert accepted == ["text/html", "text/plain"]
