"""fasta2a's client, which sends 0.3's methods and reads 1.0's shapes, gets its answers."""

from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import pytest_asyncio
from fasta2a.client import A2AClient
from fasta2a.schema import Message

from tests.support.plain_http import NO_TLS
from tests.support.scripted_fleet import ScriptedFleet


@pytest_asyncio.fixture(loop_scope="module")
async def client(gateway: str) -> AsyncIterator[A2AClient]:
    async with httpx.AsyncClient(verify=NO_TLS, timeout=60) as http:
        yield A2AClient(f"{gateway}/v1/agents/assistant", http)


def hello() -> Message:
    return Message(role="user", parts=[{"text": "hello"}], message_id=str(uuid4()))


async def test_it_reads_what_a_blocking_call_answers(
    client: A2AClient, fleet: ScriptedFleet
) -> None:
    response = await client.send_message(hello())
    task = response["result"]["task"]
    assert task["status"]["state"] == "completed"
    assert [part["text"] for one in task["artifacts"] for part in one["parts"]] != []
    assert [one["role"] for one in task["history"]] == ["user"]
    assert len(fleet.runs) == 1
    again = await client.get_task(task["id"])
    assert again["result"]["status"]["state"] == "completed"


async def test_it_reads_the_events_of_a_stream(client: A2AClient, fleet: ScriptedFleet) -> None:
    events = [event["result"] async for event in client.stream_message(hello())]
    kinds = [next(iter(event)) for event in events]
    assert kinds[0] == "task"
    assert {"artifact_update", "status_update"} <= set(kinds)
    assert events[-1]["status_update"]["status"]["state"] == "completed"
    assert len(fleet.runs) == 1
