"""Addresses of the fleet's own files, as clients send them back."""

import asyncio
import json
from base64 import b64encode
from typing import Any
from uuid import uuid4

import httpx
import pytest

from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileOwner, FileStore
from headrace.model.events import AGUI, Json
from headrace.model.file_links import SCHEME
from headrace.model.task import TaskKey, mint_task_id
from tests.support.agui.runs import run_input
from tests.support.event_stream import frames
from tests.support.scripted_fleet import Run, ScriptedFleet
from tests.support.waiting import eventually

LARGE = b64encode(bytes(200_000)).decode()
"""A file that is stored outside of the log."""

PROXIED = {
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "localhost",
    "X-Forwarded-Prefix": "/fleet",
}
USED = [
    ({}, ""),
    ({"Host": "localhost:1"}, "http://localhost:1"),
    (PROXIED, "https://localhost/fleet"),
]
"""What a request says of the URL that its client uses, and that URL; empty: the gateway's own."""


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    return {"trusted_proxies": ["127.0.0.1"]}


async def run_of(fleet: ScriptedFleet, http: httpx.AsyncClient, path: str, body: Json) -> Run:
    """Return what the fleet gets of a request, once that has been answered."""
    before = len(fleet.runs)
    answer = asyncio.ensure_future(http.post(f"/v1/agents/patient/{path}", json=body))

    async def is_there() -> bool:
        return len(fleet.runs) > before or answer.done()

    await eventually(is_there, "the fleet works on it")
    for work in fleet.runs[before:]:
        work.go_on.set()
    assert (await answer).is_success, (await answer).text
    return fleet.runs[-1]


@pytest.mark.parametrize("is_own", [True, False], ids=["one's own", "another context's"])
async def test_ones_own_file_is_given_to_the_agent_and_no_other(
    http: httpx.AsyncClient, bus: Bus, fleet: ScriptedFleet, gateway: str, *, is_own: bool
) -> None:
    context = str(uuid4())
    owner = FileOwner("anonymous", context if is_own else str(uuid4()))
    key = TaskKey("default", "patient", mint_task_id(0))
    link = await FileStore(bus).put(key, owner, b"\x89PNG", "a.png", "image/png")
    address = f"{gateway}/v1/agents/{link.removeprefix(SCHEME)}"
    expected = link if is_own else address
    part = {"url": address, "mediaType": "image/png"}
    message = {"messageId": "m", "role": "ROLE_USER", "contextId": context, "parts": [part]}
    work = await run_of(fleet, http, "message:send", {"message": message})
    assert work.message["parts"][0]["url"] == expected
    image = {"type": "image", "source": {"type": "url", "value": address, "mimeType": "image/png"}}
    run = {
        "threadId": context,
        "runId": "r",
        "messages": [
            {"id": "1", "role": "user", "content": [image]},
            {"id": "2", "role": "assistant", "content": "Nice."},
            {"id": "3", "role": "user", "content": [{"type": "text", "text": "x"}, image]},
        ],
        "state": {},
        "tools": [],
        "context": [],
        "forwardedProps": {},
    }
    work = await run_of(fleet, http, "ag-ui", run)
    assert work.message["parts"][1]["url"] == expected
    assert work.metadata[AGUI]["messages"][0]["content"][0]["source"]["value"] == expected


async def test_what_only_looks_like_an_address_stays(
    http: httpx.AsyncClient, fleet: ScriptedFleet, gateway: str
) -> None:
    odd = [
        f"{gateway}/v1/agents/patient/tasks/x/files/../y",
        f"{gateway}/v1/agents/patient/tasks/none/files/0123456789abcdef",
        f"{gateway}/v1/agents/",
    ]
    parts = [{"url": url} for url in odd]
    message = {"messageId": "m", "role": "ROLE_USER", "parts": parts}
    work = await run_of(fleet, http, "message:send", {"message": message})
    assert [part["url"] for part in work.message["parts"]] == odd


def assert_is_at(url: str, shown: object) -> None:
    """Check that all links in JSON are addresses, at `url`."""
    text = json.dumps(shown)
    assert SCHEME not in text
    assert f'"{url}/v1/agents/patient/tasks/' in text


async def first_of(http: httpx.AsyncClient, path: str, headers: dict[str, str], body: Json) -> Json:
    """Return the first event of a stream."""
    url = f"/v1/agents/patient/{path}"
    async with http.stream("POST", url, json=body, headers=headers) as response:
        async for frame in frames(response):
            return frame.json
    raise AssertionError("the stream is empty")


async def test_each_client_gets_addresses_at_the_url_that_it_uses(
    http: httpx.AsyncClient, fleet: ScriptedFleet, gateway: str
) -> None:
    parts = [{"raw": LARGE, "mediaType": "image/png"}]
    body = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": parts}}
    for headers, url in USED:
        begun = await first_of(http, "message:stream", headers, body)
        assert_is_at(url or gateway, begun)
        task = f"tasks/{begun['task']['id']}"
        for others, other in USED:
            assert_is_at(other or gateway, await first_of(http, f"{task}:subscribe", others, {}))
            read = await http.get(f"/v1/agents/patient/{task}", headers=others)
            assert_is_at(other or gateway, read.json())
    assert fleet.runs


async def test_a_thread_that_is_read_again_has_addresses(
    http: httpx.AsyncClient, fleet: ScriptedFleet, gateway: str
) -> None:
    source = {"type": "data", "value": LARGE, "mimeType": "image/png"}
    content = [{"type": "text", "text": "Look."}, {"type": "image", "source": source}]
    body = run_input(messages=[{"id": "1", "role": "user", "content": content}])
    work = await run_of(fleet, http, "ag-ui", body)
    assert work.message["parts"][1]["url"].startswith(SCHEME)
    for headers, url in USED:
        thread = f"/v1/agents/patient/ag-ui/threads/{body['threadId']}"
        assert_is_at(url or gateway, (await http.get(thread, headers=headers)).json())
        again = {"threadId": body["threadId"]}
        page = await http.post("/v1/agents/patient/ag-ui/attach", json=again, headers=headers)
        assert SCHEME not in page.text
