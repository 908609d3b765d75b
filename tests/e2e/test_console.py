"""The console in a real browser, on the shared stack."""

import asyncio
import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx
import pytest
from nats.js.api import StreamConfig

from headrace.jetstream.connection import Bus
from headrace.settings import BusSettings
from headrace_cli.dev.dev_file import Role
from tests.support import extra_services, javascript
from tests.support.console_page import SOURCE, chat, problems_on_a_phone, say, violations
from tests.support.credentials import Person, write
from tests.support.driven_browser import Page
from tests.support.event_stream import frames
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent, message
from tests.support.plain_http import NO_TLS
from tests.support.prefix_proxy import prefixed
from tests.support.resuming_sizes import IS_SOAK, sized
from tests.support.servers import ports
from tests.support.service_process import ServiceProcess
from tests.support.soak import in_soak
from tests.support.waiting import eventually, until
from tests.support.worker_process import WorkerProcess

pytestmark = pytest.mark.timeout(300)

_COUNT = 120
_TWO_HOURS = 7200
_FAILURES = 40
"""More than clients elsewhere try again."""
_HOSTILE = """# Hostile <script>hacked()</script>

<img src=x onerror=hacked()> <svg onload=hacked()><script>hacked()</script></svg>

<iframe srcdoc="<script>parent.hacked()</script>"></iframe> <a href="javascript:hacked()">one</a>

[two](javascript:hacked()) [three](data:text/html,<script>hacked()</script>)
<style>*{display:none}</style>

![four](https://example.com/seen.png) <form action=/v1/agents><input name=q></form> **end**"""
_SAID = "[...document.querySelectorAll('.user')].map((one) => one.innerText).join()"
_LAST = "[...document.querySelectorAll('.run:last-of-type .answer .markdown')].at(-1)?.innerText"


@contextmanager
def guarded_gateway(fleet: Fleet, folder: Path, person: Person, head: str = "") -> Iterator[str]:
    """Serve a gateway that asks for credentials and knows `person`; yield its URL."""
    file = write(folder / "credentials.toml", person, head=f"required = true\n{head}")
    settings = {"HEADRACE_CREDENTIALS": str(file)}
    gateway, url = extra_services.gateway(folder / "gateway", fleet.nats_url, **settings)
    with gateway:
        yield url


async def sign_in(page: Page, person: Person) -> None:
    """Give the token that the page asks for."""
    await page.until("document.querySelector('dialog[open]')", "a token is asked for")
    await page.type("dialog input", person.token)
    await page.press("Enter", 13, "\r")


async def test_a_chat_goes_on_over_a_reload_and_the_death_of_its_worker(
    fleet: Fleet, page: Page
) -> None:
    await page.open(f"{fleet.gateways[0]}/")
    await page.until("location.pathname === '/console/'", "the console opens for browsers")
    await page.click("a[href='#/fleet']")
    await page.click("a[href='#/chat/counter']")
    await say(page, f"{_COUNT} 20")
    await page.until(f"{_LAST}?.includes('10 ')", "the answer streams")
    text = "document.querySelector('.answer .markdown p').firstChild"
    await page.evaluate(f"{text}.isFirst = true; 0")
    await page.until(f"{_LAST}?.includes('15 ')", "the answer grows")
    assert await page.evaluate(f"{text}.isFirst"), "a growing text is not laid out anew"
    await page.reload()
    await page.until(f"{_LAST}?.includes('20 ')", "the answer goes on after the reload")
    for index, pid in enumerate(fleet.stack.pids("worker")):
        fleet.stack.kill("worker", index)
        await asyncio.to_thread(fleet.stack.until_restarted, "worker", index, pid)
    await page.until("!document.querySelector('[data-state=running]')", "it ends", timeout=120)
    whole = " ".join(str(number) for number in range(1, _COUNT + 1))
    await page.until(f"{_LAST}?.trim() === {json.dumps(whole)}", "all of it is drawn")
    await page.reload()
    await page.until(f"{_LAST}?.trim() === {json.dumps(whole)}", "all of it is there again")
    assert await page.text(".user") == f"{_COUNT} 20"


@in_soak(shown_by="e2e/test_console.py::test_a_tab_outlives_a_gateway_that_is_long_away")
async def test_a_tab_outlives_two_hours_and_a_restart_of_every_process(
    fleet: Fleet, page: Page
) -> None:
    await page.install_clock()
    await chat(page, fleet.gateways[0], "counter")
    await page.evaluate("globalThis.isSame = true")
    await say(page, f"{_COUNT} 100")
    await page.until(f"{_LAST}?.includes('3 ')", "the answer streams")
    roles: tuple[Role, ...] = ("gateway", "worker", "task-state")
    processes = [(role, n) for role in roles for n in range(len(fleet.stack.pids(role)))]
    for role, index in processes:
        await asyncio.to_thread(fleet.restart, role, index)
        # As after a sleep of the machine: what was due meanwhile is due at once.
        await page.fast_forward(_TWO_HOURS / len(processes))
    ahead = await page.evaluate("Date.now() - realNow()")
    assert round(ahead / 1000) == _TWO_HOURS
    await page.until("!document.querySelector('[data-state=running]')", "it ends", timeout=120)
    whole = " ".join(str(number) for number in range(1, _COUNT + 1))
    await page.until(f"{_LAST}?.trim() === {json.dumps(whole)}", "all of it is drawn")
    await page.evaluate("location.hash = '#/fleet'")
    await page.until("document.body.innerText.includes('available')", "the fleet is there")
    await page.fast_forward(_TWO_HOURS)
    await page.evaluate("history.back()")
    await page.until(f"{_SAID} === '{_COUNT} 100'", "the conversation is restored")
    await say(page, "3 20")
    await page.until(f"{_LAST}?.trim() === '1 2 3'", "the conversation goes on")
    assert await page.evaluate("isSame")


async def test_a_tab_outlives_a_gateway_that_is_long_away(fleet: Fleet, page: Page) -> None:
    await page.install_clock()
    await chat(page, fleet.gateways[0], "counter")
    await page.evaluate(
        "{const real = fetch; globalThis.refused = 0; globalThis.fetch = async (url, init) => {"
        "if (!globalThis.isAway) return real(url, init);"
        "refused += 1; return new Response('', {status: 503});}; 0}"
    )
    await say(page, f"{_COUNT} 20")
    await page.until(f"{_LAST}?.includes('3 ')", "the answer streams")
    await page.evaluate("globalThis.isAway = true")
    await asyncio.to_thread(fleet.restart, "gateway", 0)
    for attempt in range(_FAILURES):
        await page.until(f"refused > {attempt}", "it tries again")
        await page.fast_forward(10)
    await page.until("document.body.innerText.includes('does not answer')", "it says so")
    await page.evaluate("globalThis.isAway = false")
    await page.fast_forward(10)
    whole = " ".join(str(number) for number in range(1, _COUNT + 1))
    await page.until(f"{_LAST}?.trim() === {json.dumps(whole)}", "the answer goes on", timeout=120)
    await page.until("!document.body.innerText.includes('does not answer')", "it answers")


async def test_what_is_sent_while_a_thread_is_restored_comes_after_it(
    fleet: Fleet, page: Page
) -> None:
    await chat(page, fleet.gateways[0], "counter")
    await say(page, "2 1")
    await page.until(f"{_LAST}?.trim() === '1 2'", "it is answered")
    place = await page.evaluate("location.hash")
    await page.evaluate("location.hash = '#/fleet'")
    await page.until("document.body.innerText.includes('available')", "the fleet is there")
    await page.evaluate(
        "{const real = fetch; globalThis.fetch = async (url, init) => {"
        "if (String(url).includes('/threads/')) await new Promise((go) => setTimeout(go, 1000));"
        "return real(url, init);}; 0}"
    )
    await page.evaluate(f"location.hash = {json.dumps(place)}")
    await say(page, "3 1")
    await page.until(f"{_SAID} === '2 1,3 1'", "both messages are there, in order")
    await page.until(f"{_LAST}?.trim() === '1 2 3'", "the second one is answered")


async def test_a_chat_that_is_left_while_it_is_restored_follows_no_run(
    fleet: Fleet, page: Page
) -> None:
    await chat(page, fleet.gateways[0], "counter")
    await say(page, f"{_COUNT} 500")
    await page.until(f"{_LAST}?.includes('2 ')", "the answer streams")
    place = await page.evaluate("location.hash")
    await page.evaluate("location.hash = '#/fleet'")
    await page.until("document.body.innerText.includes('available')", "the fleet is there")
    await page.evaluate(
        "{const real = fetch; globalThis.asked = []; globalThis.fetch = async (url, init) => {"
        "asked.push(String(url)); const answer = real(url, init); answer.catch(() => 0);"
        "if (!String(url).includes('/threads/')) return answer;"
        "await new Promise((go) => { globalThis.go = go; }); return answer;}; 0}"
    )
    await page.evaluate(f"location.hash = {json.dumps(place)}")
    await page.until("globalThis.go", "the thread is being restored")
    await page.evaluate("location.hash = '#/fleet'")
    await page.until("document.querySelector('h1')?.innerText === 'Agents'", "the chat is left")
    await page.evaluate("go(); globalThis.go = null; 0")
    await page.evaluate(f"location.hash = {json.dumps(place)}")
    await page.until("globalThis.go", "the thread is being restored again")
    await page.evaluate("go(); 0")
    await page.until(f"{_LAST}?.includes('2 ')", "the answer streams again")
    assert await page.evaluate("asked.filter((url) => url.includes('/attach')).length") == 1
    await page.click("[name=stop]")
    await page.until("!document.querySelector('[data-state=running]')", "it is stopped")


async def test_the_console_works_below_a_path_and_announces_a_new_build(
    fleet: Fleet, page: Page
) -> None:
    async with prefixed(fleet.gateways[0], "/fleet/one") as proxy:
        await page.open(f"{proxy.url}/")
        await page.until("location.pathname === '/fleet/one/console/'", "browsers are sent there")
        await page.click("a[href='#/fleet']")
        await page.until("document.body.innerText.includes('available')", "the fleet is live")
        await page.click("a[href='#/chat/counter']")
        await say(page, "5 1")
        await page.until(f"{_LAST}?.trim() === '1 2 3 4 5'", "an agent answers")
        looks = "document.dispatchEvent(new Event('visibilitychange'))"
        output = "document.querySelector('.update')"
        await page.evaluate(f"{looks}; {output} === null || console.error('too early')")
        # Each file has a hash of its own in its name: a build may differ in its styles only.
        proxy.replaced[b".css"] = b"-later.css"
        await page.evaluate(looks)
        await page.until(f"{output}?.innerText.includes('another version')", "it tells")
        assert await violations(page) == []
        proxy.replaced.clear()
        await page.click(".update button")
        await page.until(f"!{output} && {_LAST}?.trim() === '1 2 3 4 5'", "it is the new one")
        # The page watches what waits for its user; the proxy ends with its last stream.
        await page.open("about:blank")


async def test_nothing_that_a_message_contains_is_executed_or_fetched(
    fleet: Fleet, page: Page
) -> None:
    await chat(page, fleet.gateways[0], "echo")
    await page.evaluate("globalThis.hacked = () => console.error('hacked')")
    await say(page, _HOSTILE)
    await page.until("document.querySelectorAll('.markdown strong').length === 2", "it is echoed")
    forbidden = "script, img, svg, iframe, style, form, input, [onerror], [onload]"
    found = f"document.querySelectorAll('.markdown :is({forbidden})').length"
    assert await page.evaluate(found) == 0
    links = await page.evaluate(
        "[...document.querySelectorAll('.answer .markdown a')].map((a) => a.href)"
    )
    assert links
    assert set(links) <= {"", "https://example.com/seen.png"}
    name = "<img src=x onerror=hacked()>.svg"
    await chat(page, fleet.gateways[0], "multimodal")
    await page.evaluate(
        "{const files = new DataTransfer(); files.items.add(new File(["
        f"'<svg onload=hacked()>'], {json.dumps(name)}, {{type: 'image/svg+xml'}}));"
        "const input = document.querySelector('input[type=file]'); input.files = files.files;"
        "input.dispatchEvent(new Event('change'))}"
    )
    await page.until("document.querySelector('.chosen li')", "the file is chosen")
    await page.click(".composer [type=submit]")
    await page.until(f"{_LAST}?.includes('image/svg+xml of 21 bytes')", "the agent has the file")
    assert name in await page.text(".user")
    assert await page.evaluate("document.querySelectorAll('.user :is(img, [onload])').length") == 0


async def test_a_question_is_answered_in_its_form_and_pages_are_accessible(
    fleet: Fleet, page: Page
) -> None:
    javascript.install(SOURCE)
    await page.open(f"{fleet.gateways[0]}/console/#/fleet")
    await page.until(r"/per second\s+\d/.test(document.body.innerText)", "a change brings rates")
    assert await page.evaluate("document.querySelectorAll('tbody tr').length > 3")
    assert await violations(page) == []
    await chat(page, fleet.gateways[0], "interrupt")
    await say(page, "a trip")
    await page.until("document.querySelector('.approval')", "an approval is two buttons")
    await page.resize(390, 760, dark=True)
    assert await violations(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    await page.click(".approval [type=submit]")
    await page.until(f"{_LAST}?.includes('Approved')", "the agent has the answer")
    await chat(page, fleet.gateways[0], "agentic_generative_ui")
    await say(page, "a cake")
    await page.click("[aria-label=State]")
    await page.until("document.querySelectorAll('.patches li').length > 4", "the state changes")
    assert await violations(page) == []


async def test_a_chat_shows_what_agents_emit_also_after_a_reload(fleet: Fleet, page: Page) -> None:
    async def begin(agent: str, text: str) -> None:
        await chat(page, fleet.gateways[0], agent)
        await say(page, text)

    async def until_shown(condition: str, shown: str) -> None:
        await page.until(condition, shown)
        await page.reload()
        await page.until(condition, f"{shown}, after a reload")

    await begin("subagents", "Rome")
    children = "[...document.querySelectorAll('.subagent > summary')].map((one) => one.innerText)"
    ended = f"{children}.filter((one) => one.endsWith('done')).length === 2"
    tool = "document.querySelector('.subagent .tool')?.textContent"
    thoughts = "document.querySelectorAll('.subagent .reasoning:not([open])').length"
    nested = f"{tool}.includes('get_weather') && {tool}.includes('conditions') && {thoughts} > 1"
    await until_shown(f"{ended} && {nested}", "the children are nested, with all that they emit")
    await begin("background_activity", "a report")
    file = "document.querySelector('.file')?.innerText"
    await until_shown(f"{file}?.includes('report.csv')", "the agent hands over a file")
    await page.evaluate(
        "URL.createObjectURL = (blob) => { globalThis.saved = blob.text(); return '#'; };"
        "HTMLAnchorElement.prototype.click = () => {}; 0"
    )
    await page.click(".file button")
    await page.until("globalThis.saved", "it is saved")
    assert (await page.evaluate("saved")).startswith("part,ok")
    await begin("counter", f"{_COUNT} 500")
    await page.until(f"{_LAST}?.includes('2 ')", "the answer streams")
    await page.click("[name=stop]")
    stopped = "document.querySelector('[data-state=cancelled]')?.innerText.includes('Stopped.')"
    await until_shown(stopped, "it is stopped")
    await begin("interrupt", "a trip")
    await until_shown("document.querySelector('.approval')", "the agent asks")


async def test_tasks_that_wait_or_are_rejected_are_there_again_after_a_reload(
    fleet: Fleet, page: Page, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    gateway = fleet.gateways[0]
    later = {"headrace.startAt": (datetime.now(UTC) + timedelta(days=30)).isoformat()}
    shown = {
        "rejected": "document.querySelector('[data-state=failed]')?.innerText.includes('must be')",
        "submitted": "document.querySelector('[data-state=running]')",
        "auth required": "document.querySelector('.interrupt')",
    }
    request = {
        "rejected": ("counter", "nonsense", {}),
        "submitted": ("counter", "3 1", later),
        "auth required": ("guarded", "the safe", {}),
    }
    target = "tests.support.slow_agents:guarded"
    with WorkerProcess(tmp_path / "worker", target, fleet.nats_url, {}):
        is_served = partial(extra_services.is_served, fleet.gateways, "guarded")
        await asyncio.to_thread(until, is_served, "the agent is there")
        for state, (agent, text, metadata) in request.items():
            url = f"{gateway}/v1/agents/{agent}"
            configuration = {"returnImmediately": True}
            body = {"message": message(text), "configuration": configuration, "metadata": metadata}
            task = (await http.post(f"{url}/message:send", json=body)).json()["task"]
            head = f"document.querySelector('.task-head')?.innerText.includes('{state}')"
            for place, condition in (
                (f"#/tasks/{agent}/{task['id']}", head),
                (f"#/chat/{agent}/{task['contextId']}", shown[state]),
            ):
                await page.open(f"{gateway}/console/{place}")
                await page.until(condition, f"{state} at {place}")
                await page.evaluate("globalThis.isOld = true")
                await page.reload()
                again = f"!globalThis.isOld && ({condition})"
                await page.until(again, f"{state} at {place}, after a reload")
            if state != "rejected":
                (await http.post(f"{url}/tasks/{task['id']}:cancel")).raise_for_status()


async def test_every_page_is_accessible_and_fits_a_phone_in_light_and_dark(
    fleet: Fleet, page: Page, http: httpx.AsyncClient
) -> None:
    javascript.install(SOURCE)
    counter = PlainAgent(http, fleet.gateways[0], "counter")
    sent = (await counter.send("3 1")).json()["task"]["id"]
    rows = "document.querySelectorAll('tbody tr').length"
    pages = {
        "#/fleet": f"{rows} > 3",
        "#/nowhere": "document.querySelector('.empty-state')",
        "#/chat/counter": "document.querySelector('.composer')",
        "#/?agent=counter": "document.querySelector('.row')",
        "#/?q=nothing+like+it": "document.querySelector('.empty-state')",
        f"#/tasks/counter/{sent}": "document.querySelector('.line')",
        f"#/tasks/counter/{sent}?view=trace": "document.querySelector('.span.attempt')",
        f"#/tasks/counter/{sent}?view=events": "document.querySelector('.log tbody button')",
        "#/triggers": "document.querySelector('h1')?.innerText === 'Triggers'",
        "#/triggers?new=1": "document.querySelector('.declaration')",
        "#/schedules": "document.querySelector('h1')?.innerText === 'Schedules'",
        "#/schedules?new=1": "document.querySelector('.declaration')",
        "#/inspect?agent=echo": "document.body.innerText.includes('has all fields that A2A 1.0')",
        "#/operate": "document.querySelector('.versions')",
        "#/break": "document.querySelector('.breaking [name=worker]')",
    }
    await page.open(f"{fleet.gateways[0]}/console/")
    for place, shown in pages.items():
        await page.evaluate(f"location.hash = {json.dumps(place)}")
        await page.until(shown, f"{place} is shown")
        assert await problems_on_a_phone(page) == [], place


@pytest.mark.usefixtures("extra_worker")
async def test_several_questions_are_answered_together(fleet: Fleet, page: Page) -> None:
    await chat(page, fleet.gateways[0], "chooser")
    await say(page, "some tea")
    await page.until("document.querySelectorAll('.interrupt fieldset').length === 2", "both are")
    for number, answer in enumerate(("large", "green")):
        await page.type(
            f".interrupt fieldset:nth-of-type({number + 1}) [name^='{number}.']", answer
        )
    await page.click(".interrupt [type=submit]")
    await page.until(f"{_LAST}?.includes('large and green')", "the agent has both answers")
    assert await page.evaluate("document.querySelectorAll('.run').length") == 2
    given = "[...document.querySelectorAll('.given')].map((one) => one.innerText).join()"
    assert await page.evaluate(given) == "large,green"
    await page.evaluate("globalThis.isOld = true")
    await page.reload()
    await page.until(f"!globalThis.isOld && {given} === 'large,green'", "they are restored")


async def test_a_message_to_an_agent_at_work_is_answered_next(fleet: Fleet, page: Page) -> None:
    await chat(page, fleet.gateways[0], "counter")
    await say(page, "20 200")
    await page.until(f"{_LAST}?.includes('2 ')", "the answer streams")
    await say(page, "3 1")
    await page.until("document.querySelectorAll('[data-state=finished]').length === 2", "both end")
    output = (
        "[...document.querySelectorAll('.answer .markdown')].map((one) => one.innerText.trim())"
    )
    both = [" ".join(str(number) for number in range(1, 21)), "1 2 3"]
    # A text that takes long to lay out is drawn a while later.
    drawn = f"JSON.stringify({output}) === JSON.stringify({json.dumps(both)})"
    await page.until(drawn, "all of both is drawn")
    assert await page.evaluate(output) == both


async def test_a_task_shows_what_it_used_and_why_it_failed(fleet: Fleet, page: Page) -> None:
    await chat(page, fleet.gateways[0], "backend_tool_rendering")
    await say(page, "the weather in Rome")
    await page.until(f"{_LAST}?.includes('in Rome')", "it is answered")
    await page.click(".task-link")
    head = "document.querySelector('.task-head')?.innerText"
    await page.until(rf"/Tokens\s+\d+/.test({head})", "the tokens are there")
    await chat(page, fleet.gateways[0], "error_flow")
    await say(page, "a mistake")
    await page.until("document.querySelector('[data-state=failed]')", "it fails")
    await page.click(".task-link")
    failure = "document.querySelector('.failure')?.innerText"
    await page.until(rf"/[0-9a-f]{{8}}/.test({failure})", "the error's id is there")


async def test_the_token_that_a_gateway_requests_is_sent_in_a_header_only(
    fleet: Fleet, page: Page, tmp_path: Path
) -> None:
    ann = Person("acme", "ann")
    with guarded_gateway(fleet, tmp_path, ann, "public_cards = false") as url:
        await page.open(f"{url}/console/#/fleet")
        await sign_in(page, ann)
        await page.until("document.querySelectorAll('tbody tr').length > 3", "agents are listed")
        addresses = "performance.getEntries().map((one) => one.name).join() + location.href"
        assert ann.token not in await page.evaluate(addresses)


async def test_a_token_that_is_withdrawn_is_requested_anew_and_the_page_goes_on(
    fleet: Fleet, page: Page, tmp_path: Path
) -> None:
    ann, bob = Person("acme", "ann"), Person("acme", "bob")
    with guarded_gateway(fleet, tmp_path, ann) as url:
        await page.open(f"{url}/console/#/triggers")
        await sign_in(page, ann)
        shown = "document.body.innerText.includes('No trigger yet')"
        await page.until(shown, "there is none")
        await page.evaluate("globalThis.isSame = true")
        write(tmp_path / "credentials.toml", bob, head="required = true\n")
        await page.until("document.querySelector('[role=alert]')", "the token is refused")
        await sign_in(page, bob)
        await page.until(f"!document.querySelector('dialog[open]') && {shown}", "it goes on")
        assert await page.evaluate("isSame")


async def test_tasks_come_into_a_list_and_change_there_by_its_stream(
    fleet: Fleet, page: Page, http: httpx.AsyncClient
) -> None:
    context = f"live-{secrets.token_hex(8)}"

    def row(task: str) -> str:
        return f"document.querySelector('.row[href$=\"{task}\"]')?.innerText"

    async def send(text: str, **fields: str) -> str:
        body = {"message": message(text, **fields)}
        url = f"{fleet.gateways[0]}/v1/agents/interrupt/message:send"
        task: str = (await http.post(url, json=body)).raise_for_status().json()["task"]["id"]
        return task

    await page.open(f"{fleet.gateways[1]}/console/#/?agent=interrupt&contextId={context}")
    await page.until("document.body.innerText.includes('No task matches')", "the list is empty")
    task = await send("a trip", contextId=context)
    await page.until(f"{row(task)}?.includes('input required')", "the task is listed")
    assert "a trip" in await page.evaluate(row(task))
    heading = "document.querySelector('.part-head')?.innerText"
    await page.until(f"{heading}?.startsWith('Waits for a person')", "what waits is first")
    await send("yes", taskId=task, contextId=context)
    await page.until(f"{row(task)}?.includes('completed')", "its state changes")
    await page.reload()
    await page.type("[name=owner]", "anonymous")
    await page.press("Enter", 13, "\r")
    await page.until("location.hash.includes('owner=anonymous')", "the list is of one owner")
    await page.until(f"{row(task)}?.includes('completed')", "it is the task's")
    await page.evaluate("location.hash += '2'")
    refusal = "document.body.innerText.includes('only operators may list')"
    await page.until(refusal, "others' are not shown")


async def test_tasks_are_paged_and_filtered_by_time(
    fleet: Fleet, page: Page, http: httpx.AsyncClient
) -> None:
    context = f"paged-{secrets.token_hex(8)}"
    echo = f"{fleet.gateways[0]}/v1/agents/echo/message:send"
    for number in range(60):
        body = {"message": message(f"order {number}", contextId=context)}
        (await http.post(echo, json=body)).raise_for_status()
    place = f"#/?agent=echo&contextId={context}"
    await page.open(f"{fleet.gateways[1]}/console/{place}")
    shown = "[...document.querySelectorAll('.row-name')].map((one) => one.innerText)"
    await page.until("document.body.innerText.includes('of 60 tasks')", "all are counted")
    first = await page.evaluate(shown)
    await page.evaluate("[...document.querySelectorAll('.actions a')].at(-1).click()")
    await page.until("document.body.innerText.includes('51\\u201360 of 60')", "the other page")
    assert {*first, *await page.evaluate(shown)} == {f"order {n}" for n in range(60)}
    await page.evaluate(f"location.hash = '{place}&since=2999-01-01T00:00'")
    await page.until("document.body.innerText.includes('No task matches')", "none is so late")
    await page.evaluate(f"location.hash = '{place}&since=24h&state=completed&q=ORDER+59'")
    await page.until(f"{shown}.join() === 'order 59'", "it is searched")
    assert await page.evaluate("document.querySelector('[name=q]').value") == "ORDER 59"
    assert await page.evaluate("document.title") == "Tasks · Headrace"


async def test_the_list_is_used_with_the_keyboard_alone(
    fleet: Fleet, page: Page, http: httpx.AsyncClient
) -> None:
    context = f"keys-{secrets.token_hex(8)}"
    echo = f"{fleet.gateways[0]}/v1/agents/echo/message:send"
    for text in ("nails", "glue"):
        body = {"message": message(text, contextId=context)}
        (await http.post(echo, json=body)).raise_for_status()
    await page.open(f"{fleet.gateways[0]}/console/#/?contextId={context}")
    await page.until("document.querySelectorAll('.row').length === 2", "both are listed")
    focused = "document.activeElement.querySelector('.row-name')?.innerText"
    for key, name in (("j", "glue"), ("j", "nails"), ("k", "glue"), ("j", "nails")):
        await page.press(key, ord(key.upper()))
        assert await page.evaluate(focused) == name
    await page.press("?", 191)
    await page.until("document.querySelector('dialog[open] .keys')", "the keys are listed")
    await page.press("Escape", 27)
    await page.until("!document.querySelector('dialog[open]')", "the list is closed")
    await page.press("/", 191)
    assert await page.evaluate("document.activeElement.name") == "q"
    await page.call("Input.insertText", text="GLUE")
    await page.press("Enter", 13, "\r")
    await page.until("document.querySelectorAll('.row').length === 1", "it is found")
    await page.press("Escape", 27)
    await page.press("j", 74)
    await page.press("Enter", 13, "\r")
    await page.until("location.hash.startsWith('#/tasks/echo/')", "the row is opened")


async def test_a_menu_sets_a_filter(fleet: Fleet, page: Page, http: httpx.AsyncClient) -> None:
    await PlainAgent(http, fleet.gateways[0], "counter").send("3 1")
    await page.resize(390, 760)
    await page.open(f"{fleet.gateways[0]}/console/#/")
    await page.click("[aria-label=Filters] [aria-haspopup=menu]")
    await page.until("document.querySelector('.menu:popover-open')", "the menu opens")
    assert await violations(page) == []
    places = "JSON.stringify(document.querySelector('.menu').getBoundingClientRect())"
    place = json.loads(await page.evaluate(places))
    assert place["left"] >= 0
    assert place["right"] <= 390
    items = "[...document.querySelectorAll('.menu [role=menuitemradio]')]"
    await page.until(f"{items}.some((one) => one.innerText.trim() === 'counter')", "agents")
    await page.evaluate(f"{items}.find((one) => one.innerText.trim() === 'counter').click()")
    agents = "new Set([...document.querySelectorAll('.row-agent')].map((one) => one.innerText))"
    await page.until(f"location.hash.includes('agent=counter') && {agents}.size === 1", "one agent")
    await page.click("[aria-label=Menu]")
    await page.click(".sidebar.is-open a[href='#/fleet']")
    await page.until("!document.querySelector('.sidebar.is-open')", "the menu of pages closes")
    wide = "document.documentElement.scrollWidth"
    assert await page.evaluate(wide) <= 390


@pytest.mark.usefixtures("extra_worker")
async def test_questions_are_answered_in_the_inbox(
    fleet: Fleet, page: Page, http: httpx.AsyncClient
) -> None:
    javascript.install(SOURCE)
    cashier = PlainAgent(http, fleet.gateways[0], "cashier")
    texts = [f"refund {secrets.token_hex(4)} <img src=x onerror=hacked()>" for _ in range(2)]
    tasks = [(await cashier.send(text)).json()["task"]["id"] for text in texts]
    await page.open(f"{fleet.gateways[1]}/console/#/inbox")
    heads = [f".inbox-item[data-task='{task}'] .inbox-head" for task in tasks]
    await page.until(f"document.querySelector({json.dumps(heads[1])})", "both are there")
    order = "[...document.querySelectorAll('.inbox-item')].map((one) => one.dataset.task)"
    found = [task for task in await page.evaluate(order) if task in tasks]
    assert found == tasks, "the oldest is first"
    assert "waiting · Headrace" in await page.evaluate("document.title")
    assert await page.evaluate("document.querySelector('link[rel=icon]').dataset.state") == (
        "waiting"
    )
    for task, head, choice, words in zip(
        tasks, heads, ("[type=submit]", ".plain"), ("Paid.", "Not paid."), strict=True
    ):
        is_open = f"document.querySelector({json.dumps(head)})?.ariaExpanded === 'true'"
        if not await page.evaluate(is_open):
            await page.click(head)
        card = f".inbox-item[data-task='{task}'] .approval"
        await page.until(f"document.querySelector({json.dumps(card)})", "it is two buttons")
        assert "refund" in await page.text(f"{card} .arguments")
        assert await problems_on_a_phone(page) == []
        await page.click(f"{card} .approval-buttons {choice}")
        if choice == ".plain":
            await page.type(f"{card} [name=reason]", "too much")
            await page.press("Enter", 13, "\r")
        gone = f"!document.querySelector({json.dumps(head)})"
        await page.until(gone, "an answered question leaves the inbox")
        if choice == ".plain":
            goes_on = "document.activeElement.matches('.inbox-head, .empty-state a')"
            await page.until(goes_on, "the keyboard goes on from there")
        stored = (await http.get(f"{cashier.url}/tasks/{task}")).json()
        assert words in json.dumps(stored["artifacts"])
    last = (await http.get(f"{cashier.url}/tasks/{tasks[-1]}")).json()
    await page.evaluate(f"location.hash = '#/chat/cashier/{last['contextId']}'")
    await page.until("document.querySelector('.given')", "the chat has what was answered")
    assert (await page.text(".given")).split() == [
        "Rejected",
        "by",
        "you",
        "Pay",
        "Reason",
        "too",
        "much",
    ]
    assert await problems_on_a_phone(page) == []


async def test_a_task_shows_its_log_and_the_worker_that_took_it_over(
    fleet: Fleet, page: Page, slow_counters: list[ServiceProcess], http: httpx.AsyncClient
) -> None:
    javascript.install(SOURCE)
    agent = PlainAgent(http, fleet.gateways[0], "slow-counter")
    async with agent.stream("count") as response:
        begun = await anext(frames(response))
    task = begun.event["task"]["id"]
    await page.open(f"{fleet.gateways[0]}/console/#/tasks?agent=slow-counter&status=WORKING")
    await page.click(f"a[href='#/tasks/slow-counter/{task}']")
    await page.click("#tab-events")
    await page.until("document.querySelectorAll('.log tbody button').length > 5", "events come")
    holder = (await page.text(".log tbody tr:nth-child(4) .writer")).strip().rpartition("-")[0]
    working = [one for one in slow_counters if f"{holder} serves " in one.log.read_text()]
    assert len(working) == 1
    working[0].kill()
    await page.until("document.body.innerText.includes('completed')", "it ends")
    await page.click("#tab-timeline")
    await page.until("document.querySelector('.span.gap')", "the gap is shown")
    lines = "[...document.querySelectorAll('.line')].map((one) => one.innerText)"
    assert await page.evaluate(f"{lines}.filter((one) => one.includes('Attempt 2')).length") == 1
    assert await violations(page) == []
    await page.click("#tab-events")
    log = (await http.get(f"{agent.url}/tasks/{task}/log", params={"limit": 1})).json()
    assert f"{log['head']} events" in await page.text(".task-head")
    await page.click(".log tbody button")
    assert "Event 1" in await page.text(".detail")
    assert await page.evaluate("document.querySelectorAll('.log tbody tr').length") < 100
    assert await violations(page) == []
    await page.evaluate(
        "{const at = document.querySelector('.slider input'); at.value = 3;"
        "at.dispatchEvent(new Event('input', {bubbles: true}))}"
    )
    await page.until("document.querySelectorAll('.log tbody button').length === 3", "it goes back")
    assert "3 events" in await page.text(".task-head")
    assert "working" in await page.text(".task-head")
    await page.until("location.hash.includes('at=3')", "the address has the event")
    await page.click(".travel button.plain")
    await page.click(".travel [type=submit]")
    await page.until("document.querySelectorAll('.beside .log').length === 2", "the fork is shown")
    await page.until("document.querySelector('.side h2 a')", "it stands beside its source")
    assert f"Forked from {task} at event {log['head']}" in await page.text("main")
    await page.until(
        "document.querySelector('.task-head').innerText.includes('input required')", "it waits"
    )
    assert await violations(page) == []


@pytest.mark.usefixtures("extra_worker")
async def test_a_tasks_steps_are_in_its_timeline_and_its_writes_to_memory_in_its_log(
    fleet: Fleet, page: Page, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    javascript.install(SOURCE)
    buyer, gate = PlainAgent(http, fleet.gateways[0], "buyer"), tmp_path / "gate"
    sent = (await buyer.send(str(gate), returnImmediately=True)).json()["task"]["id"]
    await page.open(f"{fleet.gateways[1]}/console/#/tasks/buyer/{sent}")
    await page.until(
        "document.querySelectorAll('.span.step:not(.is-open)').length === 1", "one is done"
    )
    line = "[...document.querySelectorAll('.line')].find((one) => one.innerText.includes('charge'))"
    await page.until(f"{line}?.innerText.includes('started')", "the other one has begun")
    gate.touch()
    await page.until(
        "document.querySelectorAll('.span.step:not(.is-open)').length === 2", "both are"
    )
    titles = "[...document.querySelectorAll('.span.step')].map((one) => one.title)"
    reserve, charge = await page.evaluate(titles)
    assert reserve.startswith("reserve: ")
    assert charge.startswith("charge: ")
    await page.until(f"{line}.innerText.includes('completed in')", "one line tells of a step")
    written = "memory written: conversation 1"
    await page.until(f"document.querySelector('.lines').innerText.includes('{written}')", "so")
    assert await violations(page) == []


@pytest.mark.usefixtures("extra_worker")
async def test_a_tasks_delegations_are_a_tree_to_click_through(
    fleet: Fleet, page: Page, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    javascript.install(SOURCE)
    delegator, gate = PlainAgent(http, fleet.gateways[0], "delegator"), tmp_path / "gate"
    sent = (await delegator.send(str(gate), returnImmediately=True)).json()["task"]["id"]
    await page.open(f"{fleet.gateways[1]}/console/#/tasks/delegator/{sent}")
    tree = "document.querySelector('.tree')?.innerText"
    await page.until(f"{tree}?.match(/gated .* working/)", "a child is at work")
    gate.touch()
    await page.until(f"{tree}?.match(/ completed/g)?.length === 2", "all children are completed")
    assert await violations(page) == []
    agents = "[...document.querySelectorAll('.tree .name')].map((one) => one.innerText).join()"
    assert await page.evaluate(agents) == "echo,gated"
    await page.click(".tree a[href*='/gated/']")
    await page.until("document.body.innerText.includes('Delegated by delegator')", "it is a child")
    assert await page.text(".origin a") == sent


@pytest.mark.soak
@pytest.mark.timeout(sized(300, 1200))
async def test_nothing_of_a_stream_is_lost_or_repeated_whatever_is_killed(
    fleet: Fleet, page: Page
) -> None:
    javascript.install(SOURCE)
    killed: list[Role] = ["gateway", "worker"]
    if IS_SOAK:
        killed += ["task-state", "triggers"]
        # Servers in containers are not processes of the stack.
        killed += ["nats"] if fleet.stack.pids("nats") else []
    before = {role: fleet.stack.pids(role) for role in killed}
    await page.open(f"{fleet.gateways[0]}/console/")
    await page.click("a[href='#/break']")
    await page.click(".breaking button:first-child")
    # The page's own gateway is killed first, and then the one that the stream has moved to.
    rounds = sized(1, 5)
    for pressed, name in enumerate(["gateway", *([*killed, "cut", "move"] * rounds)], 1):
        await page.click(f".breaking [name={name}]:enabled")
        outcomes = "[...document.querySelectorAll('tbody td:last-child')].map((td) => td.innerText)"
        recovered = f"{outcomes}.length === {pressed} && !{outcomes}.includes('waiting')"
        await page.until(recovered, f"the stream goes on after {name}", timeout=90)
    assert await violations(page) == []
    figures = await page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.figures div')].map("
        "(one) => [one.firstChild.innerText, one.lastChild.innerText.replace(/\\D/g, '')]))"
    )
    assert (figures["events lost"], figures["events repeated"]) == ("0", "0")
    assert int(figures["events"]) > _COUNT
    assert [role for role in killed if fleet.stack.pids(role) == before[role]] == []
    happened = await page.text("tbody")
    assert "goes on counting" in happened
    assert "serves the stream" in happened
    assert happened.count("resumed it") == 2 * rounds
    await page.click(".breaking button:first-child")
    await page.until("!document.querySelector('.breaking [name]:enabled')", "it is stopped")


async def printed_by_python(page: Page, binding: str) -> str:
    """Return what the Python code of a binding prints."""
    await page.evaluate(
        f"[...document.querySelectorAll('[aria-label={binding}] button')]"
        ".find((one) => one.innerText === 'Python').click()"
    )
    code = await page.text(f"[aria-label={binding}] .code")
    command = [sys.executable, "-c", code]
    done = await asyncio.to_thread(
        subprocess.run, command, check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_a_request_is_inspected_in_every_binding_and_copied_as_code(
    fleet: Fleet, page: Page
) -> None:
    javascript.install(SOURCE)
    await page.open(f"{fleet.gateways[0]}/console/#/inspect?agent=echo")
    await page.evaluate("globalThis.hacked = () => console.error('hacked')")
    await page.until(
        "document.body.innerText.includes('has all fields that A2A 1.0')", "the card is well"
    )
    hostile = "it's <img src=x onerror=hacked()> $HOME"
    await page.evaluate("document.querySelector('input[name=text]').select()")
    await page.type("input[name=text]", hostile)
    await page.click(".page > .actions button")
    answers = "[...document.querySelectorAll('.answer-text')].map((one) => one.innerText)"
    await page.until(
        f"{answers}.filter((one) => one.includes({json.dumps(hostile)})).length === 6", "all answer"
    )
    socket = "document.querySelector('[aria-label=WebSocket]').innerText"
    await page.until(f"{socket}.includes('closed with 1000')", "the socket is closed")
    printed = [await printed_by_python(page, binding) for binding in ("REST", "WebSocket", "gRPC")]
    assert [hostile in one for one in printed] == [True] * 3
    assert await violations(page) == []
    await page.resize(390, 760, dark=True)
    assert await violations(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    await page.evaluate("location.hash = '#/inspect?agent=echo&operation=SendStreamingMessage'")
    await page.until("document.querySelector('[aria-label=AG-UI]')", "AG-UI has it, too")
    await page.click("[aria-label=AG-UI] .actions button:last-of-type")
    await page.until(f"{answers}.join().includes('RUN_FINISHED')", "its events are shown")


async def leave_and_ask_again(page: Page) -> None:
    """Press "Go back" and then "Retry", before the browser reports that the dialog was left."""
    press = "document.querySelector('{}').click()".format
    left, retry = press("dialog[open] .quiet"), press(".part .actions button:last-of-type")
    await page.evaluate(f"(async () => {{ {left}; await null; {retry} }})()")


@pytest.mark.usefixtures("extra_worker")
async def test_an_operator_retries_and_drops_dead_letters_and_fails_a_task(
    fleet: Fleet, page: Page, http: httpx.AsyncClient
) -> None:
    javascript.install(SOURCE)
    flaky = PlainAgent(http, fleet.gateways[0], "flaky")
    failed = [(await flaky.send(_HOSTILE)).json()["task"]["id"] for _ in range(2)]
    await page.open(f"{fleet.gateways[0]}/console/")
    await page.evaluate("globalThis.hacked = () => console.error('hacked')")
    await page.click("a[href='#/operate']")
    await page.until("document.querySelectorAll('.letters tbody tr').length >= 2", "both are there")
    assert await problems_on_a_phone(page) == []
    await page.evaluate(f"location.hash = '#/operate?agent=flaky&task={failed[0]}'")
    await page.until("document.querySelectorAll('.letters tbody tr').length === 1", "one is left")
    await page.click(".letters tbody button")
    await page.until("document.querySelector('.card .json')", "it is shown in full")
    await page.click(".letters tbody input")
    await page.click(".part .actions button:last-of-type")
    await page.until("document.querySelector('dialog[open]')", "it is confirmed")
    assert await violations(page) == []
    await page.press("Escape", 27)
    await page.until("!document.querySelector('dialog[open]')", "it may be left")
    await page.click(".part .actions button:last-of-type")
    await page.until("document.querySelector('dialog[open]')", "it is asked again")
    await leave_and_ask_again(page)
    await page.click("dialog[open] [type=submit]")
    await page.until("document.body.innerText.includes('retried as task')", "it is retried")
    await page.until("document.body.innerText.includes('Nothing has been given up')", "it is gone")
    await page.evaluate(f"location.hash = '#/operate?task={failed[1]}'")
    await page.until("document.querySelectorAll('.letters tbody tr').length === 1", "the other")
    await page.click(".letters thead input")
    await page.click(".part .actions button.plain")
    await page.click("dialog[open] [type=submit]")
    await page.until(
        "document.querySelector('.part [role=status]').innerText.includes('dropped')", "so"
    )
    counter = PlainAgent(http, fleet.gateways[0], "counter")
    sent = (await counter.send("1000 100", returnImmediately=True)).json()["task"]["id"]
    hook = f"{fleet.gateways[0]}/v1/agents/counter/tasks/{sent}/pushNotificationConfigs"
    receiver = {"url": f"http://127.0.0.1:{ports.pick()}/hook"}
    (await http.post(hook, json=receiver, headers={"A2A-Version": "1.0"})).raise_for_status()

    async def has_failed() -> bool:
        deliveries = await http.get(f"{fleet.gateways[0]}/v1/webhook-deliveries?task={sent}")
        return any(one["lastError"] for one in deliveries.json()["deliveries"])

    await eventually(has_failed, "the first delivery fails")
    await page.reload()
    await page.until(f"document.querySelector('.part a[href$=\"{sent}\"]')", "it is listed")
    assert await problems_on_a_phone(page) == []
    await page.evaluate(f"location.hash = '#/tasks/counter/{sent}'")
    await page.click(".task-head [name=fail]")
    await page.type("dialog[open] input", "It counts too far")
    await page.click("dialog[open] [type=submit]")
    await page.until("document.querySelector('.task-head').innerText.includes('failed')", "it ends")
    status = (await counter.get(sent)).json()["status"]
    assert status["message"]["parts"][0]["text"] == "It counts too far"
    assert not await page.evaluate("document.querySelector('.task-head [name=cancel]')")


async def fill(page: Page, **fields: str) -> None:
    """Fill fields of a form anew."""
    for name, text in fields.items():
        field = f"document.querySelector('.declaration [name={name}]')"
        await page.until(field, f"{name} can be filled")
        await page.evaluate(f"{field}.value = {json.dumps(text)}")


async def confirmed(page: Page, verb: str) -> None:
    """Press a button of a trigger or schedule, and confirm it."""
    buttons = "[...document.querySelectorAll('.buttons button')]"
    button = f"{buttons}.find((one) => one.innerText === '{verb}')"
    await page.until(button, f"{verb} is there")
    await page.evaluate(f"{button}.click()")
    await page.until("document.querySelector('dialog[open]')", "it is confirmed")
    await page.click("dialog[open] [type=submit]")
    await page.until("!document.querySelector('dialog[open]')", f"{verb} is done")


async def until_figure(page: Page, name: str, figure: str) -> None:
    shown = (
        "[...document.querySelectorAll('.figures div')].some((one) =>"
        f" one.firstChild.innerText === '{name}' && one.lastChild.innerText === '{figure}')"
    )
    await page.until(shown, f"{name}: {figure}")


async def until_refused(page: Page, field: str, rule: str) -> None:
    """Return once the focus is on the field that was refused, which says the rule."""
    focused = f"document.activeElement.name === '{field}'"
    shown = "document.getElementById(document.activeElement.id + '-rule')?.innerText"
    await page.until(f"{focused} && {shown}?.includes({json.dumps(rule)})", f"{field}: {rule}")
    assert await page.evaluate("document.activeElement.getAttribute('aria-invalid')") == "true"


async def test_a_schedule_is_declared_run_paused_and_deleted(fleet: Fleet, page: Page) -> None:
    javascript.install(SOURCE)
    name = f"nightly-{secrets.token_hex(4)}"
    await page.open(f"{fleet.gateways[0]}/console/")
    await page.click("a[href='#/schedules']")
    await page.click("a[href='#/schedules?new=1']")
    await fill(page, name=name, agent="echo", message="count the stock", every="1d")
    assert await violations(page) == []
    await page.click(".declaration [type=submit]")
    await until_refused(page, "every", "must be a duration of at least 1s")
    assert await violations(page) == []
    await fill(page, every="", cron="0 2 * * *", timeZone="Europe/Paris")
    await page.click(".declaration [type=submit]")
    await until_figure(page, "when", "0 2 * * * Europe/Paris")
    assert await violations(page) == []
    await confirmed(page, "Run now")
    began = ".part tbody a[href^='#/tasks/echo/']"
    await page.until(f"document.querySelector({json.dumps(began)})", "the firing's task is linked")
    await until_figure(page, "tasks begun", "1")
    await confirmed(page, "Pause")
    await until_figure(page, "state", "paused")
    await confirmed(page, "Resume")
    await until_figure(page, "state", "active")
    await page.evaluate("location.hash = '#/schedules'")
    one = f"fetch('../v1/schedules/{name}').then((answer) => answer.json())"
    following = await page.evaluate(f"{one}.then(({{ next }}) => new Date(next).toLocaleString())")
    row = f"document.querySelector(`a[href^='#/schedules/{name}']`)?.closest('tr').innerText"
    await page.until(f"{row}?.includes({json.dumps(following)})", "the list has its next time")
    await page.evaluate("history.back()")
    await page.click(".buttons a")
    await fill(page, message="count all of it", overlap="queue", maxQueued="3")
    await page.resize(390, 760, dark=True)
    assert await violations(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    await page.click(".declaration [type=submit]")
    await page.until("document.body.innerText.includes('tasks begun')", "it is saved")
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    await page.until("document.body.innerText.includes('maxQueued: 3')", "all of it is stored")
    await page.click(began)
    await page.until("document.querySelector('.task-head')?.innerText.includes('completed')", "so")
    await page.evaluate(f"location.hash = '#/schedules/{name}?owner=anonymous'")
    await confirmed(page, "Delete")
    await page.until("document.querySelector('h1')?.innerText === 'Schedules'", "the list is shown")
    await page.until(f"!document.body.innerText.includes('{name}')", "it is gone")


async def test_a_schedule_is_back_filled_and_states_for_how_many_times(
    fleet: Fleet, page: Page
) -> None:
    javascript.install(SOURCE)
    name = f"nightly-{secrets.token_hex(4)}"
    await page.open(f"{fleet.gateways[0]}/console/#/schedules?new=1")
    await fill(page, name=name, agent="echo", message="count the stock", cron="0 2 * * *")
    await page.click(".declaration [type=submit]")
    await until_figure(page, "state", "active")
    await confirmed(page, "Pause")
    await page.click("a[href*='fill=1']")
    await fill(page, **{"from": "2026-01-05T00:00:00", "to": "2026-01-01T00:00:00"})
    assert await violations(page) == []
    await page.click(".declaration [type=submit]")
    shown = "document.querySelector('.declaration [role=alert]')?.innerText"
    await page.until(f"{shown}?.includes('to must not be before from')", "it says the rule")
    await fill(page, to="2026-01-07T00:00:00")
    await page.resize(390, 760, dark=True)
    assert await violations(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    await page.click(".declaration [type=submit]")
    shown = "document.querySelector('.page [role=status]')?.innerText"
    await page.until(f"{shown} === 'It fires for 2 times.'", "it says for how many times")
    assert await violations(page) == []
    await page.click(".page .actions a")
    await until_figure(page, "tasks begun", "2")
    await confirmed(page, "Delete")
    await page.until("document.querySelector('h1')?.innerText === 'Schedules'", "the list is shown")


async def until_failure(page: Page, reason: str) -> None:
    """Return once a trigger's only event that began no task is shown with its reason."""
    await until_figure(page, "dead letters", "1")
    await until_figure(page, "events lost", "0")
    rows = "[...document.querySelectorAll('.part tbody tr')].map((one) => one.innerText)"
    found = f'one.includes("dead letter") && one.includes("{reason}")'
    await page.until(f"{rows}.some((one) => {found})", "why it began no task is shown")
    assert await violations(page) == []


async def test_a_trigger_is_declared_and_shows_what_its_events_began(
    fleet: Fleet, page: Page
) -> None:
    javascript.install(SOURCE)
    name = f"orders-{secrets.token_hex(4)}"
    async with AsyncExitStack() as stack:
        bus = Bus(BusSettings(nats_url=fleet.nats_url))
        stack.push_async_callback(bus.close)
        await bus.connect("test")
        await bus.js.add_stream(StreamConfig(name=name, subjects=[f"{name}.>"]))
        stack.push_async_callback(bus.js.delete_stream, name)
        await page.open(f"{fleet.gateways[0]}/console/#/triggers")
        await page.click("a[href='#/triggers?new=1']")
        await fill(page, name=name, agent="echo", subject=f"{name}.created", stream=name)
        await fill(page, text="Check {id}", filter="{", answers=f'{{"subject": "{name}.checked"}}')
        await page.click(".declaration [type=submit]")
        await until_refused(page, "filter", "must be JSON")
        await fill(page, filter='{"body.total": {"min": 100}}')
        await page.click(".declaration [type=submit]")
        await until_refused(page, "text", "'id' must be subject")
        assert await violations(page) == []
        await fill(page, text="Check {body.id}")
        await page.click(".declaration [type=submit]")
        await until_figure(page, "events waiting", "0")
        await bus.js.publish(f"{name}.created", b'{"id": 7, "total": 250}', timeout=60)
        began = "document.querySelector(\".part tbody a[href^='#/tasks/echo/']\")"
        await page.until(
            f"{began}?.closest('tr').innerText.includes('began')", "its task is linked"
        )
        assert await violations(page) == []
        await confirmed(page, "Pause")
        await until_figure(page, "state", "paused")
        # Without an id, so that no text can be made of it.
        await bus.js.publish(f"{name}.created", b'{"total": 250}', timeout=60)
        await until_figure(page, "events waiting", "1")
        await page.resize(390, 760, dark=True)
        assert await violations(page) == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390
        await outage(page, ".page > [role=alert]")
        await until_figure(page, "events waiting", "1")
        await confirmed(page, "Resume")
        await until_figure(page, "events waiting", "0")
        await until_failure(page, "'body.id'")
        await page.click(".buttons a[href^='#/operate']")
        letter = (
            f"document.querySelector('.letters')?.innerText.includes('trigger/anonymous/{name}')"
        )
        await page.until(letter, "the event is a dead letter")
        kind = (
            "[...document.querySelectorAll('.letters td:nth-child(3)')].map((one) => one.innerText)"
        )
        assert set(await page.evaluate(kind)) == {"event"}
        await page.evaluate(f"location.hash = '#/triggers/{name}'")
        await confirmed(page, "Delete")
        await page.until("document.querySelector('h1')?.innerText === 'Triggers'", "the list")
        await page.until(f"!document.body.innerText.includes('{name}')", "it is gone")


async def test_a_trigger_that_receives_no_events_is_listed_with_its_problem(
    fleet: Fleet, page: Page
) -> None:
    url, name = fleet.gateways[0], f"orders-{secrets.token_hex(4)}"
    spec = {"agent": "echo", "subject": f"{name}.created", "stream": f"{name}-missing"}
    async with httpx.AsyncClient(base_url=url, verify=NO_TLS, timeout=60) as http:
        assert (await http.put(f"/v1/triggers/{name}", json=spec)).status_code == 201
        await page.open(f"{url}/console/#/triggers")
        row = f"document.querySelector(\"a[href^='#/triggers/{name}']\")?.closest('tr').innerText"
        await page.until(f"{row}?.includes('stream not found')", "the reason is shown")
        assert "has a problem" in await page.evaluate(row)
        assert await violations(page) == []
        assert (await http.delete(f"/v1/triggers/{name}")).is_success


async def test_an_operator_drains_a_worker(fleet: Fleet, page: Page, tmp_path: Path) -> None:
    target = "headrace.demo:agents"
    with WorkerProcess(tmp_path / "worker", target, fleet.nats_url, {}) as worker:
        await page.open(f"{fleet.gateways[0]}/console/#/operate")
        await page.click(f"[aria-label='Drain {worker.id}']")
        await page.until("document.querySelector('dialog[open]')", "it is confirmed")
        assert await violations(page) == []
        await page.click("dialog[open] [type=submit]")
        shown = "document.querySelector('.drained').innerText"
        await page.until(f"{shown}.startsWith('{worker.id} starts no more')", "the worker drains")
        await asyncio.to_thread(until, lambda: not worker.is_running, "its process ends")
        assert worker.exit_code() == 0


async def test_an_operator_routes_new_tasks_between_versions_of_an_agent(
    fleet: Fleet, page: Page, tmp_path: Path
) -> None:
    module = "tests.support.pinned_agents"
    with (
        WorkerProcess(tmp_path / "1", f"{module}:first", fleet.nats_url, {}) as first,
        WorkerProcess(tmp_path / "2", f"{module}:second", fleet.nats_url, {}) as second,
    ):
        gateways = fleet.gateways[:1]
        is_served = partial(extra_services.is_served, gateways, "booth")
        await asyncio.to_thread(until, is_served, "the agent is there")
        async with httpx.AsyncClient(timeout=60) as http:
            waiting = (await PlainAgent(http, gateways[0], "booth").send("now")).json()["task"]
        assert waiting["status"]["state"].endswith("INPUT_REQUIRED")
        await page.open(f"{fleet.gateways[0]}/console/#/operate")
        await choose(page, ".versions select", "booth")
        rows = "[...document.querySelectorAll('.versions tbody tr')].map((one) => one.innerText)"
        begun = f"1 all 1 Roll back {first.id}|2 none 0 Route Retire {second.id}"
        shown = f"{rows}.map((one) => one.replace(/\\s+/g, ' ').trim()).join('|')"
        await page.until(f"{shown} === {json.dumps(begun)}", "both versions")
        assert await violations(page) == []
        await page.click("[aria-label='Route 2']")
        await page.until("document.querySelector('dialog[open]')", "it is confirmed")
        assert await violations(page) == []
        await outage(page, ".versions > [role=alert]")
        percent = "document.querySelector('[name=percent]').value"
        await page.evaluate(
            "{const real = fetch; globalThis.loaded = 0; globalThis.fetch = async (url, init) => {"
            "const answer = await real(url, init); loaded += String(url).endsWith('/versions');"
            f"return answer;}}; {percent} = 10}}"
        )
        await page.until("loaded > 1", "the versions are loaded again")
        assert await page.evaluate(percent) == "10", "what was entered stays"
        await page.click("dialog[open] [type=submit]")
        await page.until(f"{rows}.join().includes('10 % of contexts')", "a part is routed")
        await page.evaluate("location.hash = '#/fleet'")
        await page.until("document.querySelector('h1')?.innerText === 'Agents'", "the fleet")
        await choose(page, ".versions select", "booth")
        await page.until(f"{rows}.join().includes('90 % of contexts')", "all may look at it")
        await page.evaluate("location.hash = '#/operate'")
        # The page that is left has such a list, too.
        await page.until("document.querySelector('h1')?.innerText === 'Operate'", "the operators'")
        await choose(page, ".versions select", "booth")
        await page.click("[aria-label='Roll back 2']")
        await page.until("document.querySelector('dialog[open]')", "it is confirmed")
        assert await violations(page) == []
        await page.click("dialog[open] [type=submit]")
        await page.until(f"{shown} === {json.dumps(begun)}", "the first has all of it again")
        await page.click("[aria-label='Route 2']")
        await page.click("dialog[open] [type=submit]")
        await page.click("[aria-label='Retire 1']")
        await page.click("dialog[open] [type=submit]")
        refused = "document.querySelector('dialog[open] .error')?.innerText"
        await page.until(f"{refused}?.includes('open')", "a version with open tasks stays")
        await page.evaluate("document.querySelector('[name=moveTo]').value = '=2'")
        assert await violations(page) == []
        await page.click("dialog[open] [type=submit]")
        # Its worker still runs, but does not announce it again within the hour.
        told = "Version 1 is retired: version 2 continues 1 open task. Stop its workers"
        await page.until(f"document.querySelector('.toasts').innerText.includes('{told}')", told)
        left = f"2 all 0 {second.id}"
        await page.until(f"{shown} === {json.dumps(left)}", "its row is gone")


async def outage(page: Page, alert: str) -> None:
    """Have no gateway answer until the page shows that, and again from then on."""
    await page.evaluate(
        "{globalThis.real = fetch;"
        "globalThis.fetch = async () => new Response('', {status: 503}); 0}"
    )
    await page.until(f"document.querySelector('{alert}')", "it can't be refreshed")
    await page.evaluate("{globalThis.fetch = real; 0}")
    await page.until(f"!document.querySelector('{alert}')", "it is refreshed")


async def choose(page: Page, selector: str, value: str) -> None:
    """Choose an option of a list, once it is there."""
    options = f"[...(document.querySelector({json.dumps(selector)})?.options ?? [])]"
    has_option = f"{options}.some((one) => one.value === {json.dumps(value)})"
    await page.until(has_option, f"{value} can be chosen")
    await page.evaluate(
        f"{{const list = document.querySelector({json.dumps(selector)});"
        f"list.value = {json.dumps(value)};"
        "list.dispatchEvent(new Event('change', {bubbles: true}))}"
    )


async def test_an_operator_reads_why_what_concerns_all_tenants_is_refused(
    fleet: Fleet, page: Page, tmp_path: Path
) -> None:
    oncall = Person("acme", "oncall", ("on-call",))
    role = '[[role]]\nname = "on-call"\noperator = true\noperations = ["operate"]'
    with guarded_gateway(fleet, tmp_path, oncall, role) as url:
        await page.open(f"{url}/console/#/operate")
        await sign_in(page, oncall)
        await page.click("[aria-label^='Drain ']")
        await page.click("dialog[open] [type=submit]")
        refusal = "needs a role with operator = true and this operation on"
        shown = f"DrainWorker {refusal} all agents"
        await page.until(
            f"document.querySelector('dialog[open]').innerText.includes('{shown}')", shown
        )
        await page.click("dialog[open] .quiet")
        await choose(page, ".versions select", "echo")
        shown = f"GetAgentVersions {refusal} agent"
        await page.until(
            f"document.querySelector('.versions').innerText.includes('{shown}')", shown
        )


async def test_callers_that_are_no_operators_are_refused_with_the_reason(
    fleet: Fleet, page: Page, tmp_path: Path
) -> None:
    ann = Person("acme", "ann")
    with guarded_gateway(fleet, tmp_path, ann) as url:
        await page.open(f"{url}/console/#/operate")
        await sign_in(page, ann)
        await page.until("document.body.innerText.includes('is for operators')", "it is refused")
        links = "[...document.querySelectorAll('nav a')].map((one) => one.innerText).join()"
        assert await page.evaluate(links) == "Tasks,Inbox,Chat,Agents,Triggers,Schedules,Inspect"
