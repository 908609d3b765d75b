"""Surfaces, given to A2UI's own renderer core as clients of AG-UI and A2A receive them."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.helpers.proto_helpers import new_text_message
from a2a.types import a2a_pb2
from google.protobuf.json_format import MessageToDict, ParseDict

from headrace.model.a2ui import BASIC_CATALOG, EXTENSION, MEDIA_TYPE
from headrace.model.events import Json
from tests.support import javascript
from tests.support.fleet import Fleet
from tests.support.plain_http import NO_TLS

type Drawn = Callable[[list[Json]], Json]
type Drive = Callable[..., Json]

BOOK: Json = {
    "name": "book",
    "sourceComponentId": "book",
    "context": {"name": "Ann"},
}
COMPONENTS = {
    "root": "Column",
    "title": "Text",
    "name": "TextField",
    "guests": "Text",
    "book": "Button",
    "book_text": "Text",
}


def shown(surface: str, button: str) -> Json:
    data = {"name": "Ann", "guests": "Two guests", "button": button}
    return {surface: {"components": COMPONENTS, "data": data}}


def surface_of(messages: list[Json]) -> str:
    [created] = [one["createSurface"] for one in messages if "createSurface" in one]
    surface: str = created["surfaceId"]
    return surface


@pytest.fixture(scope="module")
def draw() -> Iterator[Drawn]:
    """Return the surfaces that a page draws of messages, which keep the protocol's rules."""
    with javascript.Script("surfaces.mjs") as script:

        def drawn(messages: list[Json]) -> Json:
            said: Json = script.run(messages)
            assert (said["valid"], said["failure"]) == (True, None)
            surfaces: Json = said["surfaces"]
            return surfaces

        yield drawn


@pytest.fixture(scope="module")
def drive() -> Iterator[Drive]:
    """Run the official AG-UI client against an agent."""
    with javascript.Script("drive.mjs") as script:

        def driven(url: str, *runs: Json, **more: object) -> Json:
            order = {"url": f"{url}/v1/agents/surfaces/ag-ui", "runs": runs, **more}
            held: Json = script.run(order)
            assert held["warnings"] == []
            return held

        yield driven


def operations(held: Json) -> list[Json]:
    """Return the messages of the only surface that a client of AG-UI holds."""
    [activity] = [one for one in held["messages"] if one.get("activityType") == "a2ui-surface"]
    found: list[Json] = activity["content"]["a2ui_operations"]
    return found


def texts(held: Json) -> list[str]:
    return [one["content"] for one in held["messages"] if one["role"] == "assistant"]


async def test_a_page_draws_a_surface_and_what_is_done_on_it_changes_it(
    fleet: Fleet, drive: Drive, draw: Drawn
) -> None:
    [one, other] = fleet.gateways
    thread = str(uuid4())
    first = drive(one, {"text": "Ann"}, threadId=thread)
    surface = surface_of(operations(first))
    assert draw(operations(first)) == shown(surface, "Book")
    second = drive(other, {"press": BOOK}, threadId=thread, messages=first["messages"])
    assert draw(operations(second)) == shown(surface, "Booked")
    assert texts(second) == ["Who is coming? ", "A table for Ann is booked."]


async def test_a_page_that_comes_back_draws_the_surface_as_it_is(
    fleet: Fleet, drive: Drive, draw: Drawn, http: httpx.AsyncClient
) -> None:
    [one, other] = fleet.gateways
    thread = str(uuid4())
    first = drive(one, {"text": "Ann"}, threadId=thread)
    surface = surface_of(operations(first))
    drive(other, {"press": BOOK}, threadId=thread, messages=first["messages"])
    body = {"threadId": thread, "runId": "r", "messages": [], "tools": [], "context": []}
    answer = await http.post(f"{other}/copilotkit/agent/surfaces/connect", json=body)
    [snapshot] = [line for line in answer.text.splitlines() if "MESSAGES_SNAPSHOT" in line]
    restored: Json = httpx.Response(200, text=snapshot.removeprefix("data: ")).json()
    assert draw(operations(restored)) == shown(surface, "Booked")


async def test_a_client_of_a2a_gets_the_messages_and_sends_what_is_done(
    fleet: Fleet, draw: Drawn
) -> None:
    [one, other] = (f"{url}/v1/agents/surfaces" for url in fleet.gateways)
    async with httpx.AsyncClient(timeout=90, verify=NO_TLS) as http:
        config = ClientConfig(httpx_client=http)
        async with await ClientFactory(config).create_from_url(one) as client:
            card = MessageToDict(await A2ACardResolver(http, one).get_agent_card())
            [extension] = [e for e in card["capabilities"]["extensions"] if e["uri"] == EXTENSION]
            assert extension["params"]["supportedCatalogIds"] == [BASIC_CATALOG]
            assert MEDIA_TYPE in card["defaultInputModes"]
            message = new_text_message("Ann", role=a2a_pb2.ROLE_USER)
            request = a2a_pb2.SendMessageRequest(message=message)
            messages, context = await received(client.send_message(request))
            surface = surface_of(messages)
            assert draw([*messages, *messages]) == shown(surface, "Book"), "it may be drawn again"
        async with await ClientFactory(config).create_from_url(other) as client:
            part = {
                "data": [{"version": "v0.9", "action": BOOK | {"surfaceId": surface}}],
                "mediaType": MEDIA_TYPE,
            }
            done = {"messageId": "done", "role": "ROLE_USER", "parts": [part], "contextId": context}
            request = ParseDict({"message": done}, a2a_pb2.SendMessageRequest())
            changed, _ = await received(client.send_message(request))
            assert draw([*messages, *changed]) == shown(surface, "Booked")


async def received(events: object) -> tuple[list[Json], str]:
    """Return the A2UI messages of a stream, and its context."""
    messages, context = list[Json](), ""
    async for event in events:  # type: ignore[attr-defined]
        update = MessageToDict(event).get("statusUpdate", {})
        context = update.get("contextId", context)
        for part in update.get("status", {}).get("message", {}).get("parts", []):
            if part.get("metadata", {}).get("mimeType") == MEDIA_TYPE:
                assert part["mediaType"] == MEDIA_TYPE
                messages += part["data"]
    return messages, context
