"""WebSockets: many tasks over one connection, each exactly as its log has it."""

import asyncio
import json
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import suppress

import httpx
import pytest
import pytest_asyncio
from websockets.exceptions import ConnectionClosed, InvalidStatus

from headrace.jetstream.connection import Bus
from headrace.log import LogWriter
from headrace_gateway.settings import GatewaySettings
from tests.support.clients.bindings import Rest, message
from tests.support.clients.websocket import Json, Socket, connect, socket_to
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports
from tests.support.waiting import eventually

PATIENT = "/v1/agents/patient/stream"


@pytest_asyncio.fixture(loop_scope="module")
async def socket(gateway: str) -> AsyncIterator[Socket]:
    """A WebSocket to the default agent."""
    async with socket_to(gateway) as socket:
        yield socket


def generations(events: list[tuple[str, Json]]) -> list[int]:
    return [int(cursor.partition(":")[2]) for cursor, _ in events]


async def runs(fleet: ScriptedFleet, count: int) -> None:
    async def are_there() -> bool:
        return len(fleet.runs) == count

    await eventually(are_there, f"{count} runs are worked on")


async def test_a_message_sent_is_streamed_as_the_log_has_it(
    socket: Socket, http: httpx.AsyncClient
) -> None:
    await socket.send({"id": 1, "send": message("hello")})
    events = await socket.events(1)
    assert [next(iter(event)) for _, event in events] == [
        "task",
        "statusUpdate",
        "artifactUpdate",
        "statusUpdate",
    ]
    task, cursor = events[0][1]["task"]["id"], events[0][0]
    async with Rest(http).stream("SubscribeToTask", {"id": task}, cursor) as stream:
        assert await stream.rest() == events[1:]


async def test_a_frame_may_have_a_trace_context_of_its_own(gateway: str) -> None:
    opened, own = (f"00-{'a' * 32}-{digit * 16}-01" for digit in "bc")
    async with socket_to(gateway, additional_headers={"traceparent": opened}) as socket:
        stated: dict[str, Json] = {
            "connection": {},
            "frame": {"traceparent": own},
            "invalid": {"traceparent": "nonsense"},
        }
        for name, member in stated.items():
            await socket.send({"id": name, "send": message("hello"), **member})
        rpc = {"jsonrpc": "2.0", "method": "SendStreamingMessage", "params": message("hello")}
        await socket.send({"id": "rpc", **rpc, "traceparent": own})
        first = [(await socket.next(name))["event"] for name in stated]
        first.append((await socket.next("rpc"))["result"])
        await socket.send({"id": 7, "cancel": {"task": "x"}, "traceparent": 7})
        assert "traceparent must be a string" in (await socket.next(7))["error"]["message"]
    traces = [event["task"]["metadata"].get("headrace.traceparent") for event in first]
    assert traces == [opened, own, None, own]


async def test_a_cursor_of_any_binding_resumes_on_any_other(
    socket: Socket, http: httpx.AsyncClient
) -> None:
    async with Rest(http).stream("SendStreamingMessage", message()) as stream:
        frames = await stream.rest()
    task = frames[0][1]["task"]["id"]
    for at in range(3):
        await socket.send({"id": at, "subscribe": {"task": task, "after": frames[at][0]}})
    for at in range(3):
        assert await socket.events(at) == frames[at + 1 :]
    await socket.send({"id": "end", "subscribe": {"task": task, "after": frames[-1][0]}})
    assert await socket.events("end") == []


async def test_a_subscription_without_cursor_begins_with_the_task_and_goes_on_live(
    gateway: str, http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    params = message() | {"configuration": {"returnImmediately": True}}
    task = (await Rest(http, "patient").call("SendMessage", params))["task"]["id"]
    await runs(fleet, 1)
    async with socket_to(gateway, PATIENT) as socket:
        await socket.send({"id": "s", "subscribe": {"task": task}})
        first = await socket.next("s")
        assert first["event"]["task"]["id"] == task
        fleet.runs[0].go_on.set()
        events = await socket.events("s")
    reflected = int(first["cursor"].partition(":")[2])
    assert generations(events) == list(range(reflected + 1, 6))


async def test_a_lost_cursor_is_reported_and_a_snapshot_comes_first(
    gateway: str, http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    params = message() | {"configuration": {"returnImmediately": True}}
    task = (await Rest(http, "patient").call("SendMessage", params))["task"]["id"]
    async with socket_to(gateway, PATIENT) as socket:
        await socket.send({"id": "s", "subscribe": {"task": task, "after": "0123abcd:2"}})
        first = await socket.next("s")
    assert first["recovered"] is False
    assert first["event"]["task"]["metadata"]["headrace.recovered"] is False
    assert fleet is not None


async def test_many_tasks_share_a_socket_and_none_waits_for_another(
    gateway: str, fleet: ScriptedFleet
) -> None:
    async with socket_to(gateway, PATIENT) as socket:
        for number in range(50):
            await socket.send({"id": number, "send": message(str(number))})
        for number in range(50):
            waiting = (await socket.next(number))["event"]["task"]["history"][0]["parts"]
            assert waiting == [{"text": str(number)}]
        await runs(fleet, 50)
        for run in reversed(fleet.runs):
            run.go_on.set()
        for number in range(50):
            assert generations(await socket.events(number)) == [2, 3, 4, 5]


async def test_a_long_log_does_not_hold_up_a_short_one(
    gateway: str, bus: Bus, fleet: ScriptedFleet
) -> None:
    async with socket_to(gateway, PATIENT) as socket:
        await socket.send({"id": "long", "send": message()})
        first = await socket.next("long")
        await runs(fleet, 1)
        run = fleet.runs[0]
        writer, chunk = run.writer, "x" * 100_000
        assert isinstance(writer, LogWriter)
        await eventually(lambda: _is(writer.generation == 3), "the run waits")
        for _ in range(100):
            await run.chunk(chunk)
        task = first["event"]["task"]["id"]
        await socket.send({"id": "again", "subscribe": {"task": task, "after": first["cursor"]}})
        await socket.send({"id": "short", "send": message()})
        assert (await socket.next("short"))["event"]["task"]
        run.go_on.set()
        for name in ("long", "again"):
            assert generations(await socket.events(name)) == list(range(2, 106))
    assert bus.connected


async def _is(what: bool) -> bool:  # noqa: FBT001 - what `until` asks for
    return what


async def test_unsubscribing_ends_the_stream_and_not_the_task(
    gateway: str, http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    async with socket_to(gateway, PATIENT) as socket:
        await socket.send({"id": {"any": 1}, "send": message()})
        task = (await socket.next({"any": 1}))["event"]["task"]["id"]
        await socket.send({"unsubscribe": {"any": 1}})
        assert (await socket.rest({"any": 1}))[-1] == {"id": {"any": 1}, "end": True}
        await runs(fleet, 1)
        fleet.runs[0].go_on.set()
        await socket.send({"id": {"any": 1}, "send": message()})
        assert "task" in (await socket.next({"any": 1}))["event"]

    async def is_over() -> bool:
        found = await Rest(http, "patient").call("GetTask", {"id": task})
        return bool(found["status"]["state"] == "TASK_STATE_COMPLETED")

    await eventually(is_over, "the task went on")


async def test_cancelling_is_answered_with_the_task_and_seen_by_its_streams(
    gateway: str, fleet: ScriptedFleet
) -> None:
    async with socket_to(gateway, PATIENT) as socket:
        await socket.send({"id": 1, "send": message()})
        task = (await socket.next(1))["event"]["task"]["id"]
        await runs(fleet, 1)
        await socket.send({"id": 2, "cancel": {"task": task}})
        canceled = (await socket.next(2))["result"]
        assert (canceled["id"], canceled["status"]["state"]) == (task, "TASK_STATE_CANCELED")
        assert (await socket.events(1))[-1][1]["statusUpdate"]["status"]["state"].endswith(
            "CANCELED"
        )


async def test_a_key_makes_a_message_sent_twice_one_task(
    socket: Socket, fleet: ScriptedFleet
) -> None:
    key = secrets.token_hex(8)
    for number in range(2):
        await socket.send({"id": number, "send": message(), "idempotencyKey": key})
    assert await socket.events(0) == await socket.events(1)
    await socket.send({"id": 3, "send": message("other"), "idempotencyKey": key})
    assert (await socket.next(3))["error"]["code"] == 400
    assert len(fleet.runs) == 1


async def test_json_rpc_requests_are_answered_in_their_own_shape(socket: Socket) -> None:
    request = {"jsonrpc": "2.0", "id": "r", "method": "SendStreamingMessage", "params": message()}
    await socket.send(request)
    *events, end = await socket.rest("r")
    assert all(event["jsonrpc"] == "2.0" and event["cursor"] for event in events)
    assert end == {"jsonrpc": "2.0", "id": "r", "end": True}
    task = events[0]["result"]["task"]["id"]
    await socket.send({"jsonrpc": "2.0", "id": "g", "method": "GetTask", "params": {"id": task}})
    found = await socket.next("g")
    assert (found["jsonrpc"], found["result"]["id"]) == ("2.0", task)
    await socket.send({"jsonrpc": "2.0", "id": "e", "method": "GetTask", "params": {"id": "none"}})
    assert (await socket.next("e"))["error"]["code"] == -32001
    await socket.send({"jsonrpc": "2.0", "id": "e", "method": "Unknown"})
    assert (await socket.next("e"))["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("frame", "answers", "status"),
    [
        ("{", None, 400),
        ("[]", None, 400),
        ({"id": 1}, 1, 400),
        ({"id": 1, "send": {}, "subscribe": {}}, 1, 400),
        ({"send": {}}, None, 400),
        ({"id": 1, "send": {"message": {}}}, 1, 400),
        ({"id": 1, "subscribe": {}}, 1, 400),
        ({"id": 1, "subscribe": {"task": "x", "after": 1}}, 1, 400),
        ({"id": 1, "subscribe": {"task": "0-" + "a" * 32}}, 1, 404),
        ({"id": 1, "cancel": {"task": "0-" + "a" * 32}}, 1, 404),
        ({"id": 1, "cancel": "x"}, 1, 400),
        ({"unsubscribe": 1}, None, 400),
        ({"id": "x" * 300, "send": message()}, None, 400),
        ('{"id":' + "[" * 900 + "]" * 900 + ',"send":{}}', None, 400),
        ('{"unsubscribe":' + "[" * 900 + "]" * 900 + "}", None, 400),
    ],
)
async def test_a_bad_frame_is_refused_and_the_socket_lives(
    socket: Socket, frame: object, answers: object, status: int
) -> None:
    await socket.send(frame)
    error = (await socket.next(answers))["error"]
    assert error["code"] == status
    assert error["message"]
    assert error["details"]
    await socket.send({"id": "after", "send": message()})
    assert len(await socket.events("after")) == 4


async def test_an_id_in_use_is_refused(gateway: str, fleet: ScriptedFleet) -> None:
    async with socket_to(gateway, PATIENT) as socket:
        await socket.send({"id": 1, "send": message()})
        assert "event" in await socket.next(1)
        await socket.send({"id": 1, "send": message()})
        assert "in use" in (await socket.rest(1))[-1]["error"]["message"]
    assert len(fleet.runs) <= 1


async def test_frames_that_are_no_text_close_with_1003(socket: Socket) -> None:
    await socket.send(b"{}")
    assert (await socket.closed())[0] == 1003


async def test_a_frame_that_is_too_big_closes_with_1009(
    socket: Socket, settings: GatewaySettings
) -> None:
    with suppress(ConnectionClosed):  # The gateway does not wait for all of it.
        await socket.send(" " * (settings.max_body_bytes + 1))
    assert (await socket.closed())[0] == 1009


async def test_an_unknown_agent_or_version_closes_with_1008(gateway: str) -> None:
    for path, named in (("/v1/agents/nobody/stream", "nobody"), ("/stream?A2A-Version=9.9", "9.9")):
        async with socket_to(gateway, path) as socket:
            code, reason = await socket.closed()
        assert code == 1008
        assert named in reason


async def test_pages_of_other_sites_do_not_get_in(gateway: str) -> None:
    target = gateway.replace("http://", "ws://") + "/stream"
    with pytest.raises(InvalidStatus) as refusal:
        await connect(target, origin="http://evil.example")  # type: ignore[arg-type]
    assert refusal.value.response.status_code == 403


async def test_pings_are_answered(socket: Socket) -> None:
    await asyncio.wait_for(await socket.connection.ping(), 60)


async def test_streams_beyond_a_limit_are_refused(
    settings: GatewaySettings, fleet: ScriptedFleet
) -> None:
    limits = {"max_streams": 3, "socket_streams": 4}
    changed = settings.model_copy(update={"http_port": ports.pick(), "grpc_port": 0, **limits})
    async with running(changed) as url, socket_to(url, PATIENT) as socket:
        for number in range(2):
            await socket.send({"id": number, "send": message()})
            assert "event" in await socket.next(number)
        await socket.send({"id": 2, "send": message()})
        assert (await socket.next(2))["error"]["code"] == 503
        for path in ("/stream", "/api/agent/ws"):
            async with socket_to(url, path) as another:
                assert (await another.closed())[0] == 1013
        waiting = {"jsonrpc": "2.0", "method": "SendMessage", "params": message()}
        for number in range(3, 6):
            await socket.send(waiting | {"id": number})
        error = (await socket.next(5))["error"]
        assert error["data"][0]["reason"] == "TOO_MANY_AT_ONCE"
        await socket.send({"unsubscribe": 1})
        assert (await socket.rest(1))[-1]["end"]
        await socket.send({"id": 7, "send": message()})
        assert "event" in await socket.next(7)
    assert fleet.working


async def test_a_gateway_that_stops_reports_it_and_names_the_tasks_that_were_waited_for(
    settings: GatewaySettings, fleet: ScriptedFleet
) -> None:
    changed = settings.model_copy(update={"http_port": ports.pick(), "grpc_port": 0})
    async with running(changed) as url:
        socket = Socket(await connect(url.replace("http", "ws", 1) + PATIENT))
        await socket.send({"id": 1, "send": message()})
        assert "event" in await socket.next(1)
        params = {"jsonrpc": "2.0", "id": 2, "method": "SendMessage", "params": message()}
        await socket.send(params)
        await runs(fleet, 2)
    code, reason = await socket.closed()
    assert code == 1012
    assert "reconnect" in reason
    error = (await socket.next(2))["error"]
    assert error["data"][0]["metadata"]["taskId"] in {run.key.task for run in fleet.runs}


async def test_only_the_client_that_reads_nothing_is_disconnected(
    settings: GatewaySettings, fleet: ScriptedFleet
) -> None:
    limits = {"max_streams": 4, "stall_timeout": 3.0}
    changed = settings.model_copy(update={"http_port": ports.pick(), "grpc_port": 0, **limits})
    async with running(changed) as url, socket_to(url, PATIENT) as taking:
        stalled = await connect(url.replace("http", "ws", 1) + PATIENT, max_size=None)
        await stalled.send(json.dumps({"id": 1, "send": message()}))
        stalled.transport.pause_reading()
        await runs(fleet, 1)
        run = fleet.runs[0]
        subscribed = {"task": run.key.task, "after": f"{run.log}:1"}
        await taking.send({"id": 1, "subscribe": subscribed})
        await eventually(lambda: _is(run.writer.generation == 3), "the run waits")

        async def has_a_place() -> bool:
            await taking.send({"id": "more", "subscribe": subscribed})
            return "event" in await taking.next("more")

        assert not await has_a_place()
        for _ in range(300):
            await run.chunk("x" * 100_000)

        await eventually(has_a_place, "the one that stopped reading gave its places back")
        run.go_on.set()
        assert generations(await taking.events(1)) == list(range(2, 306))
        stalled.transport.abort()


async def test_a_client_that_reads_again_learns_that_it_took_nothing_for_too_long(
    settings: GatewaySettings, fleet: ScriptedFleet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headrace_gateway")
    changed = settings.model_copy(
        update={"http_port": ports.pick(), "grpc_port": 0, "stall_timeout": 3.0}
    )
    async with running(changed) as url, socket_to(url, PATIENT) as socket:
        await socket.send({"id": 1, "send": message()})
        await runs(fleet, 1)
        run = fleet.runs[0]
        await eventually(lambda: _is(run.writer.generation == 3), "the run waits")
        socket.connection.transport.pause_reading()
        for _ in range(100):
            await run.chunk("x" * 100_000)
        await eventually(lambda: _is("stopped reading" in caplog.text), "the gateway gives it up")
        socket.connection.transport.resume_reading()
        assert await socket.closed() == (1013, "the client stopped reading")


async def test_a_client_that_goes_amid_many_streams_is_no_incident(
    settings: GatewaySettings, fleet: ScriptedFleet, caplog: pytest.LogCaptureFixture
) -> None:
    limits = {"max_streams": 41}
    changed = settings.model_copy(update={"http_port": ports.pick(), "grpc_port": 0, **limits})
    async with (
        running(changed) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as http,
    ):
        gone = await connect(url.replace("http", "ws", 1) + PATIENT, max_size=None)
        await gone.send(json.dumps({"id": 0, "send": message()}))
        await runs(fleet, 1)
        run = fleet.runs[0]
        await eventually(lambda: _is(run.writer.generation == 3), "the run waits")
        for _ in range(20):
            await run.chunk("x" * 100_000)
        subscribed = {"task": run.key.task, "after": f"{run.log}:1"}
        for number in range(1, 40):
            await gone.send(json.dumps({"id": number, "subscribe": subscribed}))
        for _ in range(100):
            await gone.recv()
        await gone.close()

        async def has_a_place() -> bool:
            cursor = {"Last-Event-ID": subscribed["after"]}
            path = f"/v1/agents/patient/tasks/{run.key.task}:subscribe"
            async with http.stream("GET", path, headers=cursor) as response:
                return response.is_success

        await eventually(has_a_place, "its places are given back")
        run.go_on.set()
    assert "incident" not in caplog.text
