"""The official A2A client for JavaScript, given nothing but an agent's URL."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace_cli.dev.stack import summary
from tests.support import javascript
from tests.support.fleet import Fleet

type Json = dict[str, Any]

BINDINGS = ["JSONRPC", "HTTP+JSON", "GRPC"]


type Drive = Callable[..., Json]


@pytest.fixture(scope="module")
def drive() -> Iterator[Drive]:
    """Run the client and return what it holds in the end."""
    with javascript.Script("a2a.mjs") as script:

        def driven(url: str, text: str, **more: Any) -> Json:  # noqa: ANN401
            held: Json = script.run({"url": url, "text": text, **more})
            return held

        yield driven


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_message_is_streamed_and_its_task_read_and_listed(
    fleet: Fleet, binding: str, drive: Drive
) -> None:
    driven = drive(f"{fleet.gateways[0]}/v1/agents/counter/", "5", binding=binding)
    assert driven["agent"] == "counter"
    assert driven["states"][0] == "TASK_STATE_SUBMITTED"
    assert driven["states"][-1] == driven["task"]["state"] == "TASK_STATE_COMPLETED"
    assert "".join(driven["texts"]) == driven["task"]["text"] == "1 2 3 4 5 "
    assert driven["listed"] == [driven["task"]["id"]]


async def test_a_host_alone_is_the_default_agent(fleet: Fleet, drive: Drive) -> None:
    driven = drive(fleet.gateways[1], "hello there")
    assert driven["agent"] == "assistant"
    assert "You said 2 words: hello there" in driven["task"]["text"]


async def test_the_url_that_the_command_line_prints_is_enough(fleet: Fleet, drive: Drive) -> None:
    printed = await summary(fleet.gateways[0])
    [url] = [word for line in printed for word in line.split() if "/counter" in word]
    driven = drive(url, "2")
    assert (driven["agent"], driven["task"]["text"]) == ("counter", "1 2 ")


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_task_is_canceled_in_mid_stream(fleet: Fleet, binding: str, drive: Drive) -> None:
    url = f"{fleet.gateways[0]}/v1/agents/counter/"
    driven = drive(url, "100000 20", binding=binding, cancelAfter=3)
    assert driven["states"][-1] == driven["task"]["state"] == "TASK_STATE_CANCELED"
