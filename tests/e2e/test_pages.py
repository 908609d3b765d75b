"""What pages of other origins can do to a stack in development, in a real browser."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.resuming_browser import Browser
from tests.support.stack import Stack
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(300)

_TIMEOUT = 120.0

_PAGE = b"""<!doctype html><meta charset="utf-8"><title>another site</title><body><script>
const agent = new URLSearchParams(location.search).get("url");
const get = `${agent}/message:stream?message=`;
const message = (text) => ({ messageId: text, role: "ROLE_USER", parts: [{ text }] });
const element = (kind) => new Promise((resolve) => {
  const made = document.createElement(kind);
  made.onload = made.onerror = resolve;
  made.src = `${get}attack+by+${kind}`;
  document.body.append(made);
});
const form = () => new Promise((resolve) => {
  const frame = document.createElement("iframe");
  frame.name = "answer";
  document.body.append(frame);
  frame.onload = resolve;
  const made = document.createElement("form");
  Object.assign(made, { method: "POST", enctype: "text/plain", target: "answer" });
  made.action = `${agent}/message:send`;
  const field = document.createElement("input");
  const [start, end] = JSON.stringify({ message: message("attack by form=") }).split("=");
  Object.assign(field, { name: start, value: end });
  made.append(field);
  document.body.append(made);
  made.submit();
});
(async () => {
  for (const kind of ["img", "iframe", "script"]) await element(kind);
  await form();
  await fetch(`${get}attack+by+fetch`, { mode: "no-cors" }).catch(() => null);
  const answer = await fetch(`${agent}/message:send`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "A2A-Version": "1.0" },
    body: JSON.stringify({ message: message("asked by CORS") }),
  });
  const said = { status: answer.status, answer: await answer.json() };
  await fetch("/seen", { method: "POST", body: JSON.stringify(said) });
})();
</script>"""


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "browser", _PAGE) as browser:
        yield browser


async def test_a_page_of_this_machine_may_fetch_but_its_elements_start_nothing(
    browser: Browser, stack: Stack, http: httpx.AsyncClient
) -> None:
    agent = f"{stack.url}/v1/agents/echo"
    browser.follow(agent)

    async def has_fetched() -> bool:
        return "answer" in browser.said

    await eventually(has_fetched, "the page has tried everything", _TIMEOUT)
    assert browser.said["status"] == httpx.codes.OK
    waiting = browser.said["answer"]["task"]["id"]
    listed = (await http.get(f"{agent}/tasks")).raise_for_status().json()["tasks"]
    assert waiting in [task["id"] for task in listed]
    assert "attack" not in str(listed)
