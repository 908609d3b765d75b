"""A task's page in a real browser: question and answer, timeline, trace and log."""

import json

import httpx
import pytest

from tests.support import javascript
from tests.support.console_page import SOURCE, problems_on_a_phone
from tests.support.driven_browser import Page
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent, message

pytestmark = pytest.mark.timeout(300)

_LINES = "[...document.querySelectorAll('.line')].map((one) => one.innerText)"
_HOSTILE = "<img src=x onerror=hacked()> [one](javascript:hacked()) **end**"


async def begun(http: httpx.AsyncClient, fleet: Fleet, agent: str, text: str) -> str:
    """Return the id of a task that has ended, or waits for its user."""
    task: str = (await PlainAgent(http, fleet.gateways[0], agent).send(text)).json()["task"]["id"]
    return task


async def spans(page: Page) -> list[str]:
    """Return the names of the spans in view, in order."""
    names: list[str] = await page.evaluate(
        "[...document.querySelectorAll('.span-text')].map((one) => one.innerText)"
    )
    return names


async def test_a_trace_has_each_call_with_what_it_took_and_can_be_zoomed_by_keyboard(
    fleet: Fleet, page: Page, http: httpx.AsyncClient
) -> None:
    javascript.install(SOURCE)
    task = await begun(http, fleet, "subagents", "Rome")
    await page.open(f"{fleet.gateways[0]}/console/#/tasks/subagents/{task}")
    await page.until("document.querySelector('.span.child')", "the timeline is shown")
    assert await spans(page) == ["Attempt 1", "backend_tool_rendering", "reasoning"]
    await page.until("document.title.startsWith('Rome · completed · subagents')", "it is titled")
    assert "Have a good trip" in await page.text(".answered")
    assert "anonymous asked" in await page.text(".asked")
    await page.click("#tab-trace")
    await page.until("document.querySelector('.span.tool')", "the trace is shown")
    first = ["Attempt 1", "backend_tool_rendering", "Model", "get_weather", "weather-1"]
    assert (await spans(page))[: len(first)] == first
    assert await page.evaluate("location.hash.includes('view=trace')")
    row = "[...document.querySelectorAll('.span-row')].find((one) => one.innerText.includes('{}'))"
    assert "12" in (await page.evaluate(f"{row.format('weather-1')}.innerText")).split()
    await page.evaluate(f"{row.format('get_weather')}.click()")
    await page.until("document.querySelector('.detail')?.innerText.includes('windy')", "a result")
    assert await page.evaluate("document.querySelector('.raw pre')") is None
    await page.click(".raw summary")
    await page.until("document.querySelector('.raw pre')", "JSON is there on demand")
    assert await problems_on_a_phone(page) == []
    await page.evaluate("document.querySelector('.span-row').focus()")
    await page.press("+", 187, "+")
    await page.until("document.querySelector('[aria-label=\"Show all of it\"]')", "it is zoomed")
    await page.press("0", 48, "0")
    await page.until("!document.querySelector('[aria-label=\"Show all of it\"]')", "it is whole")


async def test_a_log_is_told_in_lines_that_are_found_by_kind_and_by_word(
    fleet: Fleet, page: Page, http: httpx.AsyncClient
) -> None:
    javascript.install(SOURCE)
    task = await begun(http, fleet, "subagents", "Rome")
    await page.open(f"{fleet.gateways[1]}/console/#/tasks/subagents/{task}")
    await page.until(f"{_LINES}.at(-1)?.includes('Completed')", "the log is whole")
    lines = await page.evaluate(_LINES)
    events = int((await page.text(".facts")).split("Log")[1].split()[0])
    assert len(lines) < events / 2
    assert not [one for one in lines if "working" in one or "{}" in one]
    await page.evaluate(
        "[...document.querySelectorAll('.line-tools .chip')]"
        ".find((one) => one.innerText.startsWith('Tools')).click()"
    )
    await page.until(f"{_LINES}.length === 1", "the only call")
    assert "get_weather" in (await page.evaluate(_LINES))[0]
    await page.type("[name=log-search]", "nothing like this")
    await page.until("document.querySelector('.task-log').innerText.includes('matches')", "none")
    await page.click(".task-log .link")
    await page.until(f"{_LINES}.length === {len(lines)}", "all of it again")
    await page.type("[name=log-search]", "WINDY")
    await page.until(f"0 < {_LINES}.length && {_LINES}.length < {len(lines)}", "by word")


async def test_a_task_is_run_again_with_what_it_was_asked_edited(
    fleet: Fleet, page: Page, http: httpx.AsyncClient
) -> None:
    javascript.install(SOURCE)
    task = await begun(http, fleet, "echo", _HOSTILE)
    await page.open(f"{fleet.gateways[0]}/console/#/tasks/echo/{task}")
    await page.evaluate("globalThis.hacked = () => console.error('hacked')")
    await page.until("document.querySelector('.answered strong')", "the answer is rendered")
    assert await page.evaluate("document.querySelectorAll('.task :is(img, [onerror])').length") == 0
    await page.click(".lines .line")
    await page.until("document.querySelector('.detail')", "a line in full")
    assert await problems_on_a_phone(page) == []
    await page.click("[name=again]")
    await page.until("document.querySelector('dialog[open]')", "it is asked")
    field = "document.querySelector('[name=again]:is(textarea)')"
    assert await page.evaluate(f"{field}.value") == _HOSTILE
    assert await problems_on_a_phone(page) == []
    await page.evaluate(f"{field}.value = ''; 0")
    await page.type("textarea[name=again]", "edited")
    await page.click("dialog[open] [type=submit]")
    await page.until(f"!location.hash.includes({json.dumps(task)})", "it is another task")
    await page.until("document.querySelector('.answered')?.innerText.includes('edited')", "so")


async def test_a_question_is_answered_on_the_tasks_page(
    fleet: Fleet, page: Page, http: httpx.AsyncClient
) -> None:
    javascript.install(SOURCE)
    task = await begun(http, fleet, "interrupt", "a trip")
    await page.open(f"{fleet.gateways[0]}/console/#/tasks/interrupt/{task}")
    await page.until("document.querySelector('.answered .approval')", "the question is there")
    assert "interrupt asks" in await page.text(".answered")
    assert await problems_on_a_phone(page) == []
    await page.type(".answered .approval [name=note]", "Bon voyage")
    await page.click(".answered .approval [type=submit]")
    await page.until("document.querySelector('.answered').innerText.includes('Approved')", "it is")
    await page.until("document.querySelector('.badge.good')", "the task is completed")
    waits = "[...document.querySelectorAll('.span.waiting')].length"
    assert await page.evaluate(waits) == 1
    told = (await PlainAgent(http, fleet.gateways[1], "interrupt").get(task)).json()
    answers = [part["data"] for one in told["history"] for part in one["parts"] if "data" in part]
    assert answers == [{"approved": True, "note": "Bon voyage"}]


async def test_an_answer_from_elsewhere_is_told_wherever_its_question_is_open(
    fleet: Fleet, page: Page, http: httpx.AsyncClient
) -> None:
    agent = PlainAgent(http, fleet.gateways[0], "interrupt")
    for place in ("inbox", "tasks/interrupt/{id}", "chat/interrupt/{contextId}"):
        task = (await agent.send("a trip")).json()["task"]
        listed = f"[data-task='{task['id']}']" if place == "inbox" else "main"
        await page.open(f"{fleet.gateways[1]}/console/#/{place.format(**task)}")
        if place == "inbox":
            await page.until(f"document.querySelector(`{listed}`)", "it is in the inbox")
            await page.evaluate(
                f"document.querySelector(`{listed} .inbox-head[aria-expanded=false]`)?.click()"
            )
        question = f"document.querySelector(`{listed} .approval`)"
        await page.until(question, f"the question is open in {place}")
        await page.type(f"{listed} .approval [name=note]", "Not by train")
        # The page has read how far the log was before the answer.
        read = f"one.responseEnd && one.name.includes('{task['id']}?historyLength=0')"
        entries = "performance.getEntriesByType('resource')"
        await page.until(f"{entries}.some((one) => {read})", "it knows the question's place")
        # The count is that of the list in which the answer will be missed.
        await page.until("document.querySelector('nav .count')", "it is in the inbox")
        body = {"message": message("yes", taskId=task["id"])}
        (await http.post(f"{agent.url}/message:send", json=body)).raise_for_status()
        told = f"document.querySelector(`{listed} .elsewhere`)?.innerText"
        await page.until(f"{told}?.startsWith('Already answered by anonymous at')", place)
        assert ": yes" in await page.evaluate(told)
        assert "What you wrote was not sent: Not by train" in await page.evaluate(told)
        assert not await page.evaluate(question), "it can't be answered again"


@pytest.mark.usefixtures("extra_worker")
async def test_hundreds_of_like_calls_are_one_row_that_opens(
    fleet: Fleet, page: Page, http: httpx.AsyncClient
) -> None:
    task = (await PlainAgent(http, fleet.gateways[0], "seeker").send("500")).json()["task"]
    place = f"{fleet.gateways[0]}/console/#/tasks/seeker/{task['id']}"
    rows = "[...document.querySelectorAll('{} [aria-expanded]')]"
    folded = rows + ".find((one) => one.innerText.includes('search \\u00d7 500'))"
    await page.open(place)
    line = folded.format(".lines")
    await page.until(f"{line}?.innerText.includes('5 failed')", "the log tells of them once")
    assert len(await page.evaluate(_LINES)) < 6
    await page.evaluate(f"{line}.click()")
    await page.until(f"{_LINES}.length > 15", "it opens; those in view are there")
    assert await page.evaluate("document.querySelectorAll('.line').length") < 60
    await page.click("#tab-trace")
    span = folded.format(".waterfall")
    await page.until(f"{span}?.innerText.includes('5 failed')", "so does the trace")
    assert await page.evaluate("document.querySelectorAll('.span-row').length") < 6
    await page.evaluate(f"location.hash = '#/chat/seeker/{task['contextId']}'")
    call = "document.querySelector('.answer > .tool')"
    await page.until(f"{call}?.innerText.includes('search \\u00d7 500')", "and the chat")
    assert "5 failed" in await page.evaluate(f"{call}.innerText")
    await page.click(".answer > .tool > summary")
    await page.until(f"{call}.querySelectorAll('.tool').length === 500", "it opens, too")


async def test_a_task_is_cancelled_from_the_menu_on_a_phone(
    fleet: Fleet, page: Page, http: httpx.AsyncClient
) -> None:
    task = await begun(http, fleet, "interrupt", "a trip")
    await page.resize(390, 760)
    await page.open(f"{fleet.gateways[0]}/console/#/tasks/interrupt/{task}")
    await page.click(".task-actions [aria-label=More]")
    items = "[...document.querySelectorAll('[role=menuitem]')]"
    item = f"{items}.find((one) => one.innerText.includes('Cancel task'))"
    await page.until(item, "it can be cancelled")
    height = "document.querySelector('{}').offsetHeight".format
    rows = await page.evaluate(f"{height('.task-actions')} / {height('[name=again]')}")
    assert rows < 2, "the buttons are in one row"
    await page.evaluate(f"{item}.click()")
    await page.click("dialog[open] [type=submit]")
    await page.until("document.querySelector('.task-title').innerText.includes('canceled')", "so")
    await page.resize(1200, 800)
