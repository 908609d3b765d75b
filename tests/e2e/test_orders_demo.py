"""The demo of events: a person is asked about an order in the console, and the answer goes out."""

import asyncio
import sys
from asyncio.subprocess import PIPE

from tests.architecture.tree import ROOT
from tests.support.driven_browser import Page
from tests.support.fleet import Fleet
from tests.support.stack import Stack

ORDERS = ROOT / "examples" / "orders"
TIMEOUT = 90


async def line(publishing: asyncio.subprocess.Process) -> str:
    """Return the next line that the script prints."""
    assert publishing.stdout is not None
    return (await asyncio.wait_for(publishing.stdout.readline(), TIMEOUT)).decode()


async def test_an_order_becomes_a_question_in_the_console_and_then_an_event(
    fleet: Fleet, stack: Stack, page: Page
) -> None:
    gateway = fleet.gateways[1]
    applied = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "headrace_cli", "triggers", "apply", ORDERS / "headrace.yaml"),
        *("--url", gateway),
    )
    assert await applied.wait() == 0
    publishing = await asyncio.create_subprocess_exec(
        *(sys.executable, ORDERS / "publish.py", stack.dev()["nats_url"], "12", "nails"),
        stdout=PIPE,
    )
    order = (await line(publishing)).split()[1].rstrip(":")
    request = await line(publishing)
    question = f"Order {order} is for 12 nails: ship 7?"
    assert request.startswith(f"headrace.task.input-required: {question} (task ")
    task = request.rsplit(" ", 1)[1].rstrip(")\n")

    await page.open(f"{gateway}/console/#/tasks/orders/{task}")
    await page.click("a[href^='#/chat/orders/']")
    await page.click(".interrupt [name='0.ship'][value=true]")
    await page.click(".interrupt [type=submit]")

    decided = await line(publishing)
    assert decided == f"headrace.task.completed: 7 of 12 nails shipped. (task {task})\n"
    assert await asyncio.wait_for(publishing.wait(), TIMEOUT) == 0
