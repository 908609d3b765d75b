"""The clients that are kept for an outside agent whose card is read again and again."""

import pytest
from a2a.client import Client
from a2a.client.base_client import BaseClient

from headrace.adapters.a2a.remote_client import Place, Remote
from headrace.model.events import Json
from tests.support.fake_gateway import ScriptedResponse, answering

CARD = "/.well-known/agent-card.json"


def card(version: str) -> ScriptedResponse:
    interface = {"url": "http://127.0.0.1:1", "protocolBinding": "JSONRPC"}
    body: Json = {"name": "a", "version": version, "supportedInterfaces": [interface]}
    return ScriptedResponse(body=body)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    """Returns the clients that were closed, in that order."""
    found: list[Client] = []

    async def close(self: Client) -> None:
        found.append(self)

    monkeypatch.setattr(BaseClient, "close", close)
    return found


async def test_a_card_that_is_read_again_keeps_its_client(closed: list[Client]) -> None:
    with answering(**{CARD: card("1")}) as server:
        remote = Remote(place(server.url))
        async with remote.used():
            clients = [await current(remote) for _ in range(5)]
            assert len(server.asked) == 5
            assert closed == []
    assert closed == clients[:1]


async def test_a_changed_cards_client_replaces_the_one_before_it(closed: list[Client]) -> None:
    with answering(**{CARD: [card("1"), card("2"), card("3")]}) as server:
        remote = Remote(place(server.url))
        async with remote.used():
            clients = [await current(remote) for _ in range(3)]
            assert closed == clients[:2]
    assert closed == clients


async def test_a_client_with_an_open_call_is_closed_after_it(closed: list[Client]) -> None:
    with answering(**{CARD: [card("1"), card("2"), card("2")]}) as server:
        remote = Remote(place(server.url))
        async with remote.used():
            async with remote._client() as first:
                second = await current(remote)
                assert closed == []
            assert closed == [first]
        assert closed == [first, second]


async def current(remote: Remote) -> Client:
    async with remote._client() as client:
        return client


def place(url: str) -> Place:
    return Place(url, origins=["http://127.0.0.1:1"], card_life=-1.0)
