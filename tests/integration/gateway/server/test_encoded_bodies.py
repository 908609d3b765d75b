"""Bodies are taken as they are: a compressed one is refused in each protocol's own shape."""

import asyncio
import gzip
from urllib.parse import urlsplit

import httpx
import orjson
import pytest

from tests.support.plain_a2a import message
from tests.support.scripted_fleet import ScriptedFleet

AGENT = "/v1/agents/assistant"
A2A = {"message": message("hello")}
RPC = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": A2A}
RUN = {
    "threadId": "t",
    "runId": "r",
    "messages": [{"id": "m", "role": "user", "content": "hello"}],
    "state": {},
    "tools": [],
    "context": [],
    "forwardedProps": {},
}


@pytest.mark.parametrize("encoding", ["gzip", "br", "gzip, identity"])
@pytest.mark.parametrize(
    ("path", "content"),
    [(AGENT, RPC), (f"{AGENT}/message:send", A2A), (f"{AGENT}/ag-ui", RUN)],
    ids=["JSON-RPC", "REST", "AG-UI"],
)
async def test_a_compressed_body_is_refused_with_what_is_accepted(
    http: httpx.AsyncClient, fleet: ScriptedFleet, path: str, content: object, encoding: str
) -> None:
    headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
    headers["A2A-Version"] = "1.0"
    answer = await http.post(path, content=gzip.compress(orjson.dumps(content)), headers=headers)
    assert answer.status_code == 415
    assert answer.headers["accept-encoding"] == "identity"
    expected = f"content-encoding: bodies are accepted uncompressed (identity), not {encoding!r}"
    assert answer.json()["error"]["message"] == expected
    assert fleet.runs == []


async def test_a_body_that_states_that_it_is_not_compressed_is_accepted(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    headers = {"Content-Encoding": "identity", "A2A-Version": "1.0"}
    answer = await http.post(f"{AGENT}/message:send", json=A2A, headers=headers)
    assert answer.is_success
    assert len(fleet.runs) == 1


@pytest.mark.parametrize("coding", ["gzip, chunked", "gzip", "chunked, gzip"])
async def test_a_transfer_coding_other_than_chunks_is_refused(gateway: str, coding: str) -> None:
    place = urlsplit(gateway)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    head = f"POST {AGENT}/message:send HTTP/1.1\r\nHost: localhost\r\n"
    writer.write(f"{head}Transfer-Encoding: {coding}\r\n\r\n0\r\n\r\n".encode())
    async with asyncio.timeout(60):
        answer = (await reader.read()).decode()
    writer.close()
    assert answer.partition(" ")[2][:3] in ("501", "400")
