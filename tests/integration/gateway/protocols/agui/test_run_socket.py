"""Runs over a WebSocket."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from headrace.model.events import Json
from headrace_gateway.settings import GatewaySettings
from tests.support.agui.client_rules import Client
from tests.support.agui.runs import CURSOR, path, run_input, run_of
from tests.support.clients.websocket import connect
from tests.support.event_stream import all_frames
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports

_LAST = {"RUN_FINISHED", "RUN_ERROR"}


def address(gateway: str, agent: str) -> str:
    return f"ws{gateway.removeprefix('http')}{path(agent)}/ws"


@pytest_asyncio.fixture(loop_scope="module")
async def socket(gateway: str) -> AsyncIterator[ClientConnection]:
    """A socket to the agent that waits for the test."""
    async with connect(address(gateway, "patient")) as socket:
        yield socket


async def event(socket: ClientConnection) -> Json:
    """Return the next event."""
    received: Json = json.loads(await asyncio.wait_for(socket.recv(), 60))
    return received


async def events(socket: ClientConnection) -> list[Json]:
    """Return the events up to the one that ends a run."""
    received = [await event(socket)]
    while received[-1]["type"] not in _LAST:
        received.append(await event(socket))
    return received


async def test_one_socket_serves_one_run_after_the_other(
    socket: ClientConnection, fleet: ScriptedFleet
) -> None:
    bodies = [run_input("one"), run_input("two")]
    for body in bodies:
        await socket.send(json.dumps(body))
    assert len(bodies) == 2
    for number, body in enumerate(bodies):
        received = [await event(socket)]
        while received[-1].get("delta") != "a":
            received.append(await event(socket))
        fleet.runs[number].go_on.set()
        received += await events(socket)
        client = Client(body["messages"], body["state"]).take_all(received)
        assert received[0]["runId"] == received[-1]["runId"] == body["runId"]
        assert client.messages[-1]["content"] == "ab"


async def test_a_frame_may_have_a_trace_context_of_its_own(
    gateway: str, fleet: ScriptedFleet
) -> None:
    opened, own, again = (f"00-{'a' * 32}-{digit * 16}-01" for digit in "bcd")
    body = run_input("ask") | {"traceparent": own}
    bodies = [run_input("ask"), body, run_input("ask") | {"traceparent": "nonsense"}]
    async with connect(
        address(gateway, "ending"), additional_headers={"traceparent": opened}
    ) as socket:
        for one in bodies:
            await socket.send(json.dumps(one))
            assert (await events(socket))[-1]["type"] == "RUN_FINISHED"
        # The same run, whose stream another trace asks for: the run and its trace stay.
        await socket.send(json.dumps(body | {"traceparent": again}))
        assert (await events(socket))[-1]["runId"] == body["runId"]
        for wrong in (run_input() | {"traceparent": 7}, {"attach": {}, "traceparent": 7}):
            await socket.send(json.dumps(wrong))
            [refusal] = await events(socket)
            assert refusal["message"] == "traceparent: must be a string"
    traces = [run.metadata.get("headrace.traceparent") for run in fleet.runs]
    assert traces == [opened, own, None]


async def test_what_is_no_input_is_a_run_that_failed_and_the_socket_goes_on(
    socket: ClientConnection, fleet: ScriptedFleet
) -> None:
    for wrong in ("{", "[]", json.dumps(run_input(messages=[{"id": "m", "role": "user"}]))):
        await socket.send(wrong)
        [received] = await events(socket)
        assert (received["type"], received["code"]) == ("RUN_ERROR", "invalid_input")
    await socket.send(json.dumps(run_input()))
    assert (await event(socket))["type"] == "RUN_STARTED"
    (await run_of(fleet)).go_on.set()
    assert (await events(socket))[-1]["type"] == "RUN_FINISHED"


async def test_a_run_is_come_back_to_on_another_socket(
    gateway: str, socket: ClientConnection, fleet: ScriptedFleet
) -> None:
    body = run_input("hi")
    await socket.send(json.dumps(body))
    while (await event(socket)).get("delta") != "a":
        pass
    await socket.close()
    async with connect(address(gateway, "patient")) as again:
        attach = {"threadId": body["threadId"], "runId": body["runId"]}
        await again.send(json.dumps({"attach": attach}))
        received = [await event(again)]
        while received[-1]["type"] != "TEXT_MESSAGE_START":
            received.append(await event(again))
        (await run_of(fleet)).go_on.set()
        client = Client().take_all([*received, *(await events(again))])
    assert [message["content"] for message in client.messages] == ["hi", "ab"]


async def test_who_wants_cursors_goes_on_behind_its_last_one(
    gateway: str, fleet: ScriptedFleet
) -> None:
    body, where = run_input("hi"), f"{address(gateway, 'patient')}?cursors=true"
    seen = list[Json]()
    async with connect(where) as left:
        await left.send(json.dumps(body))
        while not seen or seen[-1]["event"].get("delta") != "a":
            seen.append(await event(left))
    assert all(CURSOR.fullmatch(received["cursor"]) for received in seen)
    named = {"threadId": body["threadId"], "runId": body["runId"], "after": seen[-1]["cursor"]}
    rest = list[Json]()
    async with connect(where) as again:
        await again.send(json.dumps({"attach": named}))
        (await run_of(fleet)).go_on.set()
        while not rest or rest[-1]["event"]["type"] not in _LAST:
            rest.append(await event(again))
    first = Client(body["messages"], body["state"]).take_all(
        [received["event"] for received in seen]
    )
    client = Client(first.messages, first.state).take_all([received["event"] for received in rest])
    assert [message["content"] for message in client.messages] == ["hi", "ab"]
    assert not any("recovered" in received for received in rest)
    # They are those of the server-sent events.
    async with httpx.AsyncClient(base_url=gateway, timeout=60, verify=NO_TLS) as http:
        headers = {"Last-Event-ID": seen[0]["cursor"]}
        async with http.stream("POST", path("patient"), json=body, headers=headers) as response:
            ids = [frame.id for frame in await all_frames(response)]
    assert ids[-1] == rest[-1]["cursor"]
    assert set(ids) >= {received["cursor"] for received in seen}


@pytest.mark.parametrize("lost", ["zzzzzzzz:2.0", "none of ours"])
async def test_a_lost_past_is_reported_to_clients_with_cursors(
    gateway: str, fleet: ScriptedFleet, lost: str
) -> None:
    body, where = run_input("hi"), f"{address(gateway, 'patient')}?cursors=1"
    async with connect(where) as socket:
        await socket.send(json.dumps(body))
        assert (await event(socket))["event"]["type"] == "RUN_STARTED"
        (await run_of(fleet)).go_on.set()
    named = {"threadId": body["threadId"], "runId": body["runId"], "after": lost}
    received = list[Json]()
    async with connect(where) as again:
        await again.send(json.dumps({"attach": named}))
        while not received or received[-1]["event"]["type"] not in _LAST:
            received.append(await event(again))
    assert received[0]["recovered"] is False
    assert not any("recovered" in one for one in received[1:])
    client = Client().take_all([one["event"] for one in received])
    assert [message["content"] for message in client.messages] == ["hi", "ab"]


async def test_what_is_refused_has_no_cursor(gateway: str) -> None:
    async with connect(f"{address(gateway, 'patient')}?cursors") as socket:
        await socket.send("{")
        received = await event(socket)
    assert list(received) == ["event"]
    assert received["event"]["code"] == "invalid_input"


async def test_who_wants_cursors_neither_way_is_refused(gateway: str) -> None:
    async with connect(f"{address(gateway, 'patient')}?cursors=perhaps") as socket:
        with pytest.raises(ConnectionClosed):
            await event(socket)
        assert socket.close_code == 1008
        assert "cursors" in str(socket.close_reason)


async def test_bytes_are_refused(socket: ClientConnection) -> None:
    await socket.send(b"\0")
    with pytest.raises(ConnectionClosed):
        await event(socket)
    assert socket.close_code == 1003


async def test_an_unknown_agent_is_reported_in_the_close(gateway: str) -> None:
    async with connect(address(gateway, "nobody")) as socket:
        with pytest.raises(ConnectionClosed):
            await event(socket)
        assert socket.close_code == 1008
        assert "nobody" in str(socket.close_reason)


async def test_a_gateway_that_stops_ends_the_stream_with_its_reason(
    settings: GatewaySettings, fleet: ScriptedFleet
) -> None:
    settings = settings.model_copy(update={"http_port": ports.pick(), "grpc_port": 0})
    body, received = run_input(), list[Json]()
    async with running(settings) as url:
        socket = await connect(address(url, "patient"))
        await socket.send(json.dumps(body))
        while not received or received[-1].get("delta") != "a":
            received.append(await event(socket))
        ending = asyncio.create_task(events(socket))
    received += await ending
    await socket.wait_closed()
    assert Client(body["messages"], body["state"]).take_all(received).ended
    assert (received[-1]["code"], socket.close_code) == ("disconnected", 1012)
    (await run_of(fleet)).go_on.set()
