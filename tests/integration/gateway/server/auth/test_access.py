"""Who may do what, and how often: the same on every protocol."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import grpc.aio
import httpx
import pytest
import pytest_asyncio
from starlette.datastructures import Headers

from headrace.log_lines import JsonFormatter
from headrace_gateway.server.auth.access import Access, RateBucket
from headrace_gateway.server.auth.authenticate import Callers
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.timing import GatewayTiming
from tests.support.agui.runs import path as agui
from tests.support.agui.runs import run_input
from tests.support.clients.bindings import Rest, Rpc, Talk, message
from tests.support.clients.grpc_binding import Grpc
from tests.support.clients.websocket import connect, socket_to
from tests.support.credentials import ANN, EVE, Person, write
from tests.support.plain_http import NO_TLS
from tests.support.protocol_table import WITH_JSON_LINES
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports
from tests.support.waiting import TIMEOUT, eventually

READER = Person("acme", "reader", ("reader",))
OPERATOR = Person("acme", "operator", ("on-call",))
NOBODY = Person("acme", "nobody", ())
ROLES = """
[[role]]
name = "reader"
agents = ["assistant"]
operations = ["read"]

[[role]]
name = "on-call"
operator = true
operations = ["read", "cancel"]
"""
BINDINGS = pytest.mark.parametrize("binding", [Rest, Rpc, Grpc])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(
    settings: GatewaySettings,
    one_fleet: ScriptedFleet,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[GatewaySettings]:
    """A gateway that knows roles, by its settings."""
    assert one_fleet.working
    folder = tmp_path_factory.mktemp("access")
    file = write(folder / "credentials.toml", ANN, EVE, READER, OPERATOR, NOBODY, head=ROLES)
    update = {"credentials": file, "http_port": ports.pick(), "grpc_port": ports.pick()}
    guarded = settings.model_copy(update=update)
    async with running(guarded, WITH_JSON_LINES):
        yield guarded


@asynccontextmanager
async def client(guarded: GatewaySettings, person: Person) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"A2A-Version": "1.0", **person.bearer}
    url = f"http://127.0.0.1:{guarded.http_port}"
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60, verify=NO_TLS) as http:
        yield http


@asynccontextmanager
async def talking(
    guarded: GatewaySettings, binding: type[Talk], person: Person, agent: str = "assistant"
) -> AsyncIterator[Talk]:
    async with client(guarded, person) as http:
        if binding is not Grpc:
            yield binding(http, agent)
            return
        async with grpc.aio.insecure_channel(f"127.0.0.1:{guarded.grpc_port}") as channel:
            yield Grpc(http, agent, channel)


@BINDINGS
async def test_what_a_role_does_not_include_is_refused(
    guarded: GatewaySettings, fleet: ScriptedFleet, binding: type[Talk]
) -> None:
    async with talking(guarded, binding, READER) as talk:
        assert (await talk.call("ListTasks", {})).get("tasks", []) == []
        for operation, params in (
            ("SendMessage", message("hello")),
            ("SendStreamingMessage", message("hello")),
            ("CancelTask", {"id": "0-" + "0" * 32}),
        ):
            refusal = await talk.refused(operation, params)
            assert (refusal.status, refusal.reason) == (403, "PERMISSION_DENIED"), operation
        elsewhere = await talk.to("ask").refused("ListTasks", {})
        assert elsewhere.reason == "PERMISSION_DENIED"
    assert fleet.runs == []


async def test_ag_ui_copilotkit_and_sockets_refuse_it_too(
    guarded: GatewaySettings, fleet: ScriptedFleet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "headrace.audit")
    async with client(guarded, READER) as http:
        for path in (agui("assistant"), "/copilotkit/agent/assistant/run"):
            answer = await http.post(path, json=run_input())
            assert answer.status_code == 403
            assert answer.json()["error"]["code"] == "permission_denied"
        stop = await http.post(f"{agui('assistant')}/stop", json={"threadId": "t"})
        assert stop.status_code == 403
        # They are denied before their bodies are read, which would name the thread.
        denied = [one.__dict__["audit"] for one in caplog.records]
        assert [one["operation"] for one in denied] == ["SendStreamingMessage"] * 2 + ["CancelTask"]
        assert (await http.get(f"{agui('assistant')}/threads/t")).status_code == 404
    url = f"http://127.0.0.1:{guarded.http_port}"
    path = "/v1/agents/assistant/stream"
    async with socket_to(url, path, additional_headers=READER.bearer) as socket:
        await socket.send({"id": 1, "send": message("hello")})
        assert (await socket.next(1))["error"]["code"] == 403
    frame = run_input()
    async with connect(
        f"ws://127.0.0.1:{guarded.http_port}{agui('assistant')}/ws",
        additional_headers=READER.bearer,
    ) as run_socket:
        await run_socket.send(json.dumps(frame))
        assert json.loads(await run_socket.recv())["code"] == "permission_denied"
    assert caplog.records[-1].audit["thread"] == frame["threadId"]  # type: ignore[attr-defined]
    assert fleet.runs == []


async def test_a_new_protocol_can_not_forget_to_ask(
    guarded: GatewaySettings, fleet: ScriptedFleet
) -> None:
    task = "0-" + "0" * 32
    async with client(guarded, READER) as http:
        assert (await http.post("/lines/assistant", content="hello")).status_code == 403
        assert (await http.delete(f"/lines/assistant/{task}")).status_code == 403
        assert (await http.get(f"/lines/assistant/{task}")).status_code == 404
        assert (await http.get(f"/lines/ask/{task}")).status_code == 403
    assert fleet.runs == []


CALL = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "0-" + "0" * 32}}
THREAD = {"threadId": "t"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/agents/assistant", CALL),
        ("/v1/agents/assistant/rpc", CALL),
        ("/v1/agents/assistant/stream", CALL),
        ("/v1/agents/assistant/tasks/x:cancel", {}),
        (f"{agui('assistant')}/attach", THREAD),
        (f"{agui('assistant')}/stop", THREAD),
        ("/copilotkit/agent/assistant/connect", run_input()),
        ("/copilotkit/agent/assistant/stop/t", {}),
        (
            "/copilotkit",
            {"method": "agent/stop", "params": {"agentId": "assistant", **THREAD}},
        ),
        ("/lines/assistant", {}),
    ],
)
async def test_the_caller_is_looked_up_and_counted_once(
    guarded: GatewaySettings, monkeypatch: pytest.MonkeyPatch, path: str, body: object
) -> None:
    looks, counted = list[object](), list[str]()
    of, admit = Callers.of, Access.admit

    def looked_up(callers: Callers, headers: Headers, *, of_any_agent: bool = False) -> Caller:
        looks.append(headers)
        return of(callers, headers, of_any_agent=of_any_agent)

    def asked(
        access: Access, caller: Caller, agent: str, operation: str, task: str = "", **named: str
    ) -> None:
        counted.append(operation)
        admit(access, caller, agent, operation, task, **named)

    monkeypatch.setattr(Callers, "of", looked_up)
    monkeypatch.setattr(Access, "admit", asked)
    async with client(guarded, ANN) as http, http.stream("POST", path, json=body) as answer:
        assert answer.status_code < 500
    assert (len(looks), len(counted)) == (1, 1)


@BINDINGS
@pytest.mark.usefixtures("fleet")
async def test_an_operator_sees_and_ends_its_tenants_tasks(
    guarded: GatewaySettings, binding: type[Talk], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headrace.audit")
    async with AsyncExitStack() as stack:
        ann = await stack.enter_async_context(talking(guarded, Rest, ANN, "patient"))
        eve = await stack.enter_async_context(talking(guarded, Rest, EVE, "patient"))
        operator = await stack.enter_async_context(talking(guarded, binding, OPERATOR, "patient"))
        sent = message("hello") | {"configuration": {"returnImmediately": True}}
        [hers, foreign] = [(await one.call("SendMessage", sent))["task"] for one in (ann, eve)]
        found = await operator.call("GetTask", {"id": hers["id"]})
        assert found["id"] == hers["id"]
        listed = [task["id"] for task in (await operator.call("ListTasks", {}))["tasks"]]
        assert hers["id"] in listed
        assert foreign["id"] not in listed
        async with operator.stream("SubscribeToTask", {"id": hers["id"]}) as stream:
            _, first = await anext(stream.frames())
            assert first["task"]["id"] == hers["id"]
        for operation in ("GetTask", "CancelTask"):
            refusal = await operator.refused(operation, {"id": foreign["id"]})
            assert refusal.reason == "TASK_NOT_FOUND"
        follow = message("more", taskId=hers["id"])
        assert (await operator.refused("SendMessage", follow)).reason == "PERMISSION_DENIED"
        ended = await operator.call("CancelTask", {"id": hers["id"]})
        assert ended["status"]["state"] == "TASK_STATE_CANCELED"
    audited = [record.getMessage() for record in caplog.records if record.name == "headrace.audit"]
    assert f"CancelTask agent=patient task={hers['id']} target_owner=ann" in audited[-1]
    named = hers["id"] if binding is Rpc else "-"  # Denied after the body is read, or before it.
    assert f"SendMessage agent=patient task={named} target_owner=-" in audited[-2]
    assert sum(f"task={foreign['id']} target_owner=- " in line for line in audited) == 2
    assert all("owner=operator" in line for line in audited)


@pytest.mark.usefixtures("fleet")
async def test_lines_of_the_audit_log_name_the_task_that_is_reached_and_the_trace(
    guarded: GatewaySettings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headrace.audit")
    caplog.handler.setFormatter(JsonFormatter("headrace-gateway"))
    sent = message("hello") | {"configuration": {"returnImmediately": True}}
    async with client(guarded, ANN) as ann, client(guarded, OPERATOR) as operator:
        task = (await Rest(ann, "patient").call("SendMessage", sent))["task"]["id"]
        operator.headers["traceparent"] = f"00-{'a' * 32}-{'b' * 16}-01"
        rpc = Rpc(operator, "patient")
        await rpc.call("GetTask", {"id": task, "taskId": "other"})
        # Both spellings are read; other members are ignored, and may name anything.
        for spelling in ("taskId", "task_id"):
            follow = message("more") | {"id": "other", "taskId": "other"}
            follow["message"] |= {spelling: task}
            await rpc.refused("SendMessage", follow)
        rest = Rest(operator, "patient")
        await rest.call("CancelTask", {"id": task})
        # Denied before its body is read.
        await rest.refused("SendMessage", message("more", taskId=task))
        assert (await operator.post("/v1/workers/nobody:drain")).status_code == 403
    lines = [json.loads(line) for line in caplog.text.splitlines() if "headrace.audit" in line]
    named = [(line["operation"], line["task"]) for line in lines]
    assert named == [
        ("GetTask", task),
        *[("SendMessage", task)] * 2,
        ("CancelTask", task),
        ("SendMessage", "-"),
        ("DrainWorker", "-"),
    ]
    assert {line.get("trace_id") for line in lines} == {"a" * 32}


NO_JSON = b"{"


@pytest.mark.parametrize(
    "path",
    [
        "/v1/agents/assistant/message:send",
        agui("assistant"),
        f"{agui('assistant')}/attach",
        f"{agui('assistant')}/stop",
        "/copilotkit/agent/assistant/run",
    ],
)
async def test_a_denied_request_is_audited_before_its_body_is_read(
    guarded: GatewaySettings, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    caplog.set_level(logging.WARNING, "headrace.audit")
    headers = {"Content-Type": "application/json"}
    async with client(guarded, NOBODY) as http:
        answer = await http.post(path, content=NO_JSON, headers=headers)
    assert answer.status_code == 403
    [line] = [one.__dict__["audit"] for one in caplog.records if one.name == "headrace.audit"]
    assert (line["owner"], line["agent"], line["outcome"]) == ("nobody", "assistant", "denied")


async def test_a_denied_rpc_that_names_its_agent_is_refused_before_its_message_is_read(
    guarded: GatewaySettings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "headrace.audit")

    async def never() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    metadata = [("agent-name", "assistant"), *((k.lower(), v) for k, v in NOBODY.bearer.items())]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{guarded.grpc_port}") as channel:
        method: grpc.aio.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(
            "/lf.a2a.v1.A2AService/SendMessage"
        )
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            # Less than the gateway waits for a message.
            await method(never(), metadata=metadata, timeout=GatewayTiming().rpc_message / 2)
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    [line] = [one.__dict__["audit"] for one in caplog.records if one.name == "headrace.audit"]
    assert (line["owner"], line["agent"], line["outcome"]) == ("nobody", "assistant", "denied")


async def _malformed_socket(url: str, path: str, frame: str) -> str:
    async with connect(f"{url.replace('http', 'ws')}{path}") as socket:
        await socket.send(frame)
        return str(await asyncio.wait_for(socket.recv(), TIMEOUT))


async def test_a_request_whose_operation_can_not_be_read_counts_once(
    settings: GatewaySettings, one_fleet: ScriptedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert one_fleet.working
    monkeypatch.setattr(RateBucket, "fill", lambda *_: None)  # No time brings another request.
    headers = {"Content-Type": "application/json", "A2A-Version": "1.0"}
    agent = "/v1/agents/assistant"
    paths = [
        agent,
        f"{agent}/message:send",
        f"{agent}/rpc",
        f"{agent}/stream",
        agui("assistant"),
        f"{agui('assistant')}/attach",
        "/copilotkit",
    ]
    update = {
        "owner_requests_per_minute": len(paths) + 3,
        "http_port": ports.pick(),
        "grpc_port": ports.pick(),
    }
    limited = settings.model_copy(update=update)
    async with (
        running(limited, WITH_JSON_LINES) as url,
        httpx.AsyncClient(base_url=url, headers=headers, timeout=60, verify=NO_TLS) as http,
        grpc.aio.insecure_channel(f"127.0.0.1:{limited.grpc_port}") as channel,
    ):

        async def malformed_rpc() -> grpc.StatusCode:
            method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                "/lf.a2a.v1.A2AService/SendMessage"
            )
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await method(b"\xff", timeout=TIMEOUT)
            return refused.value.code()

        async def limited_paths() -> list[str]:
            answers = {path: await http.post(path, content=NO_JSON) for path in paths}
            assert all("error" in answer.json() for answer in answers.values())
            return [path for path, one in answers.items() if "RATE_LIMITED" in one.text.upper()]

        assert await limited_paths() == []
        assert await malformed_rpc() is grpc.StatusCode.INVALID_ARGUMENT
        assert "429" not in await _malformed_socket(url, f"{agent}/stream", "{")
        assert "rate_limited" not in await _malformed_socket(url, f"{agui('assistant')}/ws", "{")
        # That was the limit.
        assert await limited_paths() == paths
        assert await malformed_rpc() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "429" in await _malformed_socket(url, f"{agent}/stream", "{")
        assert "rate_limited" in await _malformed_socket(url, f"{agui('assistant')}/ws", "{")
        assert (await http.get(f"{agent}/tasks")).status_code == 429


RPC = {"jsonrpc": "2.0", "id": 1, "params": {}}
REFUSED_FRAMES = {
    "-32009": ("/v1/agents/assistant/stream", RPC | {"method": "message/send"}, 0),
    "-32601": ("/v1/agents/assistant/stream", RPC | {"method": "NoMethod"}, 0),
    "body_too_large": (f"{agui('assistant')}/ws", {"many": [{"a": 1}] * 300_000}, 0),
    "too_many_streams": (f"{agui('assistant')}/ws", run_input(), 1),
}
"""By what their answer contains: a path, a frame, and how many other WebSockets are open."""


async def test_every_frame_that_is_refused_counts(
    settings: GatewaySettings, one_fleet: ScriptedFleet, tmp_path: Path
) -> None:
    assert one_fleet.working
    people = {reason: Person("acme", f"owner{n}") for n, reason in enumerate(REFUSED_FRAMES)}
    update = {
        "credentials": write(tmp_path / "credentials.toml", *people.values()),
        "owner_requests_per_minute": 1,
        "max_streams_per_owner": 2,
        "http_port": ports.pick(),
        "grpc_port": 0,
    }
    guarded = settings.model_copy(update=update)
    allowed = list[str]()
    async with running(guarded, WITH_JSON_LINES) as url:
        for reason, (path, frame, others) in REFUSED_FRAMES.items():
            bearer = people[reason].bearer
            socket_url = f"{url.replace('http', 'ws')}{path}"
            async with AsyncExitStack() as stack:
                sockets = [
                    await stack.enter_async_context(connect(socket_url, additional_headers=bearer))
                    for _ in range(others + 1)
                ]
                await sockets[0].send(json.dumps(frame))
                assert reason in str(await sockets[0].recv())
            async with client(guarded, people[reason]) as http:
                if (await http.get("/v1/agents/assistant/tasks")).status_code != 429:
                    allowed.append(reason)
    assert allowed == []


async def test_rates_are_bounded_over_all_gateways_with_a_time_to_come_back(
    settings: GatewaySettings, one_fleet: ScriptedFleet
) -> None:
    assert one_fleet.working
    async with AsyncExitStack() as stack:
        gateways = []
        for _ in range(2):
            update = {
                # Half a minute brings the next one: what follows takes less.
                "owner_requests_per_minute": 2,
                "http_port": ports.pick(),
                "grpc_port": 0,
            }
            url = await stack.enter_async_context(running(settings.model_copy(update=update)))
            http = httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS)
            gateways.append(await stack.enter_async_context(http))
        first = [await one.get("/v1/agents/assistant/tasks") for one in gateways]
        assert [answer.status_code for answer in first] == [200, 200]

        async def both_refuse() -> bool:
            answers = [await one.get("/v1/agents/assistant/tasks") for one in gateways]
            return all(answer.status_code == 429 for answer in answers)

        await eventually(both_refuse, "what one gateway served counts at the other")
        for http in gateways:
            refused = await http.post("/v1/agents/assistant/message:send", json=message("hello"))
            assert refused.status_code == 429
            assert 1 <= int(refused.headers["retry-after"]) <= 120
            assert refused.json()["error"]["details"][0]["reason"] == "RATE_LIMITED"
            received = await http.post(agui("assistant"), json=run_input())
            assert (received.status_code, received.json()["error"]["code"]) == (429, "rate_limited")
            assert json.loads(received.text)["error"]["message"] == (
                "you may send 2 requests per minute; try again later"
            )
            # Cards and probes are not counted.
            assert (await http.get("/v1/agents")).is_success
