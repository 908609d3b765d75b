"""Hector's surface: its requests on A2A's routes, its answers for those who ask for them."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import httpx
import pytest
import pytest_asyncio
from a2a.compat.v0_3 import a2a_v0_3_pb2, a2a_v0_3_pb2_grpc
from google.protobuf.json_format import Parse

from headrace_gateway.settings import GatewaySettings
from tests.support.clients.bindings import Json
from tests.support.clients.websocket import socket_to
from tests.support.event_stream import Frame, all_frames, frames
from tests.support.javascript import program
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports

HELLO: Json = {"role": "ROLE_USER", "content": [{"text": "Hello"}]}
BASE = "/v1/agents/assistant"


@pytest_asyncio.fixture(loop_scope="module")
async def plain(gateway: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client that says nothing of versions, as curl does."""
    async with httpx.AsyncClient(base_url=gateway, timeout=60, verify=NO_TLS) as plain:
        yield plain


async def streamed(plain: httpx.AsyncClient, method: str, url: str, **sent: Any) -> list[Frame]:  # noqa: ANN401 - httpx's
    async with plain.stream(method, url, **sent) as response:
        assert response.status_code == 200, await response.aread()
        return await all_frames(response)


def called(received: list[Frame]) -> list[str]:
    return [dict(frame.fields).get("event", "") for frame in received]


def text_of(received: list[Frame]) -> str:
    return "".join(frame.json["response"]["content"][0]["text"] for frame in received)


@pytest.mark.parametrize(
    "body",
    [
        {"message": HELLO},
        {"request": HELLO},
        {"message": {"parts": [{"text": "Hello"}]}},
        {"message": HELLO | {"role": "ROLE_ASSISTANT"}},
        {"message": HELLO | {"role": "user", "message_id": "mine"}},
    ],
)
async def test_older_requests_are_read_and_answered_as_a2a_does(
    plain: httpx.AsyncClient, body: Json
) -> None:
    task = (await plain.post(f"{BASE}/message:send", json=body)).json()["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    [output] = task["history"]
    assert (output["role"], output["parts"]) == ("ROLE_USER", [{"text": "Hello"}])
    assert output["messageId"]
    [first, *_] = await streamed(plain, "POST", f"{BASE}/message:stream", json=body)
    assert first.json["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"role": "ROLE_USER", "content": []}, "message.parts"),
        ({"role": "ROLE_USER"}, "message.parts"),
        (HELLO | {"role": "ROLE_OTHER"}, "message.role"),
        (HELLO | {"role": 5.5}, "message.role"),
        (HELLO | {"messageId": 5}, "message.messageId"),
        ("Hello", "message"),
    ],
)
async def test_what_is_left_out_is_added_and_what_is_wrong_is_named(
    plain: httpx.AsyncClient, message: object, field: str
) -> None:
    refused = await plain.post(f"{BASE}/message:send", json={"message": message})
    assert refused.status_code == 400
    [_, found] = refused.json()["error"]["details"]
    assert found["fieldViolations"][0]["field"] == field


async def test_who_states_the_version_is_held_to_it(http: httpx.AsyncClient) -> None:
    assert (await http.post(f"{BASE}/message:send", json={"message": HELLO})).status_code == 400


async def test_a_form_is_taken_as_json_from_programs_but_from_no_page(
    plain: httpx.AsyncClient, gateway: str
) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    call: Json = {"jsonrpc": "2.0", "id": 1, "method": "message/send"}
    call |= {"params": {"name": "assistant", "message": HELLO}}
    for path, body in ((f"{BASE}/message:send", {"message": HELLO}), ("/rpc", call)):
        content = json.dumps(body)
        assert (await plain.post(path, content=content, headers=form)).is_success
        own = await plain.post(path, content=content, headers=form | {"Origin": gateway})
        assert "application/json" in own.json()["error"]["message"]
        foreign = form | {"Origin": "https://evil.example"}
        refused = await plain.post(f"{path}?format=hector", content=content, headers=foreign)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "PERMISSION_DENIED")


async def test_a_finished_message_is_answered_with_its_response(plain: httpx.AsyncClient) -> None:
    sent = await plain.post(f"{BASE}/message:send?format=hector", json={"message": HELLO})
    answer = sent.json()
    assert answer["response"]["role"] == "ROLE_ASSISTANT"
    assert answer["response"]["content"] == [{"text": "Hello"}]
    found = (await plain.get(f"{BASE}/tasks/{answer['task_id']}?format=hector")).json()["task"]
    assert (found["id"], found["status"]) == (answer["task_id"], "completed")
    assert found["result"]["content"] == [{"text": "Hello"}]
    listed = (await plain.get(f"{BASE}/tasks?format=hector")).json()["tasks"]
    assert answer["task_id"] in [task["id"] for task in listed]
    spec = (await plain.get(f"{BASE}/tasks/{answer['task_id']}")).json()
    assert spec["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_task_at_work_is_running_and_then_cancelled(plain: httpx.AsyncClient) -> None:
    base = "/v1/agents/patient"
    body = {"message": HELLO, "configuration": {"returnImmediately": True}}
    sent = (await plain.post(f"{base}/message:send?format=hector", json=body)).json()["task"]
    assert sent["status"] in ("pending", "running")
    cancel = f"{base}/tasks/{sent['id']}:cancel?format=hector"
    assert (await plain.post(cancel)).json()["task"]["status"] == "cancelled"
    again = await plain.post(cancel)
    assert (again.status_code, again.json()["error"]["code"]) == (400, "INVALID_ARGUMENT")


async def test_a_stream_is_messages_and_then_done(plain: httpx.AsyncClient) -> None:
    url = f"{BASE}/message:stream?format=hector"
    *messages, done = await streamed(plain, "POST", url, json={"message": HELLO})
    assert set(called(messages)) == {"message"}
    assert (called([done]), done.json) == (["done"], {})
    assert text_of(messages) == "Hello"
    assert all(frame.json["task_id"] == messages[0].json["task_id"] for frame in messages)
    outputs = [part for frame in messages for part in frame.json["message"]["parts"]]
    assert [part["text"] for part in outputs] == ["Hello"]
    states = [frame.json["task"]["status"] for frame in messages if "task" in frame.json]
    assert (states[0], states[-1]) == ("pending", "completed")


@pytest.mark.parametrize("query", ["done=1", "done=1&format=hector", "done=1&format=agui"])
async def test_a_stream_ends_with_a_mark_for_those_who_wait_for_one(
    plain: httpx.AsyncClient, query: str
) -> None:
    url = f"{BASE}/message:stream?{query}"
    sent = await plain.post(url, json={"message": HELLO})
    assert sent.text.endswith("}\n\ndata: [DONE]\n\n")
    assert "event: done" not in sent.text


@pytest.mark.parametrize("form", ["", "&format=hector", "&format=agui"])
async def test_an_event_source_goes_on_with_its_task_instead_of_asking_again(
    plain: httpx.AsyncClient, fleet: ScriptedFleet, form: str
) -> None:
    url = f"/v1/agents/patient/message:stream?message=Hello{form}"
    received = list[Frame]()
    async with plain.stream("GET", url) as response:
        async for frame in frames(response):
            received.append(frame)
            if '"a"' in frame.raw.decode():
                break
    [run] = fleet.runs
    assert {frame.id.partition("/")[0] for frame in received} == {run.key.task}
    run.go_on.set()
    rest = await streamed(plain, "GET", url, headers={"Last-Event-ID": received[-1].id})
    assert len(fleet.runs) == 1
    whole = [*received, *rest]
    assert len(received) > 1
    for cut in range(len(whole) - (2 if form else 1)):
        again = await streamed(plain, "GET", url, headers={"Last-Event-ID": whole[cut].id})
        assert [frame.raw for frame in again] == [frame.raw for frame in whole[cut + 1 :]]
    last = [frame.id for frame in whole if frame.id][-1]
    over = await plain.get(url, headers={"Last-Event-ID": last})
    assert over.status_code == 204
    assert len(fleet.runs) == 1


_KEYED = [
    ("GET", "/message:stream?message=Hello", None),
    ("POST", "/message:stream?format=hector", {"message": HELLO}),
    ("POST", "/message:send", {"message": HELLO}),
    ("POST", "/stream", {"message": HELLO}),
]


@pytest.mark.parametrize(("method", "url", "body"), _KEYED)
async def test_a_message_without_an_id_is_accepted_once_under_its_key(
    plain: httpx.AsyncClient, fleet: ScriptedFleet, method: str, url: str, body: Json | None
) -> None:
    key = {"Idempotency-Key": f"once-{url}"}
    for _ in range(2):
        answer = await plain.request(method, BASE + url, json=body, headers=key)
        assert answer.status_code == 200, answer.text
    assert len(fleet.runs) == 1
    other = {"message": {"content": [{"text": "Bye"}]}}
    assert (await plain.post(f"{BASE}/message:send", json=other, headers=key)).status_code == 400


@pytest.mark.parametrize("cursor", ["x", "abcd1234:3", "/abcd1234:3", "task/"])
async def test_a_cursor_without_a_task_repeats_no_request(
    plain: httpx.AsyncClient, fleet: ScriptedFleet, cursor: str
) -> None:
    url = "/v1/agents/patient/message:stream?message=Hello"
    refused = await plain.get(url, headers={"Last-Event-ID": cursor})
    assert refused.status_code == 400
    assert "Last-Event-ID" in refused.text
    assert fleet.runs == []


async def test_a_message_in_the_query_is_text_or_json(
    plain: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    url = f"{BASE}/message:stream"
    for text in ("Hello", '{"content":[{"text":"Hello"}]}', '{"parts":[{"text":"Hello"}]}'):
        messages = await streamed(plain, "GET", url, params={"message": text, "contextId": "c-1"})
        assert messages[-1].state == "COMPLETED"
        assert fleet.runs[-1].message["parts"] == [{"text": "Hello"}]
    for text in ("", "{", '{"parts":[]}'):
        refused = await plain.get(url, params={"message": text})
        assert (refused.status_code, "error" in refused.json()) == (400, True)


async def test_one_endpoint_reaches_every_agent_by_name(plain: httpx.AsyncClient) -> None:
    async def result(method: str, query: str = "", **params: object) -> Json:
        call = {"jsonrpc": "2.0", "id": 1, "method": method}
        params = {"name": "assistant", **params}
        answer: Json = (await plain.post(f"/rpc{query}", json=call | {"params": params})).json()
        assert answer["id"] == 1
        found: Json = answer["result"]
        return found

    task = (await result("message/send", message=HELLO))["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert (await result("tasks/get", id=task["id"]))["id"] == task["id"]
    short = (await result("tasks/get", "?format=hector", task_id=task["id"]))["task"]
    assert short["status"] == "completed"
    page = (await plain.get("/.well-known/a2a/agents/assistant")).json()
    assert await result("card/get") == page
    plain.headers["A2A-Version"] = "0.3"
    assert await result("card/get", "?format=agui") == page
    del plain.headers["A2A-Version"]
    agent = (await result("card/get", "?format=hector"))["agent"]
    assert agent["capabilities"] == ["chat", "streaming"]
    assert agent["supported_content_types"] == ["text"]
    by_page = (await plain.get("/.well-known/a2a/agents/assistant?format=hector")).json()
    assert by_page == {"agent": agent}
    call = {"jsonrpc": "2.0", "id": 1, "method": "message/stream"}
    call |= {"params": {"name": "assistant", "message": HELLO}}
    received = await streamed(plain, "POST", "/rpc", json=call)
    assert "task" in received[0].json["result"]
    *received, done = await streamed(plain, "POST", "/rpc?format=hector", json=call)
    assert (received[0].json["result"]["task"]["status"], called([done])) == ("pending", ["done"])


async def test_rest_and_json_rpc_may_have_ports_of_their_own(
    plain: httpx.AsyncClient, settings: GatewaySettings
) -> None:
    first, second, third = ports.pick(), ports.pick(), ports.pick()
    own = {"http_port": first, "grpc_port": 0, "extra_http_ports": [second, third]}
    async with running(settings.model_copy(update=own)):
        base = f"http://127.0.0.1:{second}{BASE}"
        sent = await plain.post(f"{base}/message:send?format=hector", json={"message": HELLO})
        assert sent.json()["response"]["content"] == [{"text": "Hello"}]
        call = {"jsonrpc": "2.0", "id": 1, "method": "message/send"}
        call |= {"params": {"name": "assistant", "message": HELLO}}
        rpc = f"http://127.0.0.1:{third}/rpc?format=hector"
        assert (await plain.post(rpc, json=call)).json()["result"]["status"] == "completed"


async def test_older_method_names_without_rpc_are_refused_in_hectors_error_data(
    plain: httpx.AsyncClient,
) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": HELLO}}
    error = (await plain.post(f"{BASE}?format=hector", json=call)).json()["error"]
    assert error["code"] == -32601
    assert (error["data"]["code"], "message/send" in error["data"]["message"]) == (
        "NOT_FOUND",
        True,
    )
    at_rpc = (await plain.post(f"{BASE}/rpc?format=hector", json=call)).json()
    assert at_rpc["result"]["status"] == "completed"


@pytest.mark.parametrize(
    ("params", "code", "word"),
    [
        ({"name": "nobody", "message": HELLO}, "NOT_FOUND", "nobody"),
        ({"name": 5, "message": HELLO}, "INVALID_ARGUMENT", "agent"),
        ({"name": "assistant", "message": 5}, "INVALID_ARGUMENT", "object"),
    ],
)
async def test_json_rpc_has_the_codes_within_its_own_envelope(
    plain: httpx.AsyncClient, params: Json, code: str, word: str
) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params}
    error = (await plain.post("/rpc?format=hector", json=call)).json()["error"]
    assert isinstance(error["code"], int)
    assert error["data"]["code"] == code
    assert word in error["data"]["message"]


async def test_errors_come_in_the_envelope_that_is_requested(plain: httpx.AsyncClient) -> None:
    unknown = await plain.post(
        "/v1/agents/nobody/message:send?format=hector", json={"message": HELLO}
    )
    error = unknown.json()["error"]
    assert (unknown.status_code, error["code"]) == (404, "NOT_FOUND")
    assert error["details"]["name"] == "nobody"
    known_only = await plain.post(
        "/v1/agents/choosy/message:send?format=hector", json={"message": HELLO}
    )
    assert (known_only.status_code, known_only.json()["error"]["code"]) == (401, "UNAUTHENTICATED")
    no_route = await plain.get(f"{BASE}/nothing/there/is?format=hector")
    assert (no_route.status_code, no_route.json()["error"]["code"]) == (404, "NOT_FOUND")
    no_task = await plain.get(f"{BASE}/tasks/none?format=hector")
    assert (no_task.status_code, no_task.json()["error"]["code"]) == (404, "NOT_FOUND")


LINE = """
const ws = new WebSocket(URL);
ws.onmessage = (event) => {
  const data = JSON.parse(event.data);
  console.log(data.response.content[0].text);
  if (data.end) ws.close();
};
ws.onopen = () => ws.send(JSON.stringify({message: {content: [{text: "Hello"}]}}));
"""
"""The document's lines, with a message sent and the socket closed."""


@pytest.mark.parametrize("ask", ["message", "request"])
async def test_a_bare_message_is_answered_in_its_own_form(gateway: str, ask: str) -> None:
    async with socket_to(gateway, "/v1/agents/assistant/stream") as socket:
        await socket.send({"id": 1, ask: HELLO})
        received = await socket.rest(1)
        text = "".join(one["response"]["content"][0]["text"] for one in received)
        assert (text, received[-1]["end"], "event" in received[0]) == ("Hello", True, False)
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello"}]}
        await socket.send({"id": 2, "send": {"message": message}})
        assert "event" in (await socket.rest(2))[0]


async def test_a_websocket_reads_as_its_document_does(gateway: str) -> None:
    where = "/v1/agents/assistant/stream?format=hector"
    async with socket_to(gateway, where) as socket:
        await socket.send({"id": 1, "message": HELLO})
        received = await socket.rest(1)
        text = "".join(one["response"]["content"][0]["text"] for one in received)
        assert (text, received[-1]["end"]) == ("Hello", True)
        assert received[-2]["task"]["status"] == "completed"
        await socket.send({"id": 2, "subscribe": {"task": "nobody"}})
        refused = await socket.next(2)
        assert (refused["error"]["code"], "response" in refused) == ("NOT_FOUND", True)
        again = {"task": received[0]["task_id"], "after": received[0]["cursor"]}
        await socket.send({"id": 3, "subscribe": again})
        assert [one["cursor"] for one in (await socket.rest(3))[:-1]] == [
            one["cursor"] for one in received[1:-1]
        ]


async def test_node_runs_the_documents_websocket_lines(gateway: str) -> None:
    where = gateway.replace("http", "ws") + "/v1/agents/assistant/stream?format=hector"
    script = LINE.replace("URL", json.dumps(where))
    node = await asyncio.create_subprocess_exec(
        program("node"), "--experimental-websocket", "-e", script,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(node.communicate(), 60)
    assert node.returncode == 0, err
    assert "".join(out.decode().split()) == "Hello"


async def test_grpc_takes_the_documents_request(gateway: str, settings: GatewaySettings) -> None:
    assert gateway
    text = '{"request":{"role":"ROLE_USER","content":[{"text":"Hello"}]}}'
    metadata = (("agent-name", "assistant"),)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{settings.grpc_port}") as channel:
        request = Parse(text, a2a_v0_3_pb2.SendMessageRequest())
        stub = a2a_v0_3_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        task = (await stub.SendMessage(request, metadata=metadata)).task
        assert task.status.state == a2a_v0_3_pb2.TASK_STATE_COMPLETED
        assert task.artifacts[0].parts[0].text == "Hello"
        request.request.ClearField("role")
        received = [one async for one in stub.SendStreamingMessage(request, metadata=metadata)]
        assert received[-1].status_update.final
        nobody = (("agent-name", "nobody"),)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.SendMessage(request, metadata=nobody)
        assert refused.value.code() == grpc.StatusCode.NOT_FOUND
