"""Bad input: each a clear error in the shape of its binding."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from headrace.model.task import mint_task_id
from headrace_gateway.settings import GatewaySettings
from tests.support.clients.bindings import Json, Refusal, Rest, Rpc, Talk, message
from tests.support.clients.websocket import connect
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports


def is_invalid(refusal: Refusal) -> bool:
    return (refusal.status, refusal.code) in ((200, -32602), (400, 400)) and (
        refusal.reason == "INVALID_PARAMS"
    )


@pytest.mark.parametrize("body", [b"", b"{", b'{"a":NaN}', b"\xff", b'{"a":1}}'])
async def test_malformed_json(http: httpx.AsyncClient, body: bytes) -> None:
    response = await http.post("/", content=body)
    assert response.status_code == 200
    answer = response.json()
    assert (answer["jsonrpc"], answer["id"], answer["error"]["code"]) == ("2.0", None, -32700)
    if body:  # without a body, REST reads no parameters
        response = await http.post("/message:send", content=body)
        assert response.status_code == 400
        assert response.json()["error"]["status"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    "request_body",
    [
        [],
        [{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x"}}],
        "text",
        {"id": 1, "method": "GetTask"},
        {"jsonrpc": "1.0", "id": 1, "method": "GetTask"},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "id": 1, "method": 5},
        {"jsonrpc": "2.0", "id": {"a": 1}, "method": "GetTask"},
        {"jsonrpc": "2.0", "id": True, "method": "GetTask"},
    ],
)
async def test_what_is_no_json_rpc_request(http: httpx.AsyncClient, request_body: object) -> None:
    response = await http.post("/", json=request_body)
    assert response.status_code == 200
    assert response.json()["error"]["code"] == -32600


@pytest.mark.parametrize(
    "request_id", ["a", "", 0, -1, 2**63, 2**64 - 1, -(2**63), 1.5, None, 2**64, -(10**30)]
)
async def test_a_json_rpc_id_comes_back_as_it_went(
    http: httpx.AsyncClient, request_id: object
) -> None:
    request = {"jsonrpc": "2.0", "id": request_id, "method": "ListTasks"}
    answer = await http.post("/", json=request)
    assert "result" in answer.json()
    assert json.dumps(answer.json()["id"]) == json.dumps(request_id)


@pytest.mark.parametrize("stated", ["text/plain", "application/xml", "multipart/form-data", "json"])
async def test_a_body_that_is_declared_as_something_else_is_refused(
    http: httpx.AsyncClient, stated: str
) -> None:
    headers = {"Content-Type": stated}
    request = {"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": message()}
    answer = (await http.post("/", content=json.dumps(request), headers=headers)).json()
    assert answer["error"]["code"] == -32005
    body = json.dumps(message())
    response = await http.post("/message:send", content=body, headers=headers)
    (detail,) = response.json()["error"]["details"]
    assert (response.status_code, detail["reason"]) == (400, "CONTENT_TYPE_NOT_SUPPORTED")


@pytest.mark.parametrize(
    "stated",
    ["application/json", "Application/JSON; charset=utf-8", "application/a2a+json", None],
)
async def test_a_body_is_taken_as_json_of_any_kind_or_undeclared(
    http: httpx.AsyncClient, stated: str | None
) -> None:
    headers = {} if stated is None else {"Content-Type": stated}
    request = {"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": message()}
    answer = (await http.post("/", content=json.dumps(request), headers=headers)).json()
    assert answer["result"]["task"]
    body = json.dumps(message())
    assert (await http.post("/message:send", content=body, headers=headers)).is_success


async def test_a_route_takes_json_as_curl_sends_it_by_itself(http: httpx.AsyncClient) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    body = json.dumps(message())
    assert (await http.post("/message:send", content=body, headers=headers)).is_success


@pytest.mark.parametrize("params", [[1], "text", 5])
async def test_json_rpc_parameters_go_by_name(http: httpx.AsyncClient, params: object) -> None:
    request = {"jsonrpc": "2.0", "id": "call-1", "method": "GetTask", "params": params}
    answer = (await http.post("/", json=request)).json()
    assert answer["id"] == "call-1"
    assert answer["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("params", "field", "rule"),
    [
        ({}, "message", "required"),
        ({"message": None}, "message", "required"),
        ({"message": "text"}, "message", "object"),
        ({"message": {}}, "message.parts", "empty"),
        (message(messageId=""), "message.messageId", "required"),
        (message(messageId=5), "message.messageId", "string"),
        (message(role="ROLE_ASSISTANT"), "message.role", "ROLE_AGENT"),
        (message(role="ROLE_AGENT"), "message.role", "must be ROLE_USER"),
        (message(parts=[]), "message.parts", "empty"),
        (message(parts={"text": "hi"}), "message.parts", "list"),
        (message(parts=["hi"]), "message.parts[0]", "object"),
        (message(parts=[{}]), "message.parts[0]", "one of text"),
        (message(parts=[{"text": "hi"}, {"text": 5}]), "message.parts[1].text", "string"),
        (message(parts=[{"text": "a", "url": "b"}]), "message.parts[0].url", "combined with text"),
        (message(parts=[{"raw": "?"}]), "message.parts[0].raw", "base64"),
        (message(metadata=[]), "message.metadata", "object"),
        (message(contextId="x" * 257), "message.contextId", "256"),
        (message() | {"configuration": 1}, "configuration", "object"),
        (
            message() | {"configuration": {"historyLength": -1}},
            "configuration.historyLength",
            "negative",
        ),
        (
            message() | {"configuration": {"historyLength": "many"}},
            "configuration.historyLength",
            "integer",
        ),
        (
            message() | {"configuration": {"returnImmediately": "yes"}},
            "configuration.returnImmediately",
            "true or false",
        ),
    ],
)
@pytest.mark.parametrize("operation", ["SendMessage", "SendStreamingMessage"])
async def test_errors_of_a_message_name_field_and_rule(
    json_talk: Talk, operation: str, params: Json, field: str, rule: str
) -> None:
    refusal = await json_talk.refused(operation, params)
    assert is_invalid(refusal), refusal
    assert rule in refusal.fields[field]
    assert field in refusal.text


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"pageSize": 0}, "pageSize"),
        ({"pageSize": 101}, "pageSize"),
        ({"pageSize": "x"}, "pageSize"),
        ({"status": "TASK_STATE_DONE"}, "status"),
        ({"statusTimestampAfter": "yesterday"}, "statusTimestampAfter"),
        ({"historyLength": -1}, "historyLength"),
        ({"pageToken": "forged"}, "pageToken"),
        ({"contextId": "x" * 257}, "contextId"),
        ({"includeArtifacts": "maybe"}, "includeArtifacts"),
    ],
)
async def test_errors_of_a_list_name_the_field(json_talk: Talk, params: Json, field: str) -> None:
    refusal = await json_talk.refused("ListTasks", params)
    assert is_invalid(refusal), refusal
    assert field in refusal.fields


@pytest.mark.parametrize("field", ["contextId", "pageToken"])
async def test_a_list_whose_question_is_larger_than_a_bus_message_is_refused(
    http: httpx.AsyncClient, field: str
) -> None:
    refusal = await Rpc(http).refused("ListTasks", {field: "x" * 2_000_000})
    assert (refusal.code, list(refusal.fields)) == (-32602, [field])
    assert "must not be longer than" in refusal.fields[field]


async def test_an_unknown_method(http: httpx.AsyncClient) -> None:
    refusal = await Rpc(http).refused("SendPigeon", {})
    assert (refusal.status, refusal.code) == (200, -32601)
    for method, path in (("GET", "/v1/agents/assistant/pigeons"), ("POST", "/pigeon:send")):
        response = await http.request(method, path)
        assert (response.status_code, response.json()["error"]["status"]) == (404, "NOT_FOUND")
    response = await http.delete("/v1/agents/assistant/tasks")
    assert response.status_code == 405
    assert sorted(response.headers["allow"].split(", ")) == ["GET", "HEAD"]
    assert response.json()["error"]["details"][0]["reason"] == "METHOD_NOT_FOUND"


@pytest.mark.parametrize("agent", ["nobody", "a.b", "*", ">", "a b", "%2E%2E", "x" * 300])
async def test_an_unknown_agent(talk: Talk, agent: str) -> None:
    for operation, params in (
        ("SendMessage", message()),
        ("SendStreamingMessage", message()),
        ("GetTask", {"id": mint_task_id(0)}),
        ("ListTasks", {}),
    ):
        refusal = await talk.to(agent).refused(operation, params)
        assert (refusal.status, refusal.reason) == (404, "AGENT_NOT_FOUND")
        assert refusal.code in (404, -32602)


@pytest.mark.parametrize(
    "task",
    [mint_task_id(0), mint_task_id(999), "nothing", "0-*", "0.1", ">", "0-" + "a" * 33, "task id"],
    ids=["minted", "of no stream", "a word", "wildcard", "token", "rest", "too long", "space"],
)
async def test_an_unknown_task(talk: Talk, task: str) -> None:
    for operation in ("GetTask", "CancelTask", "SubscribeToTask"):
        refusal = await talk.refused(operation, {"id": task})
        assert (refusal.reason, refusal.code in (404, -32001)) == ("TASK_NOT_FOUND", True)
    for operation in ("SendMessage", "SendStreamingMessage"):
        refusal = await talk.refused(operation, message(taskId=task))
        assert refusal.reason == "TASK_NOT_FOUND"
    after = await talk.refused_stream("SubscribeToTask", {"id": task}, "abcdefgh:1")
    assert after.reason == "TASK_NOT_FOUND"


async def test_another_agents_task_is_unknown(talk: Talk) -> None:
    task = (await talk.call("SendMessage", message()))["task"]["id"]
    refusal = await talk.to("ask").refused("GetTask", {"id": task})
    assert refusal.reason == "TASK_NOT_FOUND"


async def test_another_owners_task_looks_like_a_missing_one(
    talk: Talk, fleet: ScriptedFleet
) -> None:
    theirs = (await fleet.foreign_task("assistant", "secret-context")).task
    for operation in ("GetTask", "CancelTask", "SubscribeToTask"):
        theirs_refused = await talk.refused(operation, {"id": theirs})
        nobodys_refused = await talk.refused(operation, {"id": (nobodys := mint_task_id(0))})
        assert theirs_refused.reason == "TASK_NOT_FOUND"
        assert theirs_refused.text.replace(theirs, "") == nobodys_refused.text.replace(nobodys, "")
    resumed = await talk.refused_stream("SubscribeToTask", {"id": theirs}, "abcdefgh:1")
    assert resumed.reason == "TASK_NOT_FOUND"
    assert theirs not in str(await talk.call("ListTasks", {}))


async def test_another_owners_context_id_is_treated_as_a_new_one(
    talk: Talk, fleet: ScriptedFleet
) -> None:
    theirs = await fleet.foreign_task("assistant", "secret-context")
    task = (await talk.call("SendMessage", message(contextId="secret-context")))["task"]
    assert task["contextId"] == "secret-context"
    listed = (await talk.call("ListTasks", {"contextId": "secret-context"}))["tasks"]
    assert theirs.task not in [one["id"] for one in listed]
    task = (await talk.call("SendMessage", message(contextId="a new one / of mine")))["task"]
    assert task["contextId"] == "a new one / of mine"
    again = (await talk.call("SendMessage", message(contextId="a new one / of mine")))["task"]
    assert again["id"] != task["id"]


@pytest.mark.parametrize("url", ["headrace-file:a/tasks/0-1/files/ab", " Headrace-File:x"])
async def test_a_link_of_the_fleet_is_no_url_for_clients(talk: Talk, url: str) -> None:
    sent = message()
    sent["message"]["parts"].append({"url": url})
    refusal = await talk.refused("SendMessage", sent)
    assert is_invalid(refusal)
    [(field, rule)] = refusal.fields.items()
    assert field == "message.parts[1].url"
    assert rule.startswith("must not begin with headrace-file:")


async def test_a_task_of_another_context(talk: Talk) -> None:
    task = (await talk.to("ask").call("SendMessage", message()))["task"]["id"]
    refusal = await talk.to("ask").refused("SendMessage", message(taskId=task, contextId="other"))
    assert is_invalid(refusal)
    assert "message.contextId" in refusal.fields


async def test_a_message_to_a_finished_task(talk: Talk) -> None:
    task = (await talk.call("SendMessage", message()))["task"]["id"]
    for operation in ("SendMessage", "SendStreamingMessage"):
        refusal = await talk.refused(operation, message(taskId=task))
        assert (refusal.reason, refusal.code in (400, -32004)) == ("UNSUPPORTED_OPERATION", True)


async def test_cancel_of_a_finished_task(talk: Talk) -> None:
    task = (await talk.call("SendMessage", message()))["task"]["id"]
    refusal = await talk.refused("CancelTask", {"id": task})
    assert (refusal.reason, refusal.code in (400, -32002)) == ("TASK_NOT_CANCELABLE", True)


@pytest.mark.parametrize(
    "part",
    [
        {"data": {"a": 1}},
        {"url": "https://example.com/a.png", "mediaType": "image/png"},
        {"raw": "AAAA"},
        {"text": "# hi", "mediaType": "text/markdown"},
    ],
)
async def test_a_part_that_the_agent_does_not_take(talk: Talk, part: Json) -> None:
    refusal = await talk.refused("SendMessage", message(parts=[{"text": "look"}, part]))
    assert refusal.reason == "CONTENT_TYPE_NOT_SUPPORTED"
    assert refusal.code in (400, -32005)
    assert "text/plain" in refusal.text
    assert "message.parts[1]" in refusal.text


@pytest.mark.parametrize("version", ["0.2", "2.0", "1.1", "1", "latest", "9" * 5000])
async def test_an_unsupported_version(talk: Talk, version: str) -> None:
    talk.http.headers["A2A-Version"] = version
    refusal = await talk.refused("SendMessage", message())
    assert (refusal.reason, refusal.code in (400, -32009)) == ("VERSION_NOT_SUPPORTED", True)


@pytest.mark.parametrize("version", ["1.0", "1.0.1"])
async def test_a_supported_version(talk: Talk, version: str) -> None:
    talk.http.headers["A2A-Version"] = version
    assert "task" in await talk.call("SendMessage", message())


async def test_the_version_may_stand_in_the_query(http: httpx.AsyncClient) -> None:
    del http.headers["A2A-Version"]
    assert (await http.get("/tasks", params={"A2A-Version": "1.0"})).is_success
    response = await http.get("/tasks", params={"A2A-Version": "3.0"})
    assert response.json()["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"


@pytest.mark.parametrize("sent", ["with its length", "in chunks"])
async def test_a_body_over_the_limit(
    http: httpx.AsyncClient, settings: GatewaySettings, sent: str
) -> None:
    body = b'{"message": "' + b"x" * settings.max_body_bytes + b'"}'

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 10_000):
            yield body[start : start + 10_000]

    for path in ("/", "/message:send", "/v1/agents/ask/message:stream"):
        response = await http.post(path, content=chunks() if sent == "in chunks" else body)
        assert response.status_code == 413
        error = response.json()["error"]
        assert error["code"] == (-32600 if path == "/" else 413)
        assert str(settings.max_body_bytes) in error["message"]


async def test_small_values_beyond_what_a_log_holds_are_refused_unread(
    http: httpx.AsyncClient, gateway: str
) -> None:
    params = message()
    params["message"]["parts"] = [{"text": "a"}] * 250_000
    for talk in (Rest(http), Rpc(http)):
        refusal = await talk.refused("SendMessage", params)
        assert (refusal.status, refusal.reason) == (413, "REQUEST_TOO_LARGE")
        assert "without its files" in refusal.text
    async with connect(f"{gateway.replace('http', 'ws', 1)}/stream") as socket:
        await socket.send(json.dumps({"id": 1, "send": params}))
        received = json.loads(await asyncio.wait_for(socket.recv(), 60))
    assert received["error"]["details"][0]["reason"] == "REQUEST_TOO_LARGE"


async def test_a_message_that_no_bus_message_holds(
    settings: GatewaySettings, fleet: ScriptedFleet
) -> None:
    most = fleet.bus.max_payload
    generous = {"max_body_bytes": 2 * most, "http_port": ports.pick(), "grpc_port": 0}
    async with (
        running(settings.model_copy(update=generous)) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as http,
    ):
        refusal = await Rpc(http).refused("SendMessage", message("x" * most))
    assert (refusal.status, refusal.code, refusal.reason) == (413, -32600, "REQUEST_TOO_LARGE")


async def test_an_agent_may_offer_no_push_notifications(talk: Talk) -> None:
    config = {"taskId": mint_task_id(0), "id": "c", "url": "https://example.com"}
    talk = talk.to("bare")
    for operation in (
        "CreateTaskPushNotificationConfig",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
    ):
        refusal = await talk.refused(operation, config)
        assert refusal.reason == "PUSH_NOTIFICATION_NOT_SUPPORTED"
    params = message() | {"configuration": {"taskPushNotificationConfig": {"url": "https://a.b"}}}
    refusal = await talk.refused("SendMessage", params)
    assert (refusal.reason, refusal.code in (400, -32003)) == (
        "PUSH_NOTIFICATION_NOT_SUPPORTED",
        True,
    )


async def test_the_extended_card_is_not_offered(talk: Talk) -> None:
    refusal = await talk.refused("GetExtendedAgentCard", {})
    assert (refusal.reason, refusal.code in (400, -32004)) == ("UNSUPPORTED_OPERATION", True)


async def test_errors_come_in_the_media_type_that_was_requested(http: httpx.AsyncClient) -> None:
    for accept, expected in (
        ("application/a2a+json", "application/a2a+json"),
        ("*/*", "application/json"),
    ):
        response = await http.get("/tasks/none", headers={"Accept": accept})
        assert response.headers["content-type"] == expected
        response = await http.get("/tasks", headers={"Accept": accept})
        assert response.headers["content-type"] == expected


async def test_an_unexpected_error_is_reported_without_its_text(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr("headrace_gateway.protocols.a2a.operations.task_key", fail)
    response = await http.get("/tasks/any")
    assert (response.status_code, "secret" in response.text) == (500, False)
    assert "incident" in response.json()["error"]["message"]
    refusal = await Rpc(http).refused("GetTask", {"id": "any"})
    assert (refusal.status, refusal.code, refusal.reason) == (200, -32603, "INTERNAL_ERROR")


async def test_a_host_that_is_none_is_refused_in_json(http: httpx.AsyncClient) -> None:
    for path in ("/.well-known/agent-card.json", "/tasks"):
        response = await http.get(path, headers={"Host": "[::1"})
        assert response.status_code == 403
        assert response.json()["error"]["status"] == "PERMISSION_DENIED"
