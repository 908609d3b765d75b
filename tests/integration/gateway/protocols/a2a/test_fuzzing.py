"""Whatever is drawn: no 5xx but a documented 503, no hang, each error in its protocol's shape."""

import asyncio
from collections.abc import Callable

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as drawing
from hypothesis.strategies import SearchStrategy

from headrace_gateway.settings import GatewaySettings
from tests.support.frames_checked import (
    check_a2a,
    check_agui,
    check_dialect,
    frames_of,
)
from tests.support.plain_http import NO_TLS
from tests.support.requests_drawn import (
    TASK,
    Drawn,
    agui_requests,
    rest_requests,
    rpc_requests,
)
from tests.support.resuming_sizes import sized
from tests.support.running_gateway import own_settings
from tests.support.servers import NatsProcess

EXAMPLES = sized(75, 20_000)
"""Each binding's; what is drawn after that is not sent, but for so many on a slow machine."""
MOMENT = 0.1
"""Seconds for which a stream that may wait is listened to, after what it says at once."""
CODES = {
    "INVALID_ARGUMENT", "UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND", "RESOURCE_EXHAUSTED",
    "UNAVAILABLE",
}  # fmt: skip


@pytest.fixture(scope="module")
def settings(nats_server: NatsProcess) -> GatewaySettings:
    """A gateway's settings; it waits for news of a task but briefly."""
    return own_settings(nats_server.url, grpc_port=0, long_poll=0.1)


def check_rest(response: httpx.Response, *, is_hector: bool) -> None:
    error = response.json()["error"]
    assert error["message"]
    if is_hector:
        assert error["code"] in CODES
        assert error["details"]["reason"]
        return
    assert error["code"] == response.status_code
    assert error["status"]
    assert error["details"][0]["reason"]


def check_agui_error(response: httpx.Response) -> None:
    error = response.json()["error"]
    assert error["code"]
    assert error["message"]
    assert not error["message"].startswith("internal error"), error


def check_rpc(response: httpx.Response) -> None:
    answer = response.json()
    assert answer["jsonrpc"] == "2.0"
    assert ("result" in answer) != ("error" in answer)
    if "error" in answer:
        assert isinstance(answer["error"]["code"], int)
        # 0.3 has but this code for some; only what nobody foresaw is an incident.
        assert not answer["error"]["message"].startswith("internal error"), answer
        assert answer["error"]["message"]
        assert answer["error"]["data"]


def is_stream(response: httpx.Response) -> bool:
    kind: str = response.headers.get("content-type", "")
    return kind.startswith("text/event-stream")


def check(
    drawn: Drawn, response: httpx.Response, frames: list[dict[str, str]] | None = None
) -> None:
    """Fail if that is no answer to what was drawn."""
    assert response.status_code < 500 or (
        response.status_code == 503 and "retry-after" in response.headers
    )
    is_hector = drawn.query.get("format") == "hector"
    if is_stream(response):
        check_frames(drawn, frames or [], is_hector=is_hector)
    elif drawn.is_rpc:
        check_rpc(response)
    elif response.status_code >= 400 and drawn.is_agui:
        check_agui_error(response)
    elif response.status_code >= 400:
        check_rest(response, is_hector=is_hector)


def check_frames(drawn: Drawn, frames: list[dict[str, str]], *, is_hector: bool) -> None:
    """Fail if one of the frames is none of its protocol's."""
    if drawn.is_agui:
        check_agui(frames, to_its_end=not drawn.may_wait)
    elif drawn.wants_dialect:
        check_dialect(frames)
    else:
        check_a2a(frames, is_rpc=drawn.is_rpc, is_hector=is_hector)


async def fuzz(gateway: str, requests: SearchStrategy[Drawn]) -> None:
    """Send what is drawn."""
    with httpx.Client(base_url=gateway, timeout=60, verify=NO_TLS) as http:
        task = await asyncio.to_thread(begun, http)

        @drawing(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.generate],  # a gateway is never twice in the same state
            suppress_health_check=list(HealthCheck),
        )
        @given(requests)
        def send(drawn: Drawn) -> None:
            try:
                check(drawn, *answered(http, drawn, task))
            except Exception as fault:
                fault.add_note(f"what was sent: {drawn}")
                raise

        run: Callable[[], None] = send
        await asyncio.to_thread(run)


def begun(http: httpx.Client) -> str:
    """Return the id of a task that waits for an answer."""
    url = "/v1/agents/ask/message:send"
    task: str = http.post(url, json={"message": {"content": [{"text": "a"}]}}).json()["task"]["id"]
    return task


def answered(
    http: httpx.Client, drawn: Drawn, task: str
) -> tuple[httpx.Response, list[dict[str, str]]]:
    """Send it, about the task that there is; return the answer, and the frames of a stream.

    A stream about a task that waits for its user is open for as long as it does.
    """
    headers = {name: value.replace(TASK, task) for name, value in drawn.headers.items()}
    with http.stream(
        drawn.method,
        drawn.path.replace(TASK, task),
        params=drawn.query,
        headers=headers,
        content=drawn.body.replace(TASK.encode(), task.encode()),
    ) as response:
        if is_stream(response):
            if drawn.may_wait:
                # From here on: whatever comes first may take its time.
                response.request.extensions["timeout"]["read"] = MOMENT
            return response, frames_of(response, may_wait=drawn.may_wait)
        response.read()
        return response, []


@pytest.mark.soak
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    "requests",
    [rest_requests(), rpc_requests(), agui_requests()],
    ids=["rest", "jsonrpc", "ag-ui"],
)
async def test_nothing_that_is_drawn_breaks_a_gateway(
    gateway: str, requests: SearchStrategy[Drawn]
) -> None:
    await fuzz(gateway, requests)
