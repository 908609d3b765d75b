"""Whatever is drawn over gRPC, in both versions: no hang, no status but a documented one."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import httpx
import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.types import a2a_pb2
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2, status_pb2
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as drawing
from hypothesis import strategies as st

from headrace_gateway.settings import GatewaySettings
from tests.support.clients.bindings import Json
from tests.support.plain_http import NO_TLS
from tests.support.requests_drawn import TASK, bodies, sound
from tests.support.resuming_sizes import sized
from tests.support.running_gateway import own_settings
from tests.support.servers import NatsProcess

EXAMPLES = sized(75, 20_000)
TIMEOUT = 60.0
"""Seconds after which an answer is taken to hang."""
MOMENT = 0.2
"""Seconds for which a task is followed that may wait for its user."""
SERVICES = [module.DESCRIPTOR.services_by_name["A2AService"] for module in (a2a_pb2, a2a_v0_3_pb2)]
METHODS: list[MethodDescriptor] = [method for one in SERVICES for method in one.methods]
STATUSES = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.UNAVAILABLE,
}
"""What docs/a2a.md and A2A say; above all not what is left to gRPC where nobody foresaw it."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One call."""

    method: MethodDescriptor
    body: bytes
    metadata: Sequence[tuple[str, str]]

    @property
    def path(self) -> str:
        return f"/{self.method.containing_service.full_name}/{self.method.name}"

    @property
    def is_streaming(self) -> bool:
        return bool(self.method.server_streaming)

    @property
    def may_wait(self) -> bool:
        """Whether it follows a task that may wait for its user."""
        return "Subscri" in self.method.name


def parsed(method: MethodDescriptor, value: Json) -> bytes:
    """Return the request that `value` says in JSON; nothing of what the protobuf can't say."""
    message: Any = GetMessageClass(method.input_type)()
    try:
        ParseDict(value, message, ignore_unknown_fields=True)
        data: bytes = message.SerializeToString()
    except (ParseError, ValueError, TypeError, AttributeError):
        return b""
    return data


@st.composite
def calls(draw: st.DrawFn) -> Drawn:
    """Draw a call of either version."""
    method = draw(st.sampled_from(METHODS))
    drawn = bodies(method.input_type) | sound(method.input_type)
    body = draw(drawn.map(lambda value: parsed(method, value)) | st.binary(max_size=30))
    metadata = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "agent-name": st.sampled_from(["assistant", "ask", "bare", "x", "x" * 6000]),
                "a2a-version": st.sampled_from(["1.0", "0.3", "9.9", "x", ""]),
                "a2a-extensions": st.sampled_from(["urn:test:required", ","]),
                "last-event-id": st.sampled_from(["x", "abcd1234:1"]),
                "idempotency-key": st.sampled_from(["k", "k" * 300]),
                "if-generation-match": st.sampled_from(["1", "x"]),
                "current-generation": st.sampled_from(["0", "x"]),
                "authorization": st.sampled_from(["Bearer x", "x"]),
            },
        )
    )
    return Drawn(method, body, tuple(metadata.items()))


@pytest.fixture(scope="module")
def settings(nats_server: NatsProcess) -> GatewaySettings:
    """A gateway's settings; it waits for news of a task but briefly."""
    return own_settings(nats_server.url, long_poll=0.1)


def answered(channel: grpc.Channel, drawn: Drawn, task: str) -> None:
    """Send it, about the task that there is; fail unless it is answered as documented."""
    body = drawn.body.replace(TASK.encode(), task.encode())
    # Bytes, whatever the types say that gRPC's stubs have for it.
    kinds: Any = channel
    timeout = MOMENT if drawn.may_wait else TIMEOUT
    try:
        if drawn.is_streaming:
            stream = kinds.unary_stream(drawn.path)
            for _ in stream(body, metadata=drawn.metadata, timeout=timeout):
                pass
        else:
            kinds.unary_unary(drawn.path)(body, metadata=drawn.metadata, timeout=TIMEOUT)
    except grpc.RpcError as error:
        call: Any = error
        if drawn.may_wait and call.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
            return
        assert call.code() in STATUSES, (call.code(), call.details())
        assert reason_of(call)


def reason_of(call: Any) -> str:  # noqa: ANN401 - an RpcError and a Call, which no type says
    """Return the reason in the error's details."""
    trailing = dict(call.trailing_metadata() or ())
    status = status_pb2.Status.FromString(trailing["grpc-status-details-bin"])
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    return str(info.reason)


@pytest.mark.soak
@pytest.mark.timeout(1500)
async def test_nothing_that_is_drawn_breaks_a_gateway(
    gateway: str, settings: GatewaySettings
) -> None:
    async with httpx.AsyncClient(base_url=gateway, timeout=60, verify=NO_TLS) as http:
        asking = {"message": {"content": [{"text": "a"}]}}
        answer = await http.post("/v1/agents/ask/message:send", json=asking)
    task = answer.json()["task"]["id"]
    with grpc.insecure_channel(f"127.0.0.1:{settings.grpc_port}") as channel:

        @drawing(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(calls())
        def send(drawn: Drawn) -> None:
            try:
                answered(channel, drawn, task)
            except Exception as fault:
                fault.add_note(f"what was sent: {drawn.path} {drawn.body!r} {drawn.metadata}")
                raise

        run: Callable[[], None] = send
        await asyncio.to_thread(run)
