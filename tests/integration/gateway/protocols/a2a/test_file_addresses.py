"""Addresses of the fleet's own files, as clients send them back."""

import asyncio
from uuid import uuid4

import httpx
import pytest

from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import SCHEME, FileOwner, FileStore
from headrace.model.events import AGUI, Json
from headrace.model.task import TaskKey, mint_task_id
from tests.support.scripted_fleet import Run, ScriptedFleet
from tests.support.waiting import eventually


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
