"""The official A2A client for JavaScript, given nothing but an agent's URL."""

from typing import Any

import pytest

from tests.support import javascript
from tests.support.fleet import Fleet

type Json = dict[str, Any]

BINDINGS = ["JSONRPC", "HTTP+JSON", "GRPC"]


def drive(url: str, text: str, **more: Any) -> Json:  # noqa: ANN401
    driven: Json = javascript.run("a2a.mjs", {"url": url, "text": text, **more})
    return driven


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_message_is_streamed_and_its_task_read_and_listed(
    fleet: Fleet, binding: str
) -> None:
    driven = drive(f"{fleet.gateways[0]}/v1/agents/counter/", "5", binding=binding)
    assert driven["agent"] == "counter"
    assert driven["states"][0] == "TASK_STATE_SUBMITTED"
    assert driven["states"][-1] == driven["task"]["state"] == "TASK_STATE_COMPLETED"
    assert "".join(driven["texts"]) == driven["task"]["text"] == "1 2 3 4 5 "
    assert driven["listed"] == [driven["task"]["id"]]


async def test_a_host_alone_is_the_default_agent(fleet: Fleet) -> None:
    driven = drive(fleet.gateways[1], "hello there")
    assert driven["agent"] == "assistant"
    assert "You said 2 words: hello there" in driven["task"]["text"]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_task_is_canceled_in_mid_stream(fleet: Fleet, binding: str) -> None:
    url = f"{fleet.gateways[0]}/v1/agents/counter/"
    driven = drive(url, "100000 20", binding=binding, cancelAfter=3)
    assert driven["states"][-1] == driven["task"]["state"] == "TASK_STATE_CANCELED"
