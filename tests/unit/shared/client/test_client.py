"""What the client asks of gateways, and what it does when they do not answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace import File
from headrace.client import (
    AgentInfo,
    Client,
    ConnectionLost,
    RequestRefused,
    StreamEvent,
)
from headrace.model.events import Json
from tests.support.fake_gateway import FakeGateway, ScriptedResponse, answering

AT_ONCE: Any = {"attempts": 4, "backoff": 0.0}
STOPPING = b": the gateway stops\nretry: 500\n\n"
AWAY = ScriptedResponse(503, {"error": {"message": "restarting"}})


@asynccontextmanager
async def client_of(*gateways: FakeGateway) -> AsyncIterator[Client]:
    async with Client(*(gateway.url for gateway in gateways), **AT_ONCE) as client:
        yield client


def task(state: str, *texts: str, generation: int = 1) -> Json:
    artifacts = [{"artifactId": f"a{i}", "parts": [{"text": t}]} for i, t in enumerate(texts)]
    body = {"id": "t1", "contextId": "c1", "status": {"state": f"TASK_STATE_{state}"}}
    return {**body, "artifacts": artifacts, "metadata": {"headrace.generation": generation}}


def status(state: str, generation: int = 0) -> Json:
    metadata = {"headrace.generation": generation}
    body = {"taskId": "t1", "contextId": "c1", "status": {"state": f"TASK_STATE_{state}"}}
    return {"statusUpdate": {**body, "metadata": metadata}}


def chunk(text: str) -> Json:
    artifact = {"artifactId": "a0", "parts": [{"text": text}]}
    return {"artifactUpdate": {"taskId": "t1", "artifact": artifact, "append": True}}


def stream(*events: Json, first: int = 1, farewell: bytes = b"") -> ScriptedResponse:
    frames = tuple((f"log1:{first + i}", event) for i, event in enumerate(events))
    return ScriptedResponse(frames=frames, farewell=farewell)


async def read(events: AsyncIterator[StreamEvent]) -> list[str]:
    return [event.cursor async for event in events]


async def test_a_broken_stream_is_resumed_at_the_other_gateway() -> None:
    begun = stream({"task": task("SUBMITTED")}, chunk("one "))
    rest = stream(chunk("two"), status("COMPLETED"), first=3)
    with (
        answering(**{"/v1/agents/a/message:stream": begun}) as here,
        answering(**{"/v1/agents/a/tasks/t1:subscribe": rest}) as there,
    ):
        async with client_of(here, there) as client:
            following = client.stream("a", "hi")
            events = [(event.cursor, event.text) async for event in following]
    assert events == [("log1:1", ""), ("log1:2", "one "), ("log1:3", "two"), ("log1:4", "")]
    assert (following.task, following.context, following.state) == ("t1", "c1", "completed")
    assert following.cursor == "log1:4"
    assert [question.cursor for question in there.asked] == ["log1:2"]


async def test_the_cursor_is_that_of_the_last_event_that_was_read() -> None:
    script = {"/message:stream": stream({"task": task("WORKING")}, chunk("x"), chunk("y"))}
    with answering(**script) as gateway:
        async with client_of(gateway) as client, client.stream(None, "hi") as following:
            await anext(following)
            assert following.cursor == "log1:1"


async def test_a_message_without_an_answer_is_sent_again_under_its_key() -> None:
    answers = [AWAY, ScriptedResponse(cut=b""), stream(status("COMPLETED"))]
    with answering(**{"/v1/agents/a/message:stream": answers}) as gateway:
        async with client_of(gateway) as client:
            assert len([event async for event in client.stream("a", "hi")]) == 1
    keys = [question.headers["Idempotency-Key"] for question in gateway.asked]
    bodies = [question.body for question in gateway.asked]
    assert (len(keys), len(set(keys)), bodies[1:]) == (3, 1, bodies[:1] * 2)


async def test_a_stream_that_the_gateway_ends_early_goes_on_although_input_is_required() -> None:
    waiting = stream(status("INPUT_REQUIRED", 1), farewell=STOPPING)
    script = {
        "/message:stream": waiting,
        "/tasks/t1?historyLength=0": ScriptedResponse(body=task("WORKING", generation=2)),
        "/tasks/t1:subscribe": stream(status("WORKING"), status("COMPLETED"), first=2),
    }
    with answering(**script) as gateway:
        async with client_of(gateway) as client:
            cursors = [event.cursor async for event in client.stream(None, "hi")]
    assert cursors == ["log1:1", "log1:2", "log1:3"]


async def test_a_connection_that_breaks_after_a_question_is_not_waited_on() -> None:
    script = {
        "/message:stream": stream(status("INPUT_REQUIRED", 1), farewell=STOPPING),
        "/tasks/t1?historyLength=0": ScriptedResponse(body=task("INPUT_REQUIRED")),
    }
    with answering(**script) as gateway:
        async with client_of(gateway) as client:
            cursors = [event.cursor async for event in client.stream(None, "hi")]
    assert cursors == ["log1:1"]


async def test_the_answer_to_a_follow_up_begins_after_the_task_as_it_was() -> None:
    answer = stream({"task": task("INPUT_REQUIRED")}, status("WORKING"), status("COMPLETED"))
    with answering(**{"/v1/agents/a/message:stream": answer}) as gateway:
        async with client_of(gateway) as client:
            following = client.stream("a", task="t1", answers={"q": True, "r": None})
            states = [event.state async for event in following]
    assert states == ["working", "completed"]
    sent = gateway.asked[0].body
    assert sent is not None
    assert sent["message"]["taskId"] == "t1"
    assert [(part["data"], part["metadata"]) for part in sent["message"]["parts"]] == [
        (True, {"agui_interrupt_id": "q", "agui_resume_status": "resolved"}),
        (None, {"agui_interrupt_id": "r", "agui_resume_status": "cancelled"}),
    ]


async def test_a_loss_is_reported_with_a_snapshot() -> None:
    lost = task("WORKING", "all of it") | {"metadata": {"headrace.recovered": False}}
    script = {"/v1/agents/a/tasks/t1:subscribe": stream({"task": lost}, status("COMPLETED"))}
    with answering(**script) as gateway:
        async with client_of(gateway) as client:
            first, last = [event async for event in client.resume("a", "t1", "log0:9")]
    assert (first.recovered, last.recovered) == (False, True)
    assert first.snapshot is not None
    assert first.snapshot.text == "all of it"
    assert gateway.asked[0].cursor == "log0:9"


async def test_a_stream_at_its_end_yields_nothing() -> None:
    with answering(**{"/tasks/t1:subscribe": ScriptedResponse(204)}) as gateway:
        async with client_of(gateway) as client:
            assert [event async for event in client.resume(None, "t1", "log1:3")] == []


async def test_a_gateway_that_stays_away_is_given_up_and_gives_the_reason() -> None:
    script = {"/message:stream": stream({"task": task("WORKING")}), "/tasks/t1:subscribe": AWAY}
    with answering(**script) as gateway:
        async with client_of(gateway) as client:
            following = client.stream(None, "hi")
            with pytest.raises(RequestRefused, match="restarting"):
                await read(following)
    assert following.cursor == "log1:1"
    assert len(gateway.asked) == AT_ONCE["attempts"]


async def test_no_gateway_at_any_url_is_reported_at_once() -> None:
    with answering() as here, answering() as there:
        pass
    async with Client(here.url, there.url) as client:
        with pytest.raises(ConnectionLost, match=f"no answer from {there.url}: "):
            await client.agents()


async def test_a_refusal_is_not_repeated() -> None:
    details = [{"reason": "INVALID_PARAMS"}, {"fieldViolations": [{"field": "message.parts"}]}]
    error = {"error": {"code": 400, "message": "empty", "details": details}}
    with answering(**{"/message:send": ScriptedResponse(400, error)}) as gateway:
        async with client_of(gateway) as client:
            with pytest.raises(RequestRefused) as refused:
                await client.send(None, "")
    found = refused.value
    assert (found.status, found.reason, found.field) == (400, "INVALID_PARAMS", "message.parts")
    assert len(gateway.asked) == 1


async def test_a_reply_continues_the_task() -> None:
    answers = [
        ScriptedResponse(body={"task": task("INPUT_REQUIRED")}),
        ScriptedResponse(body={"task": task("COMPLETED", "Done.")}),
    ]
    with answering(**{"/v1/agents/a/message:send": answers}) as gateway:
        async with client_of(gateway) as client:
            waiting = await client.send("a", "hi", context="c1")
            done = await waiting.reply("yes")
    assert (waiting.state, done.state, done.text) == ("input-required", "completed", "Done.")
    first, second = (question.body or {} for question in gateway.asked)
    assert first["message"]["contextId"] == "c1"
    assert second["message"]["taskId"] == "t1"


async def test_an_answer_may_be_a_message() -> None:
    message = {"role": "ROLE_AGENT", "parts": [{"text": "Hello"}]}
    with answering(**{"/message:send": ScriptedResponse(body={"message": message})}) as gateway:
        async with client_of(gateway) as client:
            answer = await client.send(None, "hi")
    assert (answer.state, answer.text) == ("completed", "Hello")


async def test_files_are_sent_and_received(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_bytes(b"from a path")
    stored = "/v1/agents/a/tasks/t1/files/ff"
    results = [
        {"raw": "aW5saW5l", "filename": "small.txt", "mediaType": "text/plain"},
        {"url": f"https://public{stored}", "filename": "large.bin"},
        {"url": "https://elsewhere/picture.png"},
    ]
    done = task("COMPLETED") | {"artifacts": [{"artifactId": "a0", "parts": results}]}
    script = {
        "/v1/agents/a/message:send": ScriptedResponse(body={"task": done}),
        stored: ScriptedResponse(farewell=b"large"),
    }
    with answering(**script) as gateway:
        async with client_of(gateway) as client:
            sent: list[File | Path] = [
                tmp_path / "note.txt",
                File("memo.txt", b"from memory", "text/plain"),
            ]
            answer = await client.send("a", "see", files=sent)
            files = await answer.files()
    parts = (gateway.asked[0].body or {})["message"]["parts"]
    assert [(part.get("filename"), part.get("mediaType")) for part in parts] == [
        (None, None),
        ("note.txt", "text/plain"),
        ("memo.txt", "text/plain"),
    ]
    assert [(file.name, file.content) for file in files] == [
        ("small.txt", b"inline"),
        ("large.bin", b"large"),
        ("", None),
    ]
    assert [question.path for question in gateway.asked[1:]] == [stored]


async def test_tasks_are_listed_page_by_page() -> None:
    query = "/v1/agents/a/tasks?pageSize=1&status=TASK_STATE_INPUT_REQUIRED"
    first = {"tasks": [task("INPUT_REQUIRED")], "nextPageToken": "p2"}
    last = {"tasks": [task("INPUT_REQUIRED") | {"id": "t2"}]}
    script = {
        query: ScriptedResponse(body=first),
        f"{query}&pageToken=p2": ScriptedResponse(body=last),
    }
    with answering(**script) as gateway:
        async with client_of(gateway) as client:
            found = client.tasks("a", state="input-required", page_size=1)
            ids = [one.id async for one in found]
    assert ids == ["t1", "t2"]


async def test_the_agent_of_a_task_is_found() -> None:
    agents = {"agents": [{"id": "a", "available": True, "description": "A"}, {"id": "b"}]}
    script = {
        "/v1/agents": ScriptedResponse(body=agents),
        "/v1/agents/b/tasks/t1?historyLength=0": ScriptedResponse(body=task("WORKING")),
        "/v1/agents/b/tasks/t1:cancel": ScriptedResponse(body=task("CANCELED")),
    }
    with answering(**script) as gateway:
        async with client_of(gateway) as client:
            found = await client.agents()
            agent = await client.agent_of("t1")
            canceled = await client.cancel(agent, "t1")
            with pytest.raises(RequestRefused):
                await client.agent_of("t2")
    assert found == [
        AgentInfo("a", is_available=True, description="A"),
        AgentInfo("b", is_available=False, description=""),
    ]
    assert (agent, canceled.state) == ("b", "canceled")


async def test_a_fork_is_requested_once_with_its_message() -> None:
    busy, fork = ScriptedResponse(status=503), task("SUBMITTED") | {"id": "t2"}
    path = "/v1/agents/b/tasks/t1:fork"
    with answering(**{path: [busy, ScriptedResponse(body=fork)]}) as gateway:
        async with client_of(gateway) as client:
            forked = await client.fork("b", "t1", 3, "hello")
    assert (forked.id, forked.state) == ("t2", "submitted")
    first, again = gateway.asked
    assert first.headers["Idempotency-Key"] == again.headers["Idempotency-Key"]
    body = again.body or {}
    assert (body["generation"], body["message"]["parts"]) == (3, [{"text": "hello"}])


async def test_a_fork_may_answer_and_attach_files_without_text() -> None:
    path, fork = "/v1/agents/b/tasks/t1:fork", task("SUBMITTED") | {"id": "t2"}
    with answering(**{path: ScriptedResponse(body=fork)}) as gateway:
        async with client_of(gateway) as client:
            await client.fork("b", "t1", files=[File("a.txt", b"a")], answers={"q": True})
    answer, attached = (gateway.asked[0].body or {})["message"]["parts"]
    assert (answer["data"], answer["metadata"]["agui_interrupt_id"]) == (True, "q")
    assert attached["filename"] == "a.txt"
    assert "generation" not in (gateway.asked[0].body or {})


async def test_a_stream_of_a_later_run_states_its_time_and_the_callers_key() -> None:
    script = {"/message:stream": stream({"task": task("SUBMITTED")}, status("COMPLETED"))}
    with answering(**script) as gateway:
        async with client_of(gateway) as client:
            at, key = "2030-01-31T09:00:00Z", "key 1"
            await read(client.stream(None, "hi", start_at=at, idempotency_key=key))
    [asked] = gateway.asked
    assert (asked.body or {})["metadata"] == {"headrace.startAt": at}
    assert asked.headers["Idempotency-Key"] == key


async def test_a_token_may_change() -> None:
    tokens = iter(["one", "two"])
    with answering(**{"/v1/agents": ScriptedResponse(body={"agents": []})}) as gateway:
        async with Client(gateway.url, token=lambda: next(tokens)) as client:
            await client.agents()
            await client.agents()
    sent = [question.headers["Authorization"] for question in gateway.asked]
    assert sent == ["Bearer one", "Bearer two"]


@pytest.mark.parametrize(
    "urls", [[], ["ftp://host"], ["127.0.0.1:8080"], ["http://"], ["http://host:65536"]]
)
def test_a_url_that_is_none_is_refused(urls: list[str]) -> None:
    with pytest.raises(ValueError, match="URL"):
        Client(*urls)


async def test_a_file_with_a_name_that_is_not_utf_8_is_attached(tmp_path: Path) -> None:
    path = tmp_path / "a\udcff.txt"
    path.write_text("in")
    with answering(**{"/message:stream": stream(status("COMPLETED"))}) as gateway:
        async with client_of(gateway) as client:
            await read(client.stream(None, files=[path]))
    [part] = (gateway.asked[0].body or {})["message"]["parts"]
    assert part["filename"] == "a\ufffd.txt"


async def test_a_list_is_watched_over_gateways_and_states_when_to_list() -> None:
    change = {"task": "t1", "contextId": "c1", "state": "TASK_STATE_INPUT_REQUIRED"}
    begun = ScriptedResponse(frames=(("g1:1", {}), ("g1:2", change)))
    rest = ScriptedResponse(frames=(("g2:7", {}), ("g2:8", {"task": "t1", "state": None})))
    path = "/v1/agents/a/tasks:watch?contextId=c1&status=TASK_STATE_INPUT_REQUIRED"
    with answering(**{path: begun}) as here, answering(**{path: rest}) as there:
        async with (
            client_of(here, there) as client,
            client.watch("a", context="c1", state="input-required") as changes,
        ):
            seen = [await anext(changes) for _ in range(4)]
    assert [one.must_list for one in seen] == [True, False, True, False]
    assert [(one.task, one.state) for one in seen[1::2]] == [("t1", "input-required"), ("t1", "")]
    assert (seen[1].context, changes.cursor) == ("c1", "g2:8")
    assert there.asked[0].cursor == "g1:2"
