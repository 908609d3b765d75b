"""Pictures of the console's pages, of a task whose worker was killed among them."""

from pathlib import Path

from nats.js.api import StreamConfig

from headrace.client import Client
from headrace.jetstream.connection import Bus
from headrace.settings import BusSettings
from tests.support.driven_browser import Page, driven_browser, driven_page

_WIDTH, _HEIGHT = 1200, 640
_TALL = 1000
"""Pixels that show a task's page with its timeline and its log."""
_ENTER = 13
_TRIGGER = {
    "name": "orders",
    "agent": "repeat",
    "subject": "orders.created",
    "stream": "ORDERS",
    "text": "Check order {body.id}",
}


async def pictures(gateway: str, nats_url: str, folder: Path) -> dict[str, bytes]:
    """Return PNGs by name.

    The gateway has a task of the agent `writer` that was taken over; its NATS is at `nats_url`.
    """
    with driven_browser(folder / "browser") as browser:
        async with driven_page(browser) as page:
            return await _taken(page, gateway, nats_url)


async def _taken(page: Page, gateway: str, nats_url: str) -> dict[str, bytes]:
    await page.resize(_WIDTH, _TALL)
    await page.open(f"{gateway}/console/#/?agent=writer")
    await page.click(".row")
    await page.until("document.querySelector('.span.gap')", "the time without a worker")
    await page.until("document.body.innerText.includes('completed')", "all of the log")
    await page.click(".lines li:nth-child(3) button")
    await page.until("document.querySelector('.detail')", "a line of the log in full")
    task = await page.picture()
    await page.resize(_WIDTH, _HEIGHT)
    await _say(page, gateway, "refunds", "Order A-1042 came broken. May I have my money back?")
    interrupt = "document.querySelector('.questions') && document.querySelector('.tool')"
    await page.until(interrupt, "the agent's question")
    return {
        "console-task": task,
        "console-chat": await page.picture(),
        "console-inbox": await _inbox(page, gateway),
        "console-delegation": await _delegation(page, gateway),
        "console-trigger": await _trigger(page, gateway, nats_url),
        "console-schedules": await _schedules(page, gateway),
        "console-inspect": await _inspect(page, gateway),
        "console-operate": await _operate(page, gateway),
        "console-break": await _break(page, gateway),
    }


async def _say(page: Page, gateway: str, agent: str, text: str) -> None:
    await page.open(f"{gateway}/console/#/chat/{agent}")
    await page.until(f"document.querySelector('.chat-head select')?.value === '{agent}'", "a chat")
    await page.type("textarea[name=message]", text)
    await page.press("Enter", _ENTER, "\r")


async def _inbox(page: Page, gateway: str) -> bytes:
    """Return the inbox with the question of the chat, and another one."""
    await _say(page, gateway, "shop", "nails")
    await page.until("document.querySelector('.interrupt')", "the question of the shop")
    await page.evaluate("location.hash = '#/inbox'")
    await page.until("document.querySelectorAll('.inbox-item').length === 2", "both questions")
    await page.until("document.querySelector('.inbox-item .questions')", "the question is open")
    return await page.picture()


async def _delegation(page: Page, gateway: str) -> bytes:
    """Return a task with its tree, of which one child is at work."""
    await page.open(f"{gateway}/console/#/chat/reporter")
    opened = "document.querySelector('.chat-head select')?.value === 'reporter'"
    await page.until(opened, "its chat opens")
    await page.type("textarea[name=message]", "a report")
    await page.press("Enter", _ENTER, "\r")
    await page.until("document.querySelector('.run')", "it is at work")
    await page.evaluate("location.hash = '#/?agent=reporter'")
    await page.click(".row")
    tree = "document.querySelector('.tree')?.innerText"
    shown = f"{tree}?.includes('working') && {tree}.includes('completed')"
    await page.until(shown, "a child is at work, and another has ended")
    return await page.picture()


async def _trigger(page: Page, gateway: str, nats_url: str) -> bytes:
    """Return a trigger whose events have begun tasks."""
    bus = Bus(BusSettings(nats_url=nats_url))
    await bus.connect("pictures")
    try:
        await bus.js.add_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
        async with Client(gateway) as client:
            await client.triggers.apply(_TRIGGER)
        for number in (17, 18, 19):
            await bus.js.publish("orders.created", b'{"id": %d}' % number)
    finally:
        await bus.close()
    await page.open(f"{gateway}/console/#/triggers/orders")
    began = "[...document.querySelectorAll('tbody td:nth-child(2)')].map((td) => td.innerText)"
    await page.until(f"{began}.join() === 'began,began,began'", "its events have begun tasks")
    return await page.picture()


_SCHEDULES = (
    {"name": "often", "message": "check the orders", "every": "15m"},
    {
        "name": "nightly",
        "message": "count it",
        "cron": "0 2 * * *",
        "timeZone": "Europe/Paris",
    },
    {"name": "launch", "message": "open the shop", "at": "2030-01-31T09:00:00Z"},
    {"name": "weekly", "message": "sum it up", "cron": "0 9 * * MON"},
)


async def _schedules(page: Page, gateway: str) -> bytes:
    """Return the list of schedules of each kind."""
    async with Client(gateway) as client:
        for schedule in _SCHEDULES:
            await client.schedules.apply({"agent": "repeat", **schedule})
        await client.schedules.pause("weekly")
    await page.open(f"{gateway}/console/#/schedules")
    await page.until("document.querySelectorAll('tbody tr').length === 4", "all are listed")
    return await page.picture()


async def _inspect(page: Page, gateway: str) -> bytes:
    """Return the same request in several bindings."""
    await page.open(f"{gateway}/console/#/inspect?agent=shop")
    await page.until("document.body.innerText.includes('has all fields that A2A 1.0')", "the card")
    await page.click(".page > .actions button")
    await page.until("document.querySelectorAll('.answer-text').length > 3", "answers")
    return await page.picture()


async def _operate(page: Page, gateway: str) -> bytes:
    """Return queues and workers."""
    await page.open(f"{gateway}/console/#/operate")
    await page.until("document.querySelector('[aria-label^=\"Drain \"]')", "the workers")
    return await page.picture()


async def _break(page: Page, gateway: str) -> bytes:
    """Return what a killed worker and a killed gateway cost."""
    await page.open(f"{gateway}/console/#/break")
    await page.click(".breaking button:first-child")
    for pressed, name in enumerate(("worker", "gateway", "move"), 1):
        await page.click(f".breaking [name={name}]:enabled")
        outcomes = "[...document.querySelectorAll('tbody td:last-child')].map((td) => td.innerText)"
        recovered = f"{outcomes}.length === {pressed} && !{outcomes}.includes('waiting')"
        await page.until(recovered, f"the stream goes on after {name}", timeout=90)
    picture = await page.picture()
    await page.click(".breaking button:first-child")
    return picture
