"""A message that was accepted is not sent again, however its response fails: the error names it."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from headrace.jetstream.memory.server import MemoryServer
from headrace.model.errors import BusUnavailable, HeadraceError, LogTooNew, StateUnavailable
from headrace_gateway.call import Call
from headrace_gateway.outcome import map_errors
from headrace_gateway.problems import problem_of_interruption
from headrace_gateway.refusals import AnswerLost
from headrace_gateway.server.open_requests import OpenRequests
from headrace_gateway.streaming.renderer import Cause, Interruption
from headrace_gateway.tasks.submission import AcceptedInput
from headrace_gateway.timing import GatewayTiming
from tests.support.memory_gateway import memory_gateway
from tests.support.plain_a2a import message


class FallsSilent(MemoryServer):
    """A server that freezes right after it has acknowledged the first event of a task."""

    is_frozen = False

    def publish(self, publication: Any) -> None:  # noqa: ANN401 - theirs
        if not self.is_frozen:
            super().publish(publication)

    def send(self, to: str, subject: str, reply: str, block: bytes, data: bytes) -> bool:
        if to.startswith("headrace.live.") and ".default.echo." in to:
            self.is_frozen = True
            return False
        return super().send(to, subject, reply, block, data)


async def test_a_stream_whose_first_event_does_not_arrive_is_an_error_that_names_the_task() -> None:
    timing = GatewayTiming(first_event=0.1)
    async with (
        memory_gateway(OpenRequests(), server=FallsSilent(), timing=timing) as app,
        asyncio.timeout(60),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http,
    ):
        path, headers = "/v1/agents/echo/message:stream", {"A2A-Version": "1.0"}
        response = await http.post(path, json={"message": message("hello")}, headers=headers)
    assert response.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert "retry-after" not in response.headers
    [info] = response.json()["error"]["details"]
    assert info["metadata"]["taskId"] in response.json()["error"]["message"]


@pytest.mark.parametrize("error", [BusUnavailable, StateUnavailable, LogTooNew])
def test_an_accepted_message_whose_task_cannot_be_read_is_not_to_be_sent_again(
    error: type[HeadraceError],
) -> None:
    call = cast("Call", SimpleNamespace(idempotency_key=None))
    accepted = cast("AcceptedInput", SimpleNamespace(key=SimpleNamespace(task="T"), context="C"))
    with pytest.raises(AnswerLost) as lost, map_errors(call, accepted):
        raise error("it can't be read")
    assert (lost.value.task, lost.value.context) == ("T", "C")


@pytest.mark.parametrize("cause", Cause)
def test_a_stream_that_ends_early_does_not_ask_for_the_same_request_again(cause: Cause) -> None:
    problem = problem_of_interruption(Interruption(cause, "why"), "T")
    assert problem.retry_after is None
