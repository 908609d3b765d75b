"""Start AG-UI runs and read their streams byte by byte."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx

from headrace.model.events import Json
from tests.support.event_stream import Frame, all_frames
from tests.support.scripted_fleet import Run, ScriptedFleet
from tests.support.waiting import eventually

CURSOR = re.compile(r"([0-9a-z]{4,16}):([1-9][0-9]*)\.(0|[1-9][0-9]*)")
"""Log id, generation and frame."""


def run_input(text: str = "hello", **more: Any) -> Json:  # noqa: ANN401
    """Return a RunAgentInput of a thread of its own."""
    message = {"id": str(uuid4()), "role": "user", "content": text}
    return {
        "threadId": str(uuid4()),
        "runId": str(uuid4()),
        "protocolVersion": "1.0",
        "state": {},
        "messages": [message],
        "tools": [],
        "context": [],
        "forwardedProps": {},
        **more,
    }


def path(agent: str) -> str:
    """Return where an agent's runs start."""
    return f"/v1/agents/{agent}/ag-ui"


@asynccontextmanager
async def running(http: httpx.AsyncClient, agent: str, body: Json) -> AsyncIterator[httpx.Response]:
    """Start a run and yield its stream, unread."""
    headers = {"accept": "text/event-stream"}
    async with http.stream("POST", path(agent), json=body, headers=headers) as response:
        yield response


async def run(http: httpx.AsyncClient, agent: str, body: Json) -> list[Frame]:
    """Return all frames of a run."""
    async with running(http, agent, body) as response:
        return await all_frames(response)


async def run_of(fleet: ScriptedFleet) -> Run:
    """Return the run that the fleet works on, once there is one."""

    async def there_is_one() -> bool:
        return bool(fleet.runs)

    await eventually(there_is_one, "the fleet works on a run")
    return fleet.runs[-1]
