"""Pictures of the console: a chat, and the task whose worker was killed."""

from pathlib import Path

from tests.support.driven_browser import driven_page

_WIDTH, _HEIGHT = 1200, 640
_ENTER = 13


async def pictures(gateway: str, folder: Path) -> dict[str, bytes]:
    """Return PNGs by name; the gateway has a task of the agent `writer` that was taken over."""
    async with driven_page(folder / "browser") as page:
        await page.resize(_WIDTH, _HEIGHT)
        await page.open(f"{gateway}/console/#/tasks?agent=writer")
        await page.click("td.id a")
        await page.until("document.querySelector('.span.gap')", "the time without a worker")
        await page.until("document.body.innerText.includes('completed')", "all of the log")
        await page.click("tr[aria-rowindex='5'] button")
        await page.until("document.querySelector('.detail')", "the event")
        task = await page.picture()
        await page.open(f"{gateway}/console/#/chat/shop")
        await page.type("textarea[name=message]", "nails")
        await page.press("Enter", _ENTER, "\r")
        asked = "document.querySelector('.interrupt') && document.querySelector('.tool')"
        await page.until(asked, "the agent's question")
        return {"console-task": task, "console-chat": await page.picture()}
