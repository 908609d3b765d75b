"""The console in a driven browser: what people do there, and what a page must not break."""

from tests.architecture.tree import ROOT
from tests.support.driven_browser import Page

SOURCE = ROOT / "services" / "console"


async def chat(page: Page, gateway: str, agent: str) -> None:
    """Begin a chat with `agent`."""
    await page.open(f"{gateway}/console/#/chat/{agent}")
    opened = f"document.querySelector('.chat-head select')?.value === '{agent}'"
    await page.until(opened, f"the chat with {agent} opens")


async def say(page: Page, text: str) -> None:
    await page.type("textarea[name=message]", text)
    await page.press("Enter", 13, "\r")


async def violations(page: Page) -> list[str]:
    """Return the rules of axe that the page breaks, and where."""
    if not await page.evaluate("'axe' in globalThis"):
        await page.evaluate((SOURCE / "node_modules/axe-core/axe.min.js").read_text() + ";0")
    # To list what passes each rule takes as long as to check the rules.
    options = "{resultTypes: ['violations']}"
    found = await page.evaluate(f"axe.run({options}).then((result) => result.violations)")
    return [f"{one['id']}: {[node['html'] for node in one['nodes']]}" for one in found]


async def problems_on_a_phone(page: Page) -> list[str]:
    """Return what breaks a rule of axe or scrolls sideways, in light and in dark colours."""
    parts = "[document.documentElement, document.querySelector('main')]"
    wide = f"{parts}.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.tagName)"
    found = list[str]()
    for dark in (False, True):
        await page.resize(390, 760, dark=dark)
        found += [*await violations(page), *await page.evaluate(wide)]
    await page.resize(1200, 800)
    return found
