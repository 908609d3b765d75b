"""Streams and lists that are read with timeouts, and after errors."""

import asyncio
import threading
from typing import Any

import httpx
import pytest

from headrace.client import Client, ConnectionLost, RequestRefused
from headrace.model.events import Json
from tests.support.fake_gateway import ScriptedResponse, answering

AT_ONCE: Any = {"attempts": 2, "backoff": 0.0}
STREAM = "/v1/agents/a/message:stream"
REST = "/v1/agents/a/tasks/t1:subscribe"
NOW = "/v1/agents/a/tasks/t1?historyLength=0"


def status(state: str) -> Json:
    metadata = {"headrace.generation": 2}
    body = {"taskId": "t1", "contextId": "c1", "status": {"state": f"TASK_STATE_{state}"}}
    return {"statusUpdate": {**body, "metadata": metadata}}


def frames(*events: tuple[str, Json], hold: threading.Event | None = None) -> ScriptedResponse:
    return ScriptedResponse(frames=events, hold=hold)


async def test_a_read_that_timed_out_is_continued_by_the_next_one() -> None:
    hold = threading.Event()
    script = {
        STREAM: frames(("l:1", status("WORKING")), hold=hold),
        REST: frames(("l:2", status("COMPLETED"))),
    }
    with answering(**script) as gateway:
        async with Client(gateway.url) as client, client.stream("a", "hi") as stream:
            cursors = [(await anext(stream)).cursor]
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await anext(stream)
            cursors += [event.cursor async for event in stream]
        hold.set()
    assert (cursors, stream.state) == (["l:1", "l:2"], "completed")
    assert [question.cursor for question in gateway.asked] == [None, "l:1"]


async def test_a_message_whose_first_read_timed_out_is_sent_again_under_its_key() -> None:
    hold = threading.Event()
    script = {STREAM: [frames(hold=hold), frames(("l:1", status("COMPLETED")))]}
    with answering(**script) as gateway:
        async with Client(gateway.url) as client:
            stream = client.stream("a", "hi")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await anext(stream)
            assert [event.cursor async for event in stream] == ["l:1"]
        hold.set()
    keys = {question.headers["Idempotency-Key"] for question in gateway.asked}
    assert (len(gateway.asked), len(keys)) == (2, 1)


async def test_a_run_whose_read_timed_out_has_no_event_twice() -> None:
    hold = threading.Event()
    started, opened = {"type": "RUN_STARTED"}, {"type": "TEXT_MESSAGE_START", "messageId": "m"}
    said = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "x"}
    finished = {"type": "RUN_FINISHED"}
    begun = frames(("l:1.0", started), ("l:2.0", opened), ("l:2.1", said), hold=hold)
    rest = frames(("l:2.1", started), ("l:2.1", opened), ("l:3.0", said), ("l:4.0", finished))
    with answering(**{"/v1/agents/a/ag-ui": [begun, rest]}) as gateway:
        async with Client(gateway.url) as client:
            run = client.run("a", "hi", thread="t", run="r")
            seen = [(await anext(run)).json for _ in range(3)]
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await anext(run)
            seen += [event.json async for event in run]
        hold.set()
    assert seen == [started, opened, said, said, finished]


async def test_a_question_that_was_read_ends_the_stream_although_the_read_after_it_timed_out() -> (
    None
):
    hold = threading.Event()
    waiting = {"id": "t1", "status": {}, "metadata": {"headrace.generation": 2}}
    script = {
        STREAM: frames(("l:2", status("INPUT_REQUIRED")), hold=hold),
        NOW: ScriptedResponse(body=waiting),
    }
    with answering(**script) as gateway:
        async with Client(gateway.url) as client:
            stream = client.stream("a", "hi")
            assert (await anext(stream)).state == "input-required"
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await anext(stream)
            assert [event async for event in stream] == []
        hold.set()


async def test_a_stream_that_lost_its_connection_goes_on_when_it_is_read_again() -> None:
    away = ScriptedResponse(503, {"error": {"message": "restarting"}})
    script = {
        STREAM: [frames(("l:1", status("WORKING")))],
        REST: [away, frames(("l:2", status("COMPLETED")))],
    }
    with answering(**script) as gateway:
        async with Client(gateway.url, **AT_ONCE) as client:
            stream = client.stream("a", "hi")
            assert (await anext(stream)).cursor == "l:1"
            with pytest.raises(RequestRefused, match="restarting"):
                await anext(stream)
            assert [event.cursor async for event in stream] == ["l:2"]


async def test_a_stream_stays_at_its_end_and_a_closed_one_is_at_its_end() -> None:
    script = {STREAM: frames(("l:1", status("WORKING")), ("l:2", status("COMPLETED")))}
    with answering(**script) as gateway:
        async with Client(gateway.url) as client:
            stream = client.stream("a", "hi")
            assert [event.cursor async for event in stream] == ["l:1", "l:2"]
            assert [event async for event in stream] == []
            closed = client.stream("a", "hi")
            await anext(closed)
            await closed.aclose()
            assert [event async for event in closed] == []
    assert len(gateway.asked) == 2


async def test_a_list_is_read_on_after_a_read_that_timed_out_or_failed() -> None:
    answers = iter(["wait", "refuse", "answer"])
    first = {"triggers": [{"name": "one"}], "next": "one"}

    async def answer(request: httpx.Request) -> httpx.Response:
        if "after" not in request.url.params:
            return httpx.Response(200, json=first)
        kind = next(answers)
        if kind == "wait":
            await asyncio.Event().wait()
        if kind == "refuse":
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json={"triggers": [{"name": "two"}], "next": None})

    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    triggers = Client("http://here", attempts=1, http=http).triggers.list()
    assert (await anext(triggers))["name"] == "one"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await anext(triggers)
    with pytest.raises(ConnectionLost):
        await anext(triggers)
    assert [one["name"] async for one in triggers] == ["two"]
    assert [one async for one in triggers] == []
