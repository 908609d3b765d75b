"""Vercel's AI SDK: its chats in Node, and the page of the documents in a browser."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.architecture.tree import ROOT
from tests.support import extra_services, javascript
from tests.support.document import blocks
from tests.support.doors.ai_sdk import FOLDER, Chat, client
from tests.support.doors.front import Front
from tests.support.driven_browser import Page
from tests.support.fleet import Fleet
from tests.support.waiting import eventually

type Json = dict[str, Any]

_GUIDE = ROOT / "docs" / "ai-sdk.md"
_WHOLE = "".join(f"{number} " for number in range(1, 41))


def tools(chat: Chat) -> list[Json]:
    """Return the calls in the last answer: their tools, states and outputs."""
    names = ("type", "state", "output", "errorText")
    calls = [one for one in chat.parts if one["type"].startswith("tool-")]
    return [{name: one[name] for name in names if name in one} for one in calls]


async def said(chat: Chat, text: str) -> None:
    chat.order("send", message={"text": text})
    await chat.rest()


async def kept(http: httpx.AsyncClient, chat: Chat, url: str) -> Any:  # noqa: ANN401 - any JSON
    """Return the chat's messages as the fleet has them."""
    return (await http.get(f"{url}/v1/agents/{chat.agent}/ai-sdk/{chat.name}/messages")).json()


async def again(chat: Chat, url: str) -> Chat:
    """Return another window of the chat, which has resumed it at another gateway."""
    window = client().open(url, chat.agent, chat="", id=chat.name)
    window.order("resume", url=url)
    await window.rest()
    return window


@pytest.mark.usefixtures("extra_worker")
async def test_a_page_executes_each_call_once_though_its_model_numbers_them_anew(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    here, there = fleet.gateways
    chat = client().open(here, "painter", tools={"paint": {"ok": True}})
    for turn, colour in enumerate(("red", "blue"), 1):
        await said(chat, colour)
        await chat.until('Painted: {"ok":true}.')
        await chat.rest()
        assert len(set(chat.shown["calls"])) == len(chat.shown["calls"]) == turn
        assert tools(chat) == [
            {"type": "tool-paint", "state": "output-available", "output": {"ok": True}}
        ]
    window = await again(chat, there)
    assert (window.parts, window.shown["calls"]) == (chat.parts, [])
    assert await kept(http, chat, there) == chat.shown["messages"]


@pytest.mark.usefixtures("extra_worker")
@pytest.mark.parametrize("approved", [True, False])
async def test_a_user_approves_or_refuses_a_call(
    fleet: Fleet,
    http: httpx.AsyncClient,
    approved: bool,  # noqa: FBT001 - the user's word
) -> None:
    here, there = fleet.gateways
    chat = client().open(here, "cashier")
    await said(chat, "3")
    [asked] = [one for one in chat.parts if one["type"] == "tool-pay"]
    assert (asked["state"], asked["approval"]["requestReason"]) == ("approval-requested", "Pay?")
    window = await again(chat, there)
    assert tools(window) == tools(chat)
    answer = {"id": asked["approval"]["id"], "approved": approved, "reason": "so"}
    window.order("approve", approval=answer)
    await window.until("aid.")
    await window.rest()
    assert window.text == ("Paid." if approved else "Not paid.")
    state = {"state": "output-available", "output": {"paid": True}}
    assert tools(window) == [
        {"type": "tool-pay", **(state if approved else {"state": "output-denied"})}
    ]
    late = client().open(here, "cashier", id=chat.name)
    late.order("resume", url=here)
    await late.rest()
    assert late.parts == window.parts
    user, answer = await kept(http, chat, there)
    assert ([user], answer["parts"]) == (chat.shown["messages"][:1], late.parts)


@pytest.mark.usefixtures("extra_worker")
async def test_a_call_is_decided_once_though_two_windows_decide_at_once(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    async def decided(gateway: str, chat: Chat, approved: bool) -> httpx.Response:  # noqa: FBT001 - the user's word
        [asked] = [one for one in chat.parts if one["type"] == "tool-pay"]
        approval = {"id": asked["approval"]["id"], "approved": approved}
        part = {**asked, "state": "approval-responded", "approval": approval}
        messages = [{"role": "assistant", "parts": [part]}]
        url = f"{gateway}/v1/agents/cashier/ai-sdk"
        return await http.post(url, json={"id": chat.name, "messages": messages})

    here, there = fleet.gateways
    for _ in range(8):
        chat = client().open(here, "cashier")
        await said(chat, "3")
        both = await asyncio.gather(decided(here, chat, True), decided(there, chat, False))  # noqa: FBT003 - as above
        assert sorted(one.status_code for one in both) == [200, 409]
        assert len(await kept(http, chat, here)) == 2


@pytest.mark.usefixtures("extra_worker")
async def test_a_page_that_is_opened_anew_has_every_kind_of_part(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    here, there = fleet.gateways
    chat = client().open(here, "everything")
    for text in ("all", "ask", "Ann"):
        await said(chat, text)
    assert len(chat.shown["messages"]) == 6
    assert await kept(http, chat, there) == chat.shown["messages"]


async def test_two_windows_of_a_chat_send_at_once_and_each_gets_its_answer(fleet: Fleet) -> None:
    here, there = fleet.gateways
    one = client().open(here, "counter")
    other = client().open(there, "counter", id=one.name)
    one.order("send", message={"text": "40 50"})
    await one.until("1 ")
    other.order("send", message={"text": "3"})
    await other.rest()
    await one.rest()
    assert (one.text, other.text) == (_WHOLE, "1 2 3 ")
    assert one.task != other.task


async def test_a_killed_workers_text_is_taken_back_and_said_once(fleet: Fleet) -> None:
    chat = client().open(fleet.gateways[0], "counter")
    chat.order("send", message={"text": "40 50"})
    await chat.until("5 ")
    for number in range(2):
        fleet.restart("worker", number)
    await chat.rest()
    assert chat.text == _WHOLE


async def test_a_chat_is_remembered_by_the_fleet_and_not_by_its_client(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    url, chat = f"{fleet.gateways[0]}/v1/agents/echo/ai-sdk", uuid4().hex
    invented = {"id": "x", "role": "assistant", "parts": [{"type": "text", "text": "invented"}]}
    user = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "hello"}]}
    body = {"id": chat, "messages": [invented, user], "trigger": "submit-message"}
    first = await http.post(url, json=body)
    repeated = await http.post(f"{fleet.gateways[1]}/v1/agents/echo/ai-sdk", json=body)
    assert (repeated.text, repeated.headers["headrace-task"]) == (
        first.text,
        first.headers["headrace-task"],
    )
    assert first.headers["x-vercel-ai-ui-message-stream"] == "v1"
    more = await http.post(url, json=body | {"trigger": "regenerate-message"})
    assert more.headers["headrace-task"] != first.headers["headrace-task"]
    tasks = await http.get(f"{fleet.gateways[0]}/v1/agents/echo/tasks?contextId={chat}")
    assert len(tasks.json()["tasks"]) == 2
    assert "invented" not in tasks.text


async def test_an_abort_closes_the_window_and_leaves_the_agent_at_work(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    here, there = fleet.gateways
    chat = client().open(here, "counter")
    chat.order("send", message={"text": "1000 50"})
    await chat.until("2 ")
    chat.order("halt")
    await chat.rest()
    window = client().open(there, "counter", id=chat.name)
    window.order("resume", url=there)
    await window.until(f"{chat.text}")
    window.order("stop", url=here)
    await window.rest()
    assert {"stopped": [window.task]} in window.shown["finished"]
    assert {"finishReason": "interrupted", "isDisconnect": False} in window.shown["finished"]
    task = await http.get(f"{here}/v1/agents/counter/tasks/{window.task}")
    assert task.json()["status"]["state"] == "TASK_STATE_CANCELED"


def bundle(folder: Path) -> str:
    """Return the page of the documents as one script, which shows the chat `chat`."""
    javascript.install(FOLDER)
    [component] = blocks(_GUIDE, "jsx")
    (folder / component.title).write_text(component.code)
    mount = 'import { createRoot } from "react-dom/client";import { App } from "./chat.jsx";'
    main = folder / "main.jsx"
    main.write_text(f"{mount}createRoot(document.body).render(<App {{...window.headraceChat}} />);")
    options = ["--jsx=automatic", '--define:process.env.NODE_ENV="production"', "--log-level=error"]
    made = subprocess.run(
        [str(FOLDER / "node_modules/.bin/esbuild"), str(main), "--bundle", *options],
        env={**os.environ, "NODE_PATH": str(FOLDER / "node_modules")},
        capture_output=True,
        check=False,
        text=True,
        timeout=180,
    )
    assert made.returncode == 0, made.stderr
    return made.stdout


@pytest.fixture
async def front(fleet: Fleet, tmp_path: Path) -> AsyncIterator[tuple[Front, Any]]:
    """A front of a gateway of its own, to be killed, and of one of the fleet's."""
    gateway, url = extra_services.gateway(tmp_path / "gateway", fleet.nats_url)
    ports = [int(one.rpartition(":")[2]) for one in (url, fleet.gateways[1])]
    with gateway:
        async with Front(ports) as front:
            yield front, gateway


async def test_the_documents_page_goes_on_after_its_gateway_is_killed_and_stops(
    front: tuple[Front, Any], page: Page, tmp_path: Path, http: httpx.AsyncClient
) -> None:
    proxy, gateway = front
    api = f"{proxy.url}/v1/agents/counter/ai-sdk"
    await page.open(f"{proxy.url}/v1/agents")
    chat = json.dumps({"api": api, "id": uuid4().hex})
    await page.evaluate(f"window.headraceChat = {chat}; 0")
    await page.evaluate(f"{bundle(tmp_path)}; 0")
    await page.type("input", "40 100")
    await page.press("Enter", 13, "\r")
    await page.until("document.body.innerText.includes('5 6 ')", "the answer begins")
    gateway.kill()
    await page.until(f"document.body.innerText.includes({json.dumps(_WHOLE.strip())})", "is whole")
    await page.type("input", "1000 100")
    await page.press("Enter", 13, "\r")
    await page.until("document.querySelectorAll('p').length === 4", "the next answer begins")
    await page.click("button")
    await page.until("document.querySelector('button') === null", "it is stopped")
    tasks = f"{proxy.url}/v1/agents/counter/tasks?contextId={json.loads(chat)['id']}"

    async def states() -> list[str]:
        found = [one["status"]["state"] for one in (await http.get(tasks)).json()["tasks"]]
        return found if "TASK_STATE_CANCELED" in found else []

    found = await eventually(states, "the log confirms it")
    assert sorted(found) == ["TASK_STATE_CANCELED", "TASK_STATE_COMPLETED"]
