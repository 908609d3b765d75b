"""Clients of gRPC that retry by themselves are told when not to."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest

from headrace.model.errors import BusUnavailable
from headrace_gateway.problems import problem_of
from headrace_gateway.protocols.a2a.grpc.errors import refuse
from headrace_gateway.refusals import GatewayStopping, Unsettled
from headrace_gateway.streaming.grpc import Context

CALLS = 2
RETRYING = {
    "methodConfig": [
        {
            "name": [{}],
            "retryPolicy": {
                "maxAttempts": CALLS,
                "initialBackoff": "0.01s",
                "maxBackoff": "0.01s",
                "backoffMultiplier": 1,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}
"""The service configuration of a client, as its documentation has it."""


class RefusingService(grpc.GenericRpcHandler):
    """Refuses each call with the same error, and counts them."""

    def __init__(self, error: Exception) -> None:
        self.error, self.calls = error, 0

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[bytes, bytes]":
        assert handler_call_details.method == "/service/Method"
        return grpc.unary_unary_rpc_method_handler(self.refuse)

    async def refuse(self, _: bytes, context: Context) -> bytes:
        self.calls += 1
        await refuse(context, problem_of(self.error))


@asynccontextmanager
async def retrying(service: RefusingService) -> AsyncIterator[grpc.aio.Channel]:
    """Serve, and give a client that retries by its configuration."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((service,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        options = [("grpc.service_config", json.dumps(RETRYING))]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options) as channel:
            yield channel
    finally:
        await server.stop(None)


async def calls_for(error: Exception) -> int:
    """Return how often a client that retries calls if it is refused with `error`."""
    service = RefusingService(error)
    async with retrying(service) as channel:
        rpc: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/service/Method")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await rpc(b"", timeout=60)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    return service.calls


@pytest.mark.parametrize("error", [Unsettled("task", "context"), GatewayStopping("no", "task")])
async def test_a_message_that_may_be_accepted_is_not_sent_again(error: Exception) -> None:
    assert await calls_for(error) == 1


async def test_a_message_that_was_not_accepted_is_sent_again() -> None:
    assert await calls_for(BusUnavailable("NATS does not answer")) == CALLS
