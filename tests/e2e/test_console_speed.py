"""How fast the console is in a real browser; see the figures with --log-cli-level=INFO."""

import asyncio
import logging

import httpx
import pytest

from tests.support.driven_browser import Page
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent
from tests.support.plain_http import NO_TLS
from tests.support.resuming_sizes import IS_SOAK

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not IS_SOAK, reason="measures for minutes: make soak"),
]

_log = logging.getLogger(__name__)

_TOO_LONG = 5_000
"""Milliseconds: no bound on speed, but on what hangs."""

_MANY = 10_000

_WATCH = """(() => {
  globalThis.tasks = [];
  new PerformanceObserver((list) => tasks.push(...list.getEntries().map((one) => one.duration)))
    .observe({ type: "longtask" });
  globalThis.gaps = [];
  let last = performance.now();
  const next = (now) => { gaps.push(now - last); last = now; requestAnimationFrame(next); };
  requestAnimationFrame(next);
})()"""
_SCROLL = """(async () => {
  const log = document.querySelector(".log");
  for (let step = 0; step <= 200; step += 1) {
    log.scrollTop = (log.scrollHeight - log.clientHeight) * step / 200;
    await new Promise(requestAnimationFrame);
  }
})()"""


async def longest_task(page: Page) -> float:
    """Return the longest task in ms since `_WATCH`, and log how smooth the page was."""
    tasks, gaps = await page.evaluate("[tasks, gaps]")
    gaps.sort()
    figures = {
        "frames": len(gaps),
        "median frame": gaps[len(gaps) // 2],
        "99th percentile": gaps[len(gaps) * 99 // 100],
        "longest frame": gaps[-1],
        "frames above 50 ms": sum(gap > 50 for gap in gaps),
        "tasks above 50 ms": len(tasks),
        "longest task": max([0, *tasks]),
    }
    _log.info("%s", ", ".join(f"{name} {figure:.0f}" for name, figure in figures.items()))
    return float(figures["longest task"])


async def processor_time(page: Page, of: str = "TaskDuration") -> float:
    """Return the ms of processor time that the page's main thread has taken, whatever the load."""
    await page.call("Performance.enable", timeDomain="threadTicks")
    found = (await page.call("Performance.getMetrics"))["metrics"]
    return next(float(one["value"]) for one in found if one["name"] == of) * 1000


async def test_a_cold_load_from_loopback_paints(fleet: Fleet, page: Page) -> None:
    await processor_time(page)
    await page.open(f"{fleet.gateways[0]}/console/")
    painted = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    await page.until(painted, "it has painted")
    first = await page.evaluate(painted)
    script = await processor_time(page, "ScriptDuration")
    _log.info("first contentful paint after %.0f ms, with %.0f ms of script", first, script)
    assert first < _TOO_LONG


async def test_a_list_of_ten_thousand_tasks_is_shown_and_searched(fleet: Fleet, page: Page) -> None:
    at_once = asyncio.Semaphore(48)
    async with httpx.AsyncClient(timeout=300, verify=NO_TLS) as http:
        agent = PlainAgent(http, fleet.gateways[0], "echo")

        async def send(number: int) -> None:
            async with at_once:
                (await agent.send(f"order {number} of nails")).raise_for_status()

        await asyncio.gather(*map(send, range(_MANY)))
    await processor_time(page)
    await page.open(f"{fleet.gateways[0]}/console/")
    await page.until("document.querySelectorAll('.row').length >= 50", "the first page")
    script = await processor_time(page, "ScriptDuration")
    painted = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    first = await page.evaluate(painted)
    _log.info("first contentful paint after %.0f ms, rows after %.0f ms of script", first, script)
    begun = asyncio.get_running_loop().time()
    await page.evaluate(f"location.hash = '#/?q=order+{_MANY // 2}+of'")
    await page.until("document.querySelectorAll('.row').length === 1", "the task is found")
    _log.info("it was found after %.2f s", asyncio.get_running_loop().time() - begun)
    assert first < _TOO_LONG


async def test_two_hundred_tokens_a_second_for_a_minute(fleet: Fleet, page: Page) -> None:
    await page.open(f"{fleet.gateways[0]}/console/#/chat/counter")
    await page.type("textarea[name=message]", "12000 5")
    begun = await processor_time(page)
    await page.evaluate(_WATCH)
    await page.press("Enter", 13, "\r")
    answer = "[...document.querySelectorAll('.run:last-of-type .answer .markdown')].at(-1)"
    await page.until(f"{answer}?.innerText.endsWith('12000')", "it has counted", timeout=300)
    busy = (await processor_time(page) - begun) / await page.evaluate("gaps.length")
    _log.info("the main thread took %.1f ms of processor time for each frame", busy)
    assert await longest_task(page) < _TOO_LONG


async def test_fifty_thousand_events_scroll(fleet: Fleet, page: Page) -> None:
    async with httpx.AsyncClient(timeout=300) as http:
        task = (await PlainAgent(http, fleet.gateways[0], "counter").send("50000 0")).json()["task"]
    await page.open(f"{fleet.gateways[0]}/console/#/tasks/counter/{task['id']}?view=events")
    await page.until("document.querySelector('.log')?.scrollHeight > 50000 * 15", "all are there")
    await page.evaluate(_WATCH)
    await page.evaluate(_SCROLL)
    rows = await page.evaluate("document.querySelectorAll('.log tr').length")
    assert rows < 500
    assert await longest_task(page) < _TOO_LONG
