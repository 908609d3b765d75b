"""Cards are found where clients look: at A2A's older path, and joined to an agent's URL."""

from urllib.parse import urljoin

import httpx
import pytest

CARD = ".well-known/agent-card.json"


@pytest.mark.parametrize("base", ["/", "/v1/agents/assistant/"])
async def test_the_path_of_older_clients_has_the_card(http: httpx.AsyncClient, base: str) -> None:
    card = (await http.get(base + CARD)).raise_for_status()
    assert (await http.get(f"{base}.well-known/agent.json")).json() == card.json()
    assert card.json()["name"]


async def test_a_path_joined_to_an_agents_url_is_the_agents_or_states_what_it_lacks(
    http: httpx.AsyncClient,
) -> None:
    url = str(http.base_url.join("/v1/agents/assistant"))
    card = (await http.get(urljoin(f"{url}/", CARD))).raise_for_status().json()
    assert card["name"] == "assistant"
    lost = await http.get(urljoin(url, CARD))
    assert lost.status_code == 404
    assert "end the agent's URL with a slash" in lost.json()["error"]["message"]
