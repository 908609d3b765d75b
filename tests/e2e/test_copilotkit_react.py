"""CopilotKit's React client in a real browser, given the fleet's /copilotkit and no Node server."""

import asyncio
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support import extra_services
from tests.support.chat_page import ChatPage
from tests.support.credentials import ANN, write
from tests.support.fleet import Fleet
from tests.support.soak import in_soak
from tests.support.waiting import eventually

type Json = dict[str, Any]

pytestmark = pytest.mark.timeout(900)
"""The first one installs the client and makes it one script."""


@pytest.fixture
def page(tmp_path: Path) -> Iterator[ChatPage]:
    """A browser for one chat after the other."""
    with ChatPage(tmp_path / "browser") as page:
        yield page


@pytest.fixture
def runtime(fleet: Fleet, page: ChatPage, tmp_path: Path) -> Iterator[str]:
    """The URL of a gateway's runtime that pages of that origin may call."""
    settings = {"HEADRACE_CORS_ORIGINS": page.origin}
    gateway, url = extra_services.gateway(tmp_path / "gateway", fleet.nats_url, **settings)
    with gateway:
        yield f"{url}/copilotkit"


@in_soak(
    shown_by="e2e/test_copilotkit.py"
    "::test_it_finds_the_agents_runs_their_tools_and_comes_back_to_the_thread"
)
async def test_a_user_chats_paints_the_page_and_comes_back_to_the_thread(
    page: ChatPage, runtime: str
) -> None:
    thread = str(uuid4())
    await page.open(runtime, "agentic_chat", thread)
    await page.say("hello there")
    await page.until(lambda shown: shown["assistant"] == ["You said: hello there"], "the answer")
    await page.say("a green background")
    answers = ["You said: hello there", "Let me paint.", "The background: painted"]
    await page.until(lambda shown: shown["assistant"] == answers, "the tool's answer is told of")
    assert page.shown["background"] == "green"
    assert page.shown["errors"] == []
    await page.open(runtime, "agentic_chat", thread)
    await page.until(lambda shown: shown["assistant"] == answers, "the thread is there again")
    assert page.shown["user"] == ["hello there", "a green background"]
    assert page.shown["errors"] == []


@in_soak(
    shown_by="e2e/test_copilotkit.py"
    "::test_it_finds_the_agents_runs_their_tools_and_comes_back_to_the_thread"
)
async def test_a_page_shows_an_agents_file_also_when_it_comes_back(
    page: ChatPage, runtime: str
) -> None:
    thread = str(uuid4())
    await page.open(runtime, "background_activity", thread)
    await page.say("a report")
    await page.until(lambda shown: shown["files"], "the file is there")
    [[name, source]] = shown = page.shown["files"]
    content = b64decode(source.removeprefix("data:text/csv;base64,"))
    assert (name, content) == ("report.csv", b"part,ok\n1,yes\n2,yes\n3,yes\n4,yes\n")
    await page.until(lambda it: it["assistant"] == ["The report is ready."], "the run has ended")
    await page.open(runtime, "background_activity", thread)
    await page.until(lambda it: it["files"] == shown, "the file is there again")
    assert page.shown["errors"] == []


@in_soak(
    shown_by="e2e/test_signed_urls.py"
    "::test_a_page_of_another_site_shows_its_users_picture_and_nobody_elses"
)
@pytest.mark.usefixtures("extra_worker")
async def test_a_page_shows_a_large_picture_to_the_user_who_is_signed_in(
    page: ChatPage, fleet: Fleet, tmp_path: Path
) -> None:
    settings = {
        "HEADRACE_CORS_ORIGINS": page.origin,
        "HEADRACE_CREDENTIALS": str(write(tmp_path / "credentials.toml", ANN)),
    }
    gateway, url = extra_services.gateway(tmp_path / "gateway", fleet.nats_url, **settings)
    thread = str(uuid4())

    def is_drawn(shown: Json) -> bool:
        return [width for name, _, width in shown["images"] if name == "picture.png"] == [256]

    with gateway:
        await page.open(f"{url}/copilotkit", "filer", thread, token=ANN.token)
        await page.say("picture")
        await page.until(is_drawn, "the picture is drawn")
        [source] = [source for name, source, _ in page.shown["images"] if name == "picture.png"]
        assert source.startswith(f"{url}/v1/signed-files/")
        await page.open(f"{url}/copilotkit", "filer", thread, token=ANN.token, expired="yes")
        await page.until(is_drawn, "the picture is drawn again, by its second URL")
        assert page.shown["errors"] == []


@in_soak(shown_by="e2e/test_copilotkit.py::test_stopping_stops_the_task")
async def test_a_run_that_breaks_is_reported_and_whole_when_the_page_comes_back(
    page: ChatPage, fleet: Fleet, tmp_path: Path
) -> None:
    settings = {"HEADRACE_CORS_ORIGINS": page.origin}
    gateway, url = extra_services.gateway(tmp_path / "gateway", fleet.nats_url, **settings)
    whole = " ".join(map(str, range(1, 41)))
    thread = str(uuid4())
    with gateway:
        await page.open(f"{url}/copilotkit", "counter", thread)
        await page.say("40 10")
        await page.until(lambda shown: shown["assistant"], "it counts")
        await asyncio.to_thread(gateway.kill)
        await page.until(lambda shown: shown["errors"], "onError is called")
        assert page.shown["assistant"][0] != whole
        assert whole.startswith(page.shown["assistant"][0])
        assert not page.shown["running"]
        await asyncio.to_thread(gateway.start)
        await page.open(f"{url}/copilotkit", "counter", thread)
        await page.until(lambda shown: shown["assistant"] == [whole], "the answer is whole")


@in_soak(shown_by="e2e/test_copilotkit.py::test_stopping_stops_the_task")
async def test_a_user_stops_a_run_and_goes_on(
    page: ChatPage, runtime: str, http: httpx.AsyncClient
) -> None:
    thread = str(uuid4())
    await page.open(runtime, "counter", thread)
    await page.say("1000000 500")
    await page.until(lambda shown: shown["running"] and shown["assistant"], "it counts")
    page.stop()
    tasks = runtime.replace("/copilotkit", "/v1/agents/counter/tasks")

    async def is_canceled() -> bool:
        listed = (await http.get(tasks, params={"contextId": thread})).json()["tasks"]
        return [task["status"]["state"] for task in listed] == ["TASK_STATE_CANCELED"]

    await eventually(is_canceled, "the task is canceled")
    await page.say("3")
    # The first run may have been stopped at 3, too.
    await page.until(lambda shown: shown["assistant"][1:] == ["1 2 3"], "the next run's answer")
    assert page.shown["user"] == ["1000000 500", "3"]


@in_soak(shown_by="e2e/test_a2ui.py::test_a_page_draws_a_surface_and_what_is_done_on_it_changes_it")
async def test_a_page_draws_an_agents_form_and_sends_what_its_button_says(
    page: ChatPage, runtime: str
) -> None:
    thread = str(uuid4())
    await page.open(runtime, "surfaces", thread)
    await page.say("Ann")
    drawn = [[["A table for tonight", "Name", "Two guests", "Book"], ["Ann"]]]
    await page.until(lambda shown: shown["surfaces"] == drawn, "the form is drawn")
    page.click("Book")
    booked = [[["A table for tonight", "Name", "Two guests", "Booked"], ["Ann"]]]
    await page.until(lambda shown: shown["surfaces"] == booked, "the button has changed")
    answers = ["Who is coming?", "A table for Ann is booked."]
    await page.until(lambda shown: shown["assistant"] == answers, "the answer is there")
    assert page.shown["errors"] == []
    await page.open(runtime, "surfaces", thread)
    await page.until(lambda shown: shown["surfaces"] == booked, "the form is there again")
    assert page.shown["errors"] == []
