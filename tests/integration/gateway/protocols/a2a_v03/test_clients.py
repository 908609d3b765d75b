"""Clients of A2A 0.3: the official SDK's, over each transport, and what the shape decides."""

import json

import grpc.aio
import httpx
import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old_pb2
from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc as old_grpc
from a2a.compat.v0_3.types import AgentCard as OldCard
from a2a.types import a2a_pb2
from a2a.types import a2a_pb2_grpc as new_grpc
from a2a.utils.constants import TransportProtocol
from a2a.utils.errors import (
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from websockets.exceptions import ConnectionClosed

from headrace.model.task import mint_task_id
from headrace_gateway.settings import GatewaySettings
from tests.support.agui.runs import run_of
from tests.support.clients.a2a_v03 import TRANSPORTS, old
from tests.support.clients.bindings import Json
from tests.support.clients.websocket import connect
from tests.support.scripted_fleet import ScriptedFleet


@pytest.fixture(params=TRANSPORTS, ids=lambda transport: transport.value)
def transport(request: pytest.FixtureRequest) -> TransportProtocol:
    """Each of 0.3's."""
    found: TransportProtocol = request.param
    return found


def last_state(events: list[a2a_pb2.StreamResponse]) -> str:
    update = events[-1].status_update
    return a2a_pb2.TaskState.Name(update.status.state).removeprefix("TASK_STATE_")


async def test_a_message_is_answered(
    gateway: str, settings: GatewaySettings, transport: TransportProtocol
) -> None:
    async with old(gateway, settings, transport, "assistant", streaming=False) as client:
        [answer] = await client.send("hello")
        found = await client.get(answer.task.id)
    assert answer.task.status.state == a2a_pb2.TASK_STATE_COMPLETED
    assert [part.text for part in answer.task.artifacts[0].parts] == ["hello"]
    assert found.artifacts == answer.task.artifacts


async def test_a_message_is_streamed_to_its_end(
    gateway: str, settings: GatewaySettings, transport: TransportProtocol
) -> None:
    async with old(gateway, settings, transport, "assistant") as client:
        events = await client.send("hello")
    assert [event.WhichOneof("payload") for event in events] == [
        "task",
        "status_update",
        "artifact_update",
        "status_update",
    ]
    assert last_state(events) == "COMPLETED"


async def test_a_question_is_answered_in_the_same_task(
    gateway: str, settings: GatewaySettings, transport: TransportProtocol
) -> None:
    async with old(gateway, settings, transport, "ask") as client:
        waiting = await client.send("hi")
        assert last_state(waiting) == "INPUT_REQUIRED"
        received = await client.send("Ada", task_id=waiting[0].task.id)
    assert last_state(received) == "COMPLETED"
    assert received[-1].status_update.status.message.parts[0].text == "Hello Ada"


async def test_a_task_at_work_is_followed_again(
    gateway: str, settings: GatewaySettings, transport: TransportProtocol, fleet: ScriptedFleet
) -> None:
    async with old(gateway, settings, transport, "patient") as client:
        task = (await anext(client.sending("hi"))).task.id
        stream = client.subscribe(task)
        first = await anext(stream)
        (await run_of(fleet)).go_on.set()
        rest = [event async for event in stream]
    assert first.task.id == task
    assert last_state(rest) == "COMPLETED"


async def test_a_task_at_work_is_canceled(
    gateway: str, settings: GatewaySettings, transport: TransportProtocol
) -> None:
    async with old(gateway, settings, transport, "patient") as client:
        task = (await anext(client.sending("hi"))).task.id
        canceled = await client.cancel(task)
    assert canceled.status.state == a2a_pb2.TASK_STATE_CANCELED


async def test_errors_are_the_sdks_own(
    gateway: str, settings: GatewaySettings, transport: TransportProtocol
) -> None:
    async with old(gateway, settings, transport, "terse") as client:
        with pytest.raises(UnsupportedOperationError):
            await client.send("hello")
        with pytest.raises(UnsupportedOperationError):
            await anext(client.subscribe(mint_task_id(0)))
    async with old(gateway, settings, transport, "terse", streaming=False) as client:
        unknown = mint_task_id(0)
        for ask in (client.get, client.cancel):
            with pytest.raises(TaskNotFoundError):
                await ask(unknown)
        [answer] = await client.send("hello")
        with pytest.raises(TaskNotCancelableError):
            await client.cancel(answer.task.id)
        with pytest.raises(UnsupportedOperationError):
            await client.send("more", task_id=answer.task.id)


def kinded(text: str = "hi", **fields: object) -> Json:
    parts = [{"kind": "text", "text": text}]
    message = {"kind": "message", "messageId": "m", "role": "user", "parts": parts, **fields}
    return {"message": message}


async def call(http: httpx.AsyncClient, method: str, params: Json, **headers: str) -> Json:
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    response = await http.post("/", json=request, headers=headers)
    answer: Json = response.json()
    return answer


@pytest.fixture
def unversioned(http: httpx.AsyncClient) -> httpx.AsyncClient:
    """A client that does not say which version it speaks."""
    del http.headers["A2A-Version"]
    return http


async def test_without_a_version_the_method_decides(unversioned: httpx.AsyncClient) -> None:
    old = await call(unversioned, "message/send", kinded())
    assert (old["result"]["kind"], old["result"]["status"]["state"]) == ("task", "completed")
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    new = await call(unversioned, "SendMessage", {"message": message})
    assert new["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_with_a_version_only_its_own_methods_are_there(
    unversioned: httpx.AsyncClient,
) -> None:
    for method, version in (("message/send", "1.0"), ("SendMessage", "0.3")):
        answer = await call(unversioned, method, kinded(), **{"A2A-Version": version})
        assert answer["error"]["code"] == -32601


async def test_an_empty_version_is_0_3(
    unversioned: httpx.AsyncClient, gateway: str, settings: GatewaySettings
) -> None:
    empty = {"A2A-Version": ""}
    old = await call(unversioned, "message/send", kinded(), **empty)
    assert (old["result"]["kind"], old["result"]["status"]["state"]) == ("task", "completed")
    new = await call(unversioned, "SendMessage", kinded(), **empty)
    assert new["error"]["code"] == -32601
    assert "A2A 0.3" in new["error"]["message"]
    # Without a kind, too.
    message = {"messageId": "m", "role": "user", "parts": [{"text": "hi"}]}
    for target in ("/v1/message:send", "/message:send"):
        task = (await unversioned.post(target, json={"message": message}, headers=empty)).json()
        assert (task["kind"], task["status"]["state"]) == ("task", "completed")
    empty_query, old_query = [
        await unversioned.get("/tasks", params={"A2A-Version": version}) for version in ("", "0.3")
    ]
    assert empty_query.status_code == old_query.status_code == 404
    assert empty_query.json() == old_query.json()
    where = f"{gateway.replace('http', 'ws', 1)}/stream?A2A-Version="
    async with connect(where) as socket:
        with pytest.raises(ConnectionClosed, match=r"A2A 0\.3 is not supported here"):
            await socket.recv()
    await _check_grpc(settings)


async def _check_grpc(settings: GatewaySettings) -> None:
    """Ask both services, with an empty version and without one."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{settings.grpc_port}") as channel:
        new = new_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
        old = old_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]
        unknown = mint_task_id(0)
        requests = [
            (new.GetTask, a2a_pb2.GetTaskRequest(id=unknown)),
            (old.GetTask, old_pb2.GetTaskRequest(name=f"tasks/{unknown}")),
        ]
        received: list[str] = []
        for method, request in requests:
            for metadata in ([("a2a-version", "")], []):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await method(request, metadata=metadata)
                received.append(refused.value.code().name)
    assert received == ["FAILED_PRECONDITION", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND"]


@pytest.mark.parametrize("path", ["/v1/message:send", "/message:send"])
async def test_without_a_version_parts_of_a_kind_are_old(
    unversioned: httpx.AsyncClient, path: str
) -> None:
    answer = (await unversioned.post(path, json=kinded())).json()
    assert (answer["kind"], answer["status"]["state"]) == ("task", "completed")


@pytest.mark.parametrize("field", ["request", "message"])
async def test_the_old_routes_are_under_v1_and_speak_the_old_protobufs_json(
    unversioned: httpx.AsyncClient, field: str
) -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hi"}]}
    sent = (await unversioned.post("/v1/message:send", json={field: message})).json()
    assert sent["task"]["history"][0]["content"] == [{"text": "hi"}]
    found = (await unversioned.get(f"/v1/tasks/{sent['task']['id']}")).json()
    assert found == sent["task"]
    refused = await unversioned.get(
        f"/v1/tasks/{sent['task']['id']}", headers={"A2A-Version": "1.0"}
    )
    assert refused.json()["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"


async def test_numbers_of_old_clients_stay_whole(unversioned: httpx.AsyncClient) -> None:
    parts = [{"kind": "data", "data": {"zero": 0, "half": 0.5}}]
    params = kinded(parts=parts) | {"metadata": {"n": 7}, "configuration": {"blocking": False}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params}
    answer = await unversioned.post("/v1/agents/patient", json=request)
    assert '"zero":0' in answer.text
    assert answer.json()["result"]["history"][0]["parts"][0]["data"] == {"zero": 0, "half": 0.5}
    assert '"n":7' in answer.text


NUMBERS: Json = {"id": 2**53 + 1, "wei": [2**70, -(2**70)], "one": 1.0, "i": 1, "none": 0.0}


async def test_numbers_in_json_of_old_clients_are_exact(unversioned: httpx.AsyncClient) -> None:
    params = kinded(
        parts=[{"kind": "data", "data": NUMBERS, "metadata": NUMBERS}], metadata={"kept": [NUMBERS]}
    )
    sent = {"message/send": params | {"configuration": {"blocking": False}}}
    for method in ("message/send", "tasks/get", "tasks/cancel"):
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": sent.get(method, sent)}
        task = (await unversioned.post("/v1/agents/patient", json=call)).json()["result"]
        check_numbers(task["history"][0], params["message"])
        sent["id"] = task["id"]


async def test_numbers_in_the_old_protobufs_json_are_exact(unversioned: httpx.AsyncClient) -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "x"}]}
    request = {"request": {**message, "metadata": NUMBERS}}
    task = (await unversioned.post("/v1/message:send", json=request)).json()["task"]
    assert written(task["history"][0]["metadata"]) == written(NUMBERS)


def check_numbers(message: Json, given: Json) -> None:
    """Check that a message has the numbers of `given`."""
    [part], [sent] = message["parts"], given["parts"]
    assert written(part["data"]) == written(sent["data"])
    assert written(part["metadata"]) == written(sent["metadata"])
    assert written(message["metadata"]["kept"]) == written(given["metadata"]["kept"])


def written(value: object) -> str:
    """Return `value` as JSON, because 1 and 1.0 are equal as values."""
    return json.dumps(value, sort_keys=True)


async def test_a_stream_can_be_resumed_by_old_clients_too(
    unversioned: httpx.AsyncClient,
) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": kinded()}
    sent = await unversioned.post("/", json=request)
    events = sent.text.strip().split("\n\n")
    assert [event.partition("\n")[0][-2:] for event in events] == [":1", ":2", ":3", ":4"]
    assert '"final":true' in events[-1]
    task = json.loads(events[0].partition("data: ")[2])["result"]["id"]
    resubscribe = {"jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe"}
    cursor = events[1].partition("\n")[0].removeprefix("id: ")
    again = await unversioned.post(
        "/",
        json=resubscribe | {"params": {"id": task}},
        headers={"Last-Event-ID": cursor},
    )
    assert again.text.strip().split("\n\n") == events[2:]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "message"),
        (kinded(parts=[{"kind": "text"}]), "message.parts"),
        (kinded(role="narrator"), "message.role"),
        (kinded(messageId=5), "message.messageId"),
    ],
)
async def test_errors_of_an_old_request_name_the_field(
    unversioned: httpx.AsyncClient, params: Json, field: str
) -> None:
    error = (await call(unversioned, "message/send", params))["error"]
    assert error["code"] == -32602
    violations = error["data"][1]["fieldViolations"]
    assert any(violation["field"].startswith(field) for violation in violations)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("message:send", {"message": {"messageId": "m", "role": "ROLE_USER", "content": [{}]}}),
        ("message:send", {"message": {"messageId": "m", "role": "NARRATOR", "content": []}}),
        ("message:send", {"message": {"messageId": 5, "content": [{"text": "hi"}]}}),
        ("message:send", {"request": "hi"}),
        ("message:stream", {"request": {"content": [{"text": {}}]}}),
        ("tasks/t/pushNotificationConfigs", {"config": "here"}),
        ("tasks/t/pushNotificationConfigs", {"config": {"pushNotificationConfig": {"url": 5}}}),
        ("tasks/t/pushNotificationConfigs", {"config": {}, "parent": "nobody"}),
        ("tasks/t/pushNotificationConfigs", {"pushNotificationConfig": {"url": "x"}}),
    ],
)
async def test_what_is_at_fault_in_an_old_rest_request_is_refused(
    unversioned: httpx.AsyncClient, path: str, body: Json
) -> None:
    refused = await unversioned.post(f"/v1/{path}", json=body)
    assert refused.status_code == 400
    assert refused.json()["error"]["details"][0]["reason"] == "INVALID_PARAMS"


async def test_codes_that_old_clients_do_not_know_are_internal_errors(
    unversioned: httpx.AsyncClient,
) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": kinded()}
    answer = await unversioned.post("/v1/agents/demanding", json=request)
    assert answer.json()["error"]["code"] == -32603
    assert "urn:test:required" in answer.json()["error"]["message"]


async def test_a_card_can_be_read_by_old_clients(
    unversioned: httpx.AsyncClient, gateway: str, settings: GatewaySettings
) -> None:
    card = (await unversioned.get("/.well-known/agent-card.json")).json()
    read = OldCard.model_validate(card)
    url = f"{gateway}/v1/agents/assistant"
    assert (read.url, read.preferred_transport, read.protocol_version) == (url, "JSONRPC", "0.3")
    others = [(at.transport, at.url) for at in read.additional_interfaces or ()]
    assert others == [("HTTP+JSON", url), ("GRPC", f"127.0.0.1:{settings.grpc_port}")]
    assert [at["protocolVersion"] for at in card["supportedInterfaces"]] == ["1.0"] * 3


async def test_over_grpc_old_clients_are_sent_to_no_agent_but_the_default(
    unversioned: httpx.AsyncClient, gateway: str
) -> None:
    card = (await unversioned.get("/v1/agents/ask/.well-known/agent-card.json")).json()
    others = OldCard.model_validate(card).additional_interfaces or ()
    assert [(at.transport, at.url) for at in others] == [("HTTP+JSON", f"{gateway}/v1/agents/ask")]
    assert [at["protocolBinding"] for at in card["supportedInterfaces"]][-1] == "GRPC"


async def test_a_route_with_a_tenant_goes_to_the_agent_that_it_names(
    http: httpx.AsyncClient,
) -> None:
    message = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
    for path, is_asked in (
        ("/ask/message:send", True),
        ("/anybody/message:send", False),
        ("/v1/agents/ask/anybody/message:send", True),
        ("/v1/agents/ask/assistant/message:send", True),
    ):
        task = (await http.post(path, json=message)).json()["task"]
        asks = task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert asks == is_asked, path
        base = path.removesuffix("/message:send")
        assert (await http.get(f"{base}/tasks/{task['id']}")).json()["id"] == task["id"]
        listed = (await http.get(f"{base}/tasks?contextId={task['contextId']}")).json()
        assert [one["id"] for one in listed["tasks"]] == [task["id"]]
