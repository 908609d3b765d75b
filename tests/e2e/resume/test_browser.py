"""A real browser's EventSource comes back by itself, and stays away when there is nothing left."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.plain_a2a import PlainAgent
from tests.support.resuming_bindings import Received
from tests.support.resuming_browser import Browser
from tests.support.resuming_log import assert_exact, whole_log
from tests.support.stack import BASIC_AGENTS, Stack
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(400)

_TIMEOUT = 120.0


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "browser") as browser:
        yield browser


@pytest.fixture
def open_stack(browser: Browser, tmp_path: Path) -> Iterator[Stack]:
    """One gateway that the browser's page may call."""
    environment = {"HEADRACE_CORS_ORIGINS": browser.origin}
    with Stack(tmp_path / "stack", agents=BASIC_AGENTS, environment=environment) as stack:
        yield stack


async def until_seen(browser: Browser, number: int) -> None:
    async def has_seen() -> bool:
        return len(browser.received) >= number

    await eventually(has_seen, f"the page has got {number} events", _TIMEOUT)


async def test_it_resumes_when_its_gateway_was_killed(
    browser: Browser, open_stack: Stack, http: httpx.AsyncClient
) -> None:
    [gateway] = open_stack.gateways
    agent = PlainAgent(http, gateway, "counter")
    task = (await agent.send("100000 40", returnImmediately=True)).json()["task"]["id"]
    browser.follow(f"{agent.url}/tasks/{task}:subscribe")
    await until_seen(browser, 10)
    pid = open_stack.kill("gateway")
    await asyncio.to_thread(open_stack.until_restarted, "gateway", 0, pid)
    await until_seen(browser, len(browser.received) + 10)
    assert browser.opened > 1, "it was connected anew"
    assert (await agent.cancel(task)).status_code == httpx.codes.OK

    async def has_given_up() -> bool:
        return browser.gave_up

    await eventually(has_given_up, "it is told that nothing is left", _TIMEOUT)
    log = await whole_log(open_stack.dev()["nats_url"], "counter", task)
    first = browser.received[0]
    generation = int(first.cursor.partition(":")[2])
    joined = Received(f"{log.id}:{generation}", {"task": log.snapshot(generation)})
    assert_exact(browser.received, [joined, *log.after(generation)])
