"""The shipped nginx in front of the gateways, at `/` and below a path."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.clients.websocket import connect
from tests.support.driven_browser import Page
from tests.support.event_stream import Frame, all_frames, frames
from tests.support.fleet import Fleet
from tests.support.nginx import Nginx, needs_nginx
from tests.support.plain_a2a import PlainAgent, message

pytestmark = needs_nginx

_COUNT = 60


@pytest.fixture(params=["", "/fleet/one"], ids=["root", "below-a-path"])
def nginx(fleet: Fleet, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Nginx]:
    with Nginx(tmp_path / "nginx", fleet.gateways, request.param) as proxy:
        yield proxy


async def test_the_console_is_used_through_it(nginx: Nginx, page: Page) -> None:
    await page.open(f"{nginx.url}/")
    path = httpx.URL(nginx.url).path.rstrip("/")
    await page.until(f"location.pathname === '{path}/console/'", "browsers are sent there")
    await page.click("a[href='#/fleet']")
    await page.until("document.body.innerText.includes('available')", "the fleet is live")
    await page.click("a[href='#/chat/counter']")
    await page.type("textarea[name=message]", "5 1")
    await page.press("Enter", 13, "\r")
    answer = "document.querySelector('.answer .markdown')?.innerText.trim()"
    await page.until(f"{answer} === '1 2 3 4 5'", "an agent answers")


async def test_a_stream_comes_as_it_is_written_and_is_resumed_behind_a_killed_gateway(
    nginx: Nginx, fleet: Fleet, http: httpx.AsyncClient
) -> None:
    agent, seen = PlainAgent(http, nginx.url, "counter"), list[Frame]()
    async with agent.stream(f"{_COUNT} 20") as response:
        assert "text/event-stream" in response.headers["content-type"]
        async for frame in frames(response):
            seen.append(frame)
            if len(seen) == 10:
                break
    state = (await agent.get(seen[0].event["task"]["id"])).json()["status"]["state"]
    assert state == "TASK_STATE_WORKING", "nginx waits for no end before it forwards"
    await asyncio.to_thread(fleet.restart, "gateway", 0)
    async with agent.subscribe(seen[0].event["task"]["id"], seen[-1].id) as response:
        seen += await all_frames(response)
    assert [frame.generation for frame in seen] == list(range(1, len(seen) + 1))
    assert seen[-1].state == "COMPLETED"


async def test_a_websocket_is_upgraded_and_resumed(nginx: Nginx) -> None:
    url = f"{nginx.url.replace('http://', 'ws://')}/v1/agents/counter/stream"
    async with connect(url, max_queue=None) as socket:
        await socket.send(json.dumps({"id": 1, "send": {"message": message("20")}}))
        begun = [json.loads(await socket.recv()) for _ in range(5)]
    task, rest = begun[0]["event"]["task"]["id"], []
    async with connect(url) as socket:
        subscribe = {"task": task, "after": begun[-1]["cursor"]}
        await socket.send(json.dumps({"id": 2, "subscribe": subscribe}))
        async for text in socket:
            rest.append(json.loads(text))
            if rest[-1].get("end"):
                break
    generations = [int(one["cursor"].partition(":")[2]) for one in [*begun, *rest[:-1]]]
    assert generations == list(range(1, len(generations) + 1))
    assert rest[-2]["event"]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
