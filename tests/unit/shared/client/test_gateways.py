"""Which gateway the client asks, and what counts as its answer."""

import asyncio
import json
import math
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from headrace.client import Client, ConnectionLost, RequestRefused
from headrace.model.events import Json
from tests.support.fake_gateway import ScriptedResponse, answering

AT_ONCE: Any = {"attempts": 4, "backoff": 0.0}
TASK: Json = {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_CANCELED"}}

type Handler = Callable[[httpx.Request], httpx.Response]


def client_of(handler: Handler, *urls: str, token: str | None = None) -> Client:
    """Return a client of gateways that `handler` answers for."""
    http = httpx.AsyncClient(transport=httpx.MockTransport(handler))
    return Client(*urls or ["http://here"], token=token, **AT_ONCE, http=http)


async def test_requests_that_fail_together_all_move_to_the_gateway_that_answers() -> None:
    together = asyncio.Barrier(20)

    async def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "dead":
            await together.wait()
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json={"agents": []})

    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    client = Client("http://dead", "http://well", **AT_ONCE, http=http)
    answers = await asyncio.gather(*(client.agents() for _ in range(20)))
    assert answers == [[]] * 20


async def test_each_of_several_gateways_is_tried_before_one_is_tried_again() -> None:
    asked: list[str] = []
    begun, others = asyncio.Event(), asyncio.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        host = request.url.host
        if request.url.path == "/v1/fleet" and host == "c":
            return httpx.Response(200, json={})
        if request.url.path == "/v1/processes":
            asked.append(host)
            begun.set()
            await others.wait()
            if host == "b":
                return httpx.Response(200, json={"processes": []})
        raise httpx.ConnectError("refused")

    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    client = Client("http://a", "http://b", "http://c", **AT_ONCE, http=http)
    slow = asyncio.create_task(client.processes())
    await begun.wait()
    await client.fleet()  # Turns from a to b to c.
    others.set()
    assert await slow == []
    assert asked == ["a", "c", "b"]


async def test_a_message_whose_gateway_is_silent_is_sent_to_the_next_one_under_its_key() -> None:
    asked: list[tuple[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.url.host, request.headers["Idempotency-Key"]))
        if request.url.host == "frozen":
            raise httpx.ReadTimeout("silent")
        return httpx.Response(200, json={"task": TASK})

    client = client_of(answer, "http://frozen", "http://well")
    assert (await client.send("a", "hi")).id == "t1"
    assert [host for host, _ in asked] == ["frozen", "well"]
    assert len({key for _, key in asked}) == 1


async def test_gateways_that_have_answered_before_are_waited_for_while_all_are_away() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        if asked.count("/v1/processes") in {1, 2, 3}:
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json={"agents": [], "processes": []})

    client = client_of(answer, "http://a", "http://b")
    assert await client.agents() == []
    assert await client.processes() == []
    assert asked.count("/v1/processes") == 4


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_get_follows_a_redirect_within_its_origin_with_its_credentials(status: int) -> None:
    moved = ScriptedResponse(status, headers=(("Location", "/moved?x=1"),))
    script = {"/v1/agents": moved, "/moved?x=1": ScriptedResponse(body={"agents": []})}
    with answering(**script) as gateway:
        async with Client(gateway.url, token="secret") as client:
            assert await client.agents() == []
    sent = [question.headers["Authorization"] for question in gateway.asked]
    assert sent == ["Bearer secret"] * 2


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirected_command_keeps_its_method_body_and_key(status: int) -> None:
    path = "/v1/agents/a/tasks/t1:fork"
    moved = ScriptedResponse(status, headers=(("Location", f"{path}/"),))
    with answering(**{path: moved, f"{path}/": ScriptedResponse(body=TASK)}) as gateway:
        async with Client(gateway.url) as client:
            assert (await client.fork("a", "t1", 3)).id == "t1"
    first, second = gateway.asked
    assert (first.method, first.body) == (second.method, second.body) == ("POST", {"generation": 3})
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]


async def test_a_message_and_its_stream_follow_a_redirect() -> None:
    moved = ScriptedResponse(308, headers=(("Location", "/else"),))
    done = {"statusUpdate": {"taskId": "t1", "status": {"state": "TASK_STATE_COMPLETED"}}}
    frames = ScriptedResponse(frames=(("l:1", done),))
    with answering(**{"/message:stream": moved, "/else": frames}) as gateway:
        async with Client(gateway.url) as client:
            cursors = [event.cursor async for event in client.stream(None, "hi")]
    assert cursors == ["l:1"]
    assert gateway.asked[0].body == gateway.asked[1].body


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_command_that_would_become_a_get_is_refused(status: int) -> None:
    moved = ScriptedResponse(status, headers=(("Location", "/else"),))
    script = {
        "/tasks/t1": moved,
        "/tasks/t1:cancel": moved,
        "/else": ScriptedResponse(body={}),
    }
    with answering(**script) as gateway:
        async with Client(gateway.url) as client:
            with pytest.raises(RequestRefused, match=f"/else with {status}; a DELETE follows 307"):
                await client.delete(None, "t1")
            with pytest.raises(RequestRefused, match="a POST follows 307 and 308 only") as refused:
                await client.cancel(None, "t1")
    assert refused.value.status == status
    assert [question.path for question in gateway.asked] == ["/tasks/t1", "/tasks/t1:cancel"]


@pytest.mark.parametrize(
    "location",
    ["http://elsewhere/v1/agents", "https://here/v1/agents", "http://here:81/x", "//elsewhere/"],
)
@pytest.mark.parametrize("status", [302, 307, 308])
async def test_no_redirect_to_another_origin_is_followed(location: str, status: int) -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(status, headers={"Location": location})

    client = client_of(answer, token="secret")
    with pytest.raises(RequestRefused, match="another origin; if you trust it, use it as"):
        await client.agents()
    with pytest.raises(RequestRefused, match="another origin"):
        await client.delete("a", "t1")
    assert [request.url.host for request in asked] == ["here", "here"]


async def test_a_redirect_does_not_change_who_the_caller_is() -> None:
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers["Authorization"])
        if request.url.path == "/v1/agents":
            return httpx.Response(307, headers={"Location": "http://eve:x@here/moved"})
        return httpx.Response(200, json={"agents": []})

    assert await client_of(answer, token="secret").agents() == []
    assert sent == ["Bearer secret"] * 2


async def test_the_callers_own_http_client_follows_no_other_redirects() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(302, headers={"Location": "/else"})

    transport = httpx.MockTransport(answer)
    http = httpx.AsyncClient(transport=transport, follow_redirects=True)
    with pytest.raises(RequestRefused, match="DELETE follows 307 and 308 only"):
        await Client("http://here", http=http).delete("a", "t1")


@pytest.mark.parametrize("status", [300, 304, 305])
async def test_another_answer_than_success_is_refused(status: int) -> None:
    client = client_of(lambda _: httpx.Response(status))
    with pytest.raises(RequestRefused, match=rf"tasks/t1 answered {status}"):
        await client.delete("a", "t1")


async def test_a_redirect_without_end_is_refused() -> None:
    client = client_of(lambda _: httpx.Response(308, headers={"Location": "/v1/agents"}))
    with pytest.raises(RequestRefused, match="redirects more than 5 times"):
        await client.agents()


@pytest.mark.parametrize("answer", [b"", b"<html>Welcome</html>", b"[]", b"null"])
@pytest.mark.parametrize("status", [200, 202])
async def test_what_is_no_answer_of_a_gateway_reports_nothing_as_done(
    answer: bytes, status: int
) -> None:
    client = client_of(lambda _: httpx.Response(status, content=answer))
    with pytest.raises(ConnectionLost, match="http://here/v1/agents/a/tasks/t1 did not answer"):
        await client.delete("a", "t1")
    with pytest.raises(ConnectionLost, match="did not answer with a JSON object"):
        await client.cancel("a", "t1")


async def test_an_empty_object_is_no_task() -> None:
    client = client_of(lambda _: httpx.Response(200, json={}))
    with pytest.raises(ConnectionLost, match="did not answer with a task"):
        await client.cancel("a", "t1")
    with pytest.raises(ConnectionLost, match="did not answer with a task"):
        await client.send("a", "hi")


async def test_a_number_that_json_does_not_have_is_named(caplog: pytest.LogCaptureFixture) -> None:
    sent: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.content)
        return httpx.Response(200, json={"task": TASK})

    async with client_of(answer) as client:
        await client.send("shop", {"parts": [{"data": {"means": [1.5, math.nan], "none": None}}]})
    assert json.loads(sent[0])["message"]["parts"] == [
        {"data": {"means": [1.5, None], "none": None}}
    ]
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith("message.parts[0].data.means[1] is nan")
