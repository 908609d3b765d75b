"""Signed URLs of files in a real browser, on a page of another site than the gateway's."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from tests.support import extra_services
from tests.support.asgi_server import asgi_server
from tests.support.credentials import ANN, BOB, write
from tests.support.driven_browser import Page
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent
from tests.support.plain_http import NO_TLS
from tests.support.service_process import ServiceProcess

type Json = dict[str, Any]

_WIDTH = 256

_HELPERS = """
window.width = (src) => new Promise((resolve) => {
  const image = new Image();
  image.onload = () => resolve(image.naturalWidth);
  image.onerror = () => resolve(0);
  image.src = src;
});
window.sign = async (url, headers) => {
  const answer = await fetch(`${url}:sign`, { method: "POST", headers });
  return answer.ok ? (await answer.json()).url : answer.status;
};
"""


@pytest.fixture
async def site() -> AsyncIterator[str]:
    """The origin of an app's page. `localhost` and an address are different sites to a browser."""

    async def page(_: Request) -> HTMLResponse:
        isolated = {
            "Cross-Origin-Embedder-Policy": "require-corp",
            "Cross-Origin-Opener-Policy": "same-origin",
        }
        return HTMLResponse(
            "<!doctype html><title>app</title><link rel=icon href=data:,>", headers=isolated
        )

    async with asgi_server(Starlette(routes=[Route("/", page)])) as url:
        yield url.replace("127.0.0.1", "localhost")


@pytest.fixture
def guarded(fleet: Fleet, site: str, tmp_path: Path) -> Iterator[tuple[ServiceProcess, str]]:
    """A gateway that wants credentials, which pages of the site may call, and its URL."""
    settings = {
        "HEADRACE_CREDENTIALS": str(write(tmp_path / "credentials.toml", ANN, BOB)),
        "HEADRACE_CORS_ORIGINS": site,
        "HEADRACE_LOG_LEVEL": "debug",
    }
    process, url = extra_services.gateway(tmp_path / "gateway", fleet.nats_url, **settings)
    with process:
        yield process, url


async def width(page: Page, url: str) -> int:
    """Return how wide the image is that the page shows; 0: the browser does not load it."""
    return int(await page.evaluate(f"width({json.dumps(url)})"))


@pytest.mark.usefixtures("extra_worker")
async def test_a_page_of_another_site_shows_its_users_picture_and_nobody_elses(
    page: Page, site: str, guarded: tuple[ServiceProcess, str]
) -> None:
    process, gateway = guarded
    async with httpx.AsyncClient(headers=ANN.bearer, timeout=90, verify=NO_TLS) as http:
        agent = PlainAgent(http, gateway, "filer")
        task: Json = (await agent.send("picture")).json()["task"]
        [[part]] = [one["parts"] for one in task["artifacts"]]
        await page.open(site)
        await page.until("document.title === 'app'", "the page is there")
        await page.evaluate(f"{{{_HELPERS}}}")
        assert await page.evaluate("crossOriginIsolated")
        assert await width(page, part["url"]) == 0
        signed = {
            name: await page.evaluate(f"sign({json.dumps(part['url'])}, {json.dumps(headers)})")
            for name, headers in (("ann", ANN.bearer), ("bob", BOB.bearer), ("nobody", {}))
        }
        assert (signed["bob"], signed["nobody"]) == (404, 401)
        url = signed["ann"]
        assert await width(page, url) == _WIDTH
        assert await width(page, f"{url}#again") == _WIDTH
        assert await width(page, url[:-9] + "AAAAAAAA=") == 0
        (await http.delete(f"{gateway}/v1/agents/filer/tasks/{task['id']}")).raise_for_status()
        assert (await http.get(url)).status_code == 404
    log = process.log.read_text()
    assert "GetTask" in log or task["id"] in log
    assert url.rpartition("/")[2][10:40] not in log
