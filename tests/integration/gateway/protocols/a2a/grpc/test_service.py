"""What is gRPC's own: how agents are named, cursors and extensions told, and streams cut."""

import asyncio
import gc
import math
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import httpx
import pytest
import pytest_asyncio
from a2a.types import a2a_pb2
from a2a.types.a2a_pb2_grpc import A2AServiceStub
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from headrace_gateway.protocols.a2a.grpc import public_services
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.timing import TIMING, GatewayTiming
from tests.integration.gateway.test_process import NOWHERE, WITHIN, bus_of, started
from tests.support.clients.bindings import Rest, message
from tests.support.clients.grpc_binding import Grpc
from tests.support.credentials import ANN, write
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports
from tests.support.waiting import eventually

SERVICE = "lf.a2a.v1.A2AService"
LARGEST = 300_000
_WINDOW = 4
"""HTTP/2's setting for the window of a stream, in bytes; 65,535 unless a peer states another."""
MANY = 8


@pytest_asyncio.fixture(loop_scope="module")
async def channel(gateway: str, settings: GatewaySettings) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to the module's gateway."""
    assert gateway
    async with grpc.aio.insecure_channel(f"127.0.0.1:{settings.grpc_port}") as channel:
        yield channel


@asynccontextmanager
async def other(
    settings: GatewaySettings, timing: GatewayTiming = TIMING, /, **changed: object
) -> AsyncIterator[tuple[httpx.AsyncClient, grpc.aio.Channel]]:
    """Yield clients of another gateway of the fleet."""
    port = ports.pick()
    changed |= {"http_port": ports.pick(), "grpc_port": port}
    async with (
        running(settings.model_copy(update=changed), timing=timing) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as http,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        yield http, channel


def stub_of(channel: grpc.aio.Channel) -> Any:  # noqa: ANN401 - generated without types
    make: Any = A2AServiceStub
    return make(channel)


def asking(text: str = "hi", tenant: str = "") -> a2a_pb2.SendMessageRequest:
    parts = [a2a_pb2.Part(text=text)]
    output = a2a_pb2.Message(message_id="m", role=a2a_pb2.ROLE_USER, parts=parts)
    return a2a_pb2.SendMessageRequest(message=output, tenant=tenant)


def details(error: grpc.aio.AioRpcError) -> status_pb2.Status:
    trailing = dict(error.trailing_metadata() or ())
    received = trailing["grpc-status-details-bin"]
    assert isinstance(received, bytes)
    return status_pb2.Status.FromString(received)


def reason(error: grpc.aio.AioRpcError) -> str:
    info = error_details_pb2.ErrorInfo()
    assert details(error).details[0].Unpack(info)
    return str(info.reason)


async def raw(channel: grpc.aio.Channel, method: str, request: bytes) -> bytes:
    rpc: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
        f"/{SERVICE}/{method}"
    )
    return await rpc(request)


async def test_reflection_lists_the_services(channel: grpc.aio.Channel) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)

    async def asked() -> AsyncIterator[reflection_pb2.ServerReflectionRequest]:
        yield reflection_pb2.ServerReflectionRequest(list_services="")
        yield reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE)

    listed, described = [answer async for answer in stub.ServerReflectionInfo(asked())]
    names = {service.name for service in listed.list_services_response.service}
    assert {SERVICE, "grpc.health.v1.Health"} <= names
    assert described.file_descriptor_response.file_descriptor_proto


@pytest.mark.parametrize("service", ["", SERVICE])
async def test_health_states_that_it_serves(channel: grpc.aio.Channel, service: str) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_large_requests_to_what_anybody_may_call_are_not_held(
    channel: grpc.aio.Channel, caplog: pytest.LogCaptureFixture
) -> None:
    health = health_pb2_grpc.HealthStub(channel)
    watched = health.Watch(health_pb2.HealthCheckRequest(service="x" * 9_000_000))
    request = reflection_pb2.ServerReflectionRequest(file_containing_symbol="x" * 9_000_000)
    reflected = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(
        iter([request])
    )
    for call in (watched, reflected):
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await asyncio.wait_for(call.read(), 60)
        assert refusal.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert not caplog.records
    usual = health.Watch(health_pb2.HealthCheckRequest(service=SERVICE))
    assert (await usual.read()).status == health_pb2.HealthCheckResponse.SERVING
    usual.cancel()


@pytest.mark.parametrize(
    "method", ["health.v1.Health/Check", "reflection.v1alpha.ServerReflection/ServerReflectionInfo"]
)
async def test_a_malformed_request_to_what_anybody_may_call_is_refused_without_a_line(
    channel: grpc.aio.Channel, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    rpc: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(f"/grpc.{method}")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await rpc(iter([b"\xff"])).read()
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert not caplog.records


async def test_few_requests_that_do_not_come_are_awaited_at_a_time(
    channel: grpc.aio.Channel,
) -> None:
    async def never() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    check: grpc.aio.StreamUnaryMultiCallable[bytes, bytes]
    check = channel.stream_unary("/grpc.health.v1.Health/Check")
    silent = [check(never()) for _ in range(2 * public_services._MOST_RECEIVED)]
    usual = health_pb2.HealthCheckRequest(service=SERVICE)
    assert (await health_pb2_grpc.HealthStub(channel).Check(usual)).status
    ended, _ = await asyncio.wait(
        [asyncio.ensure_future(call.code()) for call in silent],
        timeout=60,
        return_when=asyncio.FIRST_COMPLETED,
    )
    assert ended
    assert {call.result() for call in ended} == {grpc.StatusCode.DEADLINE_EXCEEDED}
    for silent_call in silent:
        silent_call.cancel()


async def test_while_it_starts_it_is_unavailable_and_reports_it(tmp_path: Path) -> None:
    port = ports.pick()
    with started(tmp_path, nats_url=NOWHERE, grpc_port=port, startup_timeout=30) as gateway:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            check = health_pb2.HealthCheckRequest(service=SERVICE)
            health = await health_pb2_grpc.HealthStub(channel).Check(check, wait_for_ready=True)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub_of(channel).SendMessage(asking())
        assert health.status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        assert "starting" in (refused.value.details() or "")
        gateway.process.terminate()
        assert await asyncio.to_thread(gateway.ends) == 0


@pytest.mark.parametrize(
    ("metadata", "tenant", "agent"),
    [
        ((), "", "assistant"),
        ((), "ask", "ask"),
        ((("agent-name", "ask"),), "", "ask"),
        ((("agent-name", "ask"),), "assistant", "ask"),
        ((), "somebody-elses-routing", "assistant"),
    ],
)
async def test_the_agent_is_named_in_metadata_or_by_the_cards_tenant(
    channel: grpc.aio.Channel, metadata: tuple[tuple[str, str], ...], tenant: str, agent: str
) -> None:
    answer = await stub_of(channel).SendMessage(asking(tenant=tenant), metadata=metadata)
    asks = answer.task.status.state == a2a_pb2.TASK_STATE_INPUT_REQUIRED
    assert asks == (agent == "ask")


async def test_what_is_no_message_of_its_kind_is_an_invalid_request(
    channel: grpc.aio.Channel,
) -> None:
    for method in ("SendMessage", "GetTask"):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await raw(channel, method, b"\xff\xff\xff")
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert reason(refused.value) == "INVALID_REQUEST"


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
async def test_a_number_that_json_has_not_is_an_invalid_request(
    channel: grpc.aio.Channel, number: float
) -> None:
    request = asking()
    request.metadata["limit"] = number
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub_of(channel).SendMessage(request)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "metadata" in (refused.value.details() or "")


@pytest.mark.parametrize("letter", ["x", "\U0001f600"])
async def test_what_is_long_is_refused_with_what_fits_into_metadata(
    channel: grpc.aio.Channel, letter: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub_of(channel).GetTask(a2a_pb2.GetTaskRequest(id=letter * 9000))
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND
    assert reason(refused.value) == "TASK_NOT_FOUND"
    metadata = (("agent-name", "x" * 6000),)
    with pytest.raises(grpc.aio.AioRpcError) as unknown:
        await stub_of(channel).GetTask(a2a_pb2.GetTaskRequest(id=letter), metadata=metadata)
    assert unknown.value.code() == grpc.StatusCode.NOT_FOUND
    assert reason(unknown.value) == "AGENT_NOT_FOUND"


async def test_an_unknown_method_is_unimplemented(channel: grpc.aio.Channel) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await raw(channel, "SendPigeon", b"")
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_invalid_fields_are_named_with_their_rules(channel: grpc.aio.Channel) -> None:
    bad = a2a_pb2.SendMessageRequest(message=a2a_pb2.Message(parts=[a2a_pb2.Part()]))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub_of(channel).SendMessage(bad)
    found = error_details_pb2.BadRequest()
    assert details(refused.value).details[1].Unpack(found)
    fields = {violation.field: violation.description for violation in found.field_violations}
    assert fields.keys() == {"message.messageId", "message.role", "message.parts[0]"}
    assert "required" in fields["message.role"]


@pytest.mark.parametrize("name", ["authorization", "x-api-key"])
async def test_two_credentials_of_a_kind_are_refused(channel: grpc.aio.Channel, name: str) -> None:
    two = ((name, "Bearer one"), (name, "Bearer two"))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub_of(channel).SendMessage(asking(), metadata=two)
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert f"{name} must be sent at most once (RFC 9110" in (refused.value.details() or "")
    with pytest.raises(grpc.aio.AioRpcError) as streamed:
        await stub_of(channel).SendStreamingMessage(asking(), metadata=two).read()
    assert streamed.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_each_event_carries_its_cursor_and_a_stream_goes_on_behind_it(
    channel: grpc.aio.Channel,
) -> None:
    stub = stub_of(channel)
    events = [event async for event in stub.SendStreamingMessage(asking("hello"))]
    bodies = [getattr(event, event.WhichOneof("payload")) for event in events]
    cursors = [body.metadata["headrace.cursor"] for body in bodies]
    assert [cursor.partition(":")[2] for cursor in cursors] == ["1", "2", "3", "4"]
    request = a2a_pb2.SubscribeToTaskRequest(id=events[0].task.id)
    call = stub.SubscribeToTask(request, metadata=(("last-event-id", cursors[1]),))
    assert [event async for event in call] == events[2:]
    assert await call.code() == grpc.StatusCode.OK


async def test_a_lost_past_is_reported_in_metadata_before_the_task(
    channel: grpc.aio.Channel,
) -> None:
    stub = stub_of(channel)
    task = (await stub.SendMessage(asking())).task.id
    request = a2a_pb2.SubscribeToTaskRequest(id=task)
    call = stub.SubscribeToTask(request, metadata=(("last-event-id", "zzzzzzzz:2"),))
    initial = dict(await call.initial_metadata())
    event = await call.read()
    assert initial["headrace-recovered"] == "false"
    assert event.task.metadata["headrace.recovered"] is False


async def test_extensions_that_are_activated_are_echoed(channel: grpc.aio.Channel) -> None:
    request = (("a2a-extensions", "urn:headrace:cursor:v1, urn:unknown"),)
    stub = stub_of(channel)
    unary = stub.SendMessage(asking(), metadata=request)
    await unary
    streamed = stub.SendStreamingMessage(asking(), metadata=request)
    await streamed.read()
    for call in (unary, streamed):
        initial = dict(await call.initial_metadata())
        assert initial["a2a-extensions"] == "urn:headrace:cursor:v1"


async def test_a_request_larger_than_the_limit_is_refused(
    channel: grpc.aio.Channel, settings: GatewaySettings
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub_of(channel).SendMessage(asking("x" * (settings.max_body_bytes + 1)))
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_large_request_of_small_values_is_refused_while_others_are_answered(
    channel: grpc.aio.Channel, http: httpx.AsyncClient
) -> None:
    many = asking()
    many.message.parts.extend([a2a_pb2.Part(text="x")] * 300_000)
    sending = asyncio.ensure_future(stub_of(channel).SendMessage(many))
    answered = 0
    while not sending.done():
        assert (await http.get("/healthz")).is_success
        answered += 1
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await sending
    assert reason(refused.value) == "REQUEST_TOO_LARGE"
    assert answered > 1, "they were not held up until it was refused"


async def test_a_large_file_is_taken(channel: grpc.aio.Channel) -> None:
    sent = asking()
    sent.message.parts.append(a2a_pb2.Part(raw=b"x" * 3_000_000, media_type="text/plain"))
    answer = await stub_of(channel).SendMessage(sent)
    assert answer.task.history[0].parts[1].url


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ("max_streams", grpc.StatusCode.UNAVAILABLE),
        ("max_streams_per_owner", grpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
)
async def test_streams_beyond_the_limit_are_refused_until_one_ends(
    settings: GatewaySettings, fleet: ScriptedFleet, limit: str, code: grpc.StatusCode
) -> None:
    assert fleet.working
    async with other(settings, **{limit: 1}) as (_, channel):
        stub, patient = stub_of(channel), (("agent-name", "patient"),)
        first = stub.SendStreamingMessage(asking(), metadata=patient)
        await first.read()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.SendStreamingMessage(asking(), metadata=patient).read()
        assert refused.value.code() == code
        assert "retry-after" in dict(refused.value.trailing_metadata() or ())
        first.cancel()

        await eventually(lambda: has_room(stub), "the place is given back")


async def test_a_client_that_takes_nothing_is_cut_off_and_its_task_goes_on(
    settings: GatewaySettings, fleet: ScriptedFleet
) -> None:
    async with other(settings, stall_timeout=3.0, max_streams=1) as (_, channel):
        stub, patient = stub_of(channel), (("agent-name", "patient"),)
        stalled = stub.SendStreamingMessage(asking(), metadata=patient)
        for _ in range(3):
            await stalled.read()
        # Some 8 MB are on their way before a server notices.
        for _ in range(150):
            await fleet.runs[0].chunk("x" * 100_000)
        await eventually(lambda: has_room(stub), "its place is given back")
        assert await read_out(stalled) == grpc.StatusCode.UNAVAILABLE
        assert "stopped reading" in (await stalled.details() or "")


async def has_room(stub: Any) -> bool:  # noqa: ANN401 - generated without types
    """Whether the gateway takes one more stream."""
    call = stub.SendStreamingMessage(asking())
    try:
        return bool((await call.read()).task.id)
    except grpc.aio.AioRpcError:
        return False
    finally:
        call.cancel()


async def read_out(call: "grpc.aio.UnaryStreamCall[object, object]") -> grpc.StatusCode:
    """Return the status at the end of a stream."""
    try:
        while await call.read() is not grpc.aio.EOF:
            pass
    except grpc.aio.AioRpcError:
        pass
    return await call.code()


async def test_streams_and_waiting_calls_end_with_a_reason_when_it_stops(
    tmp_path: Path, settings: GatewaySettings, fleet: ScriptedFleet
) -> None:
    port = ports.pick()
    with started(tmp_path, **bus_of(settings), grpc_port=port) as gateway:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            check = health_pb2.HealthCheckRequest(service=SERVICE)
            health = health_pb2_grpc.HealthStub(channel)

            async def serves() -> bool:
                answer = await health.Check(check, wait_for_ready=True)
                return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

            await eventually(serves, "the gateway serves")
            stub, patient = stub_of(channel), (("agent-name", "patient"),)
            stream = stub.SendStreamingMessage(asking(), metadata=patient)
            await stream.read()
            blocked = stub.SendMessage(asking(), metadata=patient)
            await eventually(
                lambda: asyncio.sleep(0, len(fleet.runs) == 2), "the agent works on both"
            )
            request = time.monotonic()
            gateway.process.terminate()
            assert await read_out(stream) == grpc.StatusCode.UNAVAILABLE
            assert "restarting" in (await stream.details() or "")
            with pytest.raises(grpc.aio.AioRpcError, match="continues") as refused:
                await blocked
            assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
            assert await asyncio.to_thread(gateway.ends) == 0
        assert time.monotonic() - request < WITHIN
    assert "Traceback" not in gateway.log()


async def test_many_readers_of_one_task_see_the_same_events(
    channel: grpc.aio.Channel, http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    talk = Grpc(http, "patient", channel)
    async with talk.stream("SendStreamingMessage", message()) as stream:
        cursor, event = await anext(stream.frames())
    waiting = a2a_pb2.SubscribeToTaskRequest(id=event["task"]["id"])
    stub = stub_of(channel)
    metadata = (("agent-name", "patient"), ("last-event-id", cursor))
    calls = [stub.SubscribeToTask(waiting, metadata=metadata) for _ in range(20)]
    await eventually(lambda: asyncio.sleep(0, bool(fleet.runs)), "the agent works")
    fleet.runs[0].go_on.set()

    async def seen(call: "grpc.aio.UnaryStreamCall[object, object]") -> list[object]:
        return [event async for event in call]

    first, *others = await asyncio.gather(*map(seen, calls))
    assert len(first) == 4
    assert all(one == first for one in others)


@pytest.mark.parametrize("bound", ["max_waiting_per_agent", "max_waiting_per_tenant"])
async def test_more_runs_than_may_wait_are_refused_before_a_task_exists(
    settings: GatewaySettings, fleet: ScriptedFleet, bound: str
) -> None:
    assert fleet.working
    async with other(settings, **{bound: 0}) as (http, channel):
        stub = stub_of(channel)
        tasks = (await Rest(http).call("ListTasks", {}))["totalSize"]
        for request in (stub.SendMessage(asking()), stub.SendStreamingMessage(asking()).read()):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await request
            assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert reason(refused.value) == "TOO_MANY_WAITING"
            received = error_details_pb2.RetryInfo()
            assert details(refused.value).details[-1].Unpack(received)
            seconds = dict(refused.value.trailing_metadata() or ())["retry-after"]
            assert 1 <= received.retry_delay.seconds == int(seconds) <= 30
        assert (await Rest(http).call("ListTasks", {}))["totalSize"] == tasks


def half_asked(channel: grpc.aio.Channel) -> grpc.aio.StreamUnaryCall[Any, Any]:
    """Return a call of GetTask whose request message does not come."""
    rpc: grpc.aio.StreamUnaryMultiCallable[Any, Any] = channel.stream_unary(f"/{SERVICE}/GetTask")
    return rpc(timeout=60)


async def test_who_is_unknown_is_refused_before_a_message_is_read(
    settings: GatewaySettings, tmp_path: Path
) -> None:
    guarded = {"credentials": write(tmp_path / "credentials.toml", ANN)}
    async with other(settings, **guarded) as (_, channel):
        call = half_asked(channel)
        assert await call.code() == grpc.StatusCode.UNAUTHENTICATED


async def test_a_message_that_does_not_come_is_not_waited_for_for_ever(
    settings: GatewaySettings, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    async with other(settings, GatewayTiming(rpc_message=0.5)) as (_, channel):
        call = half_asked(channel)
        assert await call.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        assert await call.details() == "the request was not received within the time limit"


async def test_an_rpc_without_a_message_is_refused(channel: grpc.aio.Channel) -> None:
    call = half_asked(channel)
    await call.done_writing()
    assert await call.code() == grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_connection_has_a_bounded_number_of_calls_under_way(
    settings: GatewaySettings, fleet: ScriptedFleet
) -> None:
    metadata = (("agent-name", "patient"),)
    async with other(settings, socket_streams=2) as (_, channel):
        stub = stub_of(channel)
        await stub.ListTasks(a2a_pb2.ListTasksRequest(), timeout=60)  # The bound is known by now.
        streams = [
            stub.SendStreamingMessage(asking(), metadata=metadata, timeout=120) for _ in range(2)
        ]
        for stream in streams:
            assert await stream.read()
        third = asyncio.ensure_future(stub.ListTasks(a2a_pb2.ListTasksRequest(), timeout=60))
        done, _ = await asyncio.wait({third}, timeout=1)
        assert not done
        for run in fleet.runs:
            run.go_on.set()
        for stream in streams:
            while await stream.read() is not grpc.aio.EOF:
                pass
        assert await third


async def test_a_host_in_metadata_is_nobodys(channel: grpc.aio.Channel) -> None:
    for host in ("[::1", "evil.example"):
        answer = await stub_of(channel).SendMessage(asking(), metadata=(("host", host),))
        assert answer.task.id


def rpc_states() -> int:
    """Return the number of grpcio's states of RPCs; the next one of each method has one, too."""
    return sum(type(one).__name__ == "RPCState" for one in gc.get_objects())


async def test_requests_are_freed_without_a_collection_of_garbage(
    channel: grpc.aio.Channel,
) -> None:
    check = health_pb2_grpc.HealthStub(channel).Check
    request = health_pb2.HealthCheckRequest(service="x" * LARGEST)
    gc.collect()
    before = rpc_states()

    async def none_is_left() -> bool:
        return rpc_states() <= before

    gc.disable()
    try:
        for _ in range(MANY):
            for method in ("SendMessage", "SendStreamingMessage"):
                with pytest.raises(grpc.aio.AioRpcError):
                    await raw(channel, method, b"\x0a" + b"x" * LARGEST)
            with pytest.raises(grpc.aio.AioRpcError):
                await check(request)
            assert (await stub_of(channel).SendMessage(asking())).task.id
        # A client gets its answer a moment before the RPC is over.
        await eventually(none_is_left, "the requests are freed")
    finally:
        gc.enable()


async def test_a_client_may_send_64_kb_per_stream_before_anybody_reads(
    gateway: str, settings: GatewaySettings
) -> None:
    """A server that probes for bandwidth states 4 MB in its first frame."""
    assert gateway
    empty_settings = b"\0\0\0\x04\0\0\0\0\0"
    reader, writer = await asyncio.open_connection("127.0.0.1", settings.grpc_port)
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + empty_settings)
    head = await reader.readexactly(9)
    assert head[3:5] == b"\x04\0"
    stated = await reader.readexactly(int.from_bytes(head[:3]))
    writer.close()
    pairs = [struct.unpack_from(">HI", stated, at) for at in range(0, len(stated), 6)]
    assert pairs
    assert dict(pairs).get(_WINDOW, 65_535) == 65_535
