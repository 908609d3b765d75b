"""What others rely on in a stream, byte by byte (docs/design/gateways.md)."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import httpx
import pytest

from tests.support.event_stream import A2A_ID, Frame, all_frames, frames
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent, message
from tests.support.stored_log import lines_of

type Opened = AbstractAsyncContextManager[httpx.Response]
type Open = Callable[[PlainAgent, str], Opened]


def over_rest(agent: PlainAgent, text: str) -> Opened:
    return agent.stream(text)


def over_json_rpc(agent: PlainAgent, text: str) -> Opened:
    return agent.rpc_stream("SendStreamingMessage", message=message(text))


BOTH = pytest.mark.parametrize("opened", [over_rest, over_json_rpc], ids=["rest", "json-rpc"])


def counter(fleet: Fleet, http: httpx.AsyncClient, gateway: int = 0) -> PlainAgent:
    return PlainAgent(http, fleet.gateways[gateway], "counter")


async def finished(agent: PlainAgent, text: str = "5") -> list[Frame]:
    async with agent.stream(text) as response:
        return await all_frames(response)


def task_of(streamed: list[Frame]) -> str:
    return str(streamed[0].event["task"]["id"])


def generation_in(frame: Frame) -> int:
    [body] = frame.event.values()
    return int(body["metadata"]["headrace.generation"])


@BOTH
async def test_every_frame_is_an_id_and_data_and_nothing_else(
    fleet: Fleet, http: httpx.AsyncClient, opened: Open
) -> None:
    async with opened(counter(fleet, http), "5") as response:
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-accel-buffering"] == "no"
        streamed = await all_frames(response)
    assert {tuple(name for name, _ in frame.fields) for frame in streamed} == {("id", "data")}
    assert [frame.id for frame in streamed if not A2A_ID.fullmatch(frame.id)] == []
    assert len({frame.log for frame in streamed}) == 1


@BOTH
async def test_generations_count_from_1_without_holes(
    fleet: Fleet, http: httpx.AsyncClient, opened: Open
) -> None:
    async with opened(counter(fleet, http), "5") as response:
        streamed = await all_frames(response)
    assert streamed[0].event["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert [frame.generation for frame in streamed] == list(range(1, len(streamed) + 1))
    assert [generation_in(frame) for frame in streamed] == [f.generation for f in streamed]


@BOTH
async def test_the_body_ends_with_the_task(
    fleet: Fleet, http: httpx.AsyncClient, opened: Open
) -> None:
    async with opened(counter(fleet, http), "2") as response:
        streamed = await all_frames(response)
    assert [frame.state for frame in streamed if frame.state] == [
        "SUBMITTED",
        "WORKING",
        "COMPLETED",
    ]
    assert streamed[-1].state == "COMPLETED"


async def test_json_rpc_frames_answer_the_call(fleet: Fleet, http: httpx.AsyncClient) -> None:
    async with over_json_rpc(counter(fleet, http), "2") as response:
        streamed = await all_frames(response)
    assert {(f.json["jsonrpc"], f.json["id"]) for f in streamed} == {("2.0", "call-1")}


async def test_rest_frames_are_the_lines_of_the_log(fleet: Fleet, http: httpx.AsyncClient) -> None:
    streamed = await finished(counter(fleet, http))
    lines = await lines_of(fleet.nats_url, "counter", task_of(streamed))
    assert [frame.raw.partition(b"data: ")[2] for frame in streamed] == lines


async def test_every_gateway_streams_the_same_bytes(fleet: Fleet, http: httpx.AsyncClient) -> None:
    streamed = await finished(counter(fleet, http))
    for gateway in range(2):
        there = counter(fleet, http, gateway)
        async with there.subscribe(task_of(streamed), streamed[0].id) as response:
            assert [f.raw for f in await all_frames(response)] == [f.raw for f in streamed[1:]]


@pytest.mark.usefixtures("extra_worker")
async def test_subscribing_without_a_cursor_begins_with_the_task(
    fleet: Fleet, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    here, there = (PlainAgent(http, url, "gated") for url in fleet.gateways)
    begun = await here.send(f"{gate}", returnImmediately=True)
    async with there.subscribe(begun.json()["task"]["id"]) as response:
        stream = frames(response)
        streamed = [await anext(stream)]
        gate.touch()
        streamed += [frame async for frame in stream]
    assert "task" in streamed[0].event
    assert generation_in(streamed[0]) == streamed[0].generation
    first = streamed[0].generation
    assert [f.generation for f in streamed] == list(range(first, first + len(streamed)))
    assert streamed[-1].state == "COMPLETED"


async def test_subscribing_without_a_cursor_to_a_finished_task_is_refused(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    agent = counter(fleet, http)
    async with agent.subscribe(task_of(await finished(agent))) as response:
        await response.aread()
    assert response.status_code == 400
    assert response.json()["error"]["details"][0]["reason"] == "UNSUPPORTED_OPERATION"


@pytest.mark.parametrize(("method", "status"), [("GET", 204), ("POST", 200)])
async def test_a_cursor_at_the_end_of_a_finished_task_has_nothing_left(
    fleet: Fleet, http: httpx.AsyncClient, method: str, status: int
) -> None:
    streamed = await finished(counter(fleet, http))
    other = counter(fleet, http, 1)
    async with other.subscribe(task_of(streamed), streamed[-1].id, method=method) as response:
        assert response.status_code == status
        assert await response.aread() == b""


async def test_json_rpc_resumes_from_a_cursor_too(fleet: Fleet, http: httpx.AsyncClient) -> None:
    streamed = await finished(counter(fleet, http))
    other, task = counter(fleet, http, 1), task_of(streamed)
    async with other.rpc_stream("SubscribeToTask", streamed[2].id, id=task) as response:
        assert [f.event for f in await all_frames(response)] == [f.event for f in streamed[3:]]
    async with other.rpc_stream("SubscribeToTask", streamed[-1].id, id=task) as response:
        assert await all_frames(response) == []


@pytest.mark.parametrize("cursor", ["zzzzzzzz:3", "{log}:999999", "no cursor at all"])
async def test_a_lost_past_is_reported_and_replaced_by_the_task(
    fleet: Fleet, http: httpx.AsyncClient, cursor: str
) -> None:
    streamed = await finished(counter(fleet, http), "2")
    lost = cursor.format(log=streamed[0].log)
    async with counter(fleet, http, 1).subscribe(task_of(streamed), lost) as response:
        assert response.headers["headrace-recovered"] == "false"
        [only] = await all_frames(response)
    assert only.event["task"]["metadata"]["headrace.recovered"] is False
    assert only.event["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert only.generation == streamed[-1].generation
