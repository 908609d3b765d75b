"""Behind the shipped nginx, cards name the URL that clients use, without HEADRACE_PUBLIC_URL."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.support.nginx import Nginx, needs_nginx
from tests.support.plain_http import NO_TLS

pytestmark = needs_nginx

CARD = "/v1/agents/assistant/.well-known/agent-card.json"


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    return {"trusted_proxies": ["127.0.0.1"]}


@pytest_asyncio.fixture(loop_scope="module", params=["", "/fleet/one"], ids=["root", "a path"])
async def nginx(
    gateway: str, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Nginx]:
    proxy = Nginx(tmp_path / "nginx", [gateway], request.param)
    # Its start waits for the gateway, which runs in this thread.
    await asyncio.to_thread(proxy.__enter__)
    yield proxy
    await asyncio.to_thread(proxy.__exit__, None, None, None)


async def test_a_card_leads_back_through_the_proxy(nginx: Nginx) -> None:
    async with httpx.AsyncClient(verify=NO_TLS) as http:
        card = (await http.get(nginx.url + CARD)).raise_for_status().json()
        urls = [one["url"] for one in card["supportedInterfaces"] if "//" in one["url"]]
        again = [(await http.get(f"{url}/.well-known/agent-card.json")).json() for url in urls[:1]]
    assert set(urls) == {f"{nginx.url}/v1/agents/assistant"}
    assert again == [card]


async def test_what_a_client_states_itself_does_not_pass_the_proxy(nginx: Nginx) -> None:
    hostile = {
        "Forwarded": "host=evil.example;proto=https",
        "X-Forwarded-Host": "evil.example",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Prefix": "/evil",
    }
    async with httpx.AsyncClient(verify=NO_TLS, headers=hostile) as http:
        card = (await http.get(nginx.url + CARD)).raise_for_status().text
    assert "evil" not in card
    assert nginx.url in card


async def test_a_host_that_a_proxy_states_is_checked_like_any(gateway: str) -> None:
    async with httpx.AsyncClient(base_url=gateway, verify=NO_TLS) as http:
        statuses = [
            (await http.get(CARD, headers={"X-Forwarded-Host": host})).status_code
            for host in ("localhost", "evil.example", "a b", "localhost/path", "user@localhost")
        ]
    assert statuses == [200, 403, 403, 403, 403]
