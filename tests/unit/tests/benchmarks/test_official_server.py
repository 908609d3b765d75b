"""The peers' answers are those that ours are compared with."""

from collections.abc import AsyncIterator

import httpx
import orjson
import pytest

from tests.benchmarks.agui_runs import check_events, input_of, run_of
from tests.benchmarks.bindings import BINDINGS, REST, Binding, Json, message
from tests.benchmarks.contestants import ASKER
from tests.benchmarks.official_server import application
from tests.benchmarks.whole import check_question, check_read, check_reply, check_task

URL = "http://official"


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(application(URL, database=None)),
        base_url=URL,
        headers={"A2A-Version": "1.0"},
    ) as client:
        yield client


async def sent(client: httpx.AsyncClient, base: str, binding: Binding, message: Json) -> bytes:
    body = binding.body(message, "SendMessage")
    return (await client.post(f"{base}{binding.send_path}" or "/", json=body)).content


@pytest.mark.parametrize("binding", BINDINGS.values(), ids=BINDINGS.keys())
async def test_the_agent_asks_and_ends_the_same_task_when_it_is_replied_to(
    client: httpx.AsyncClient, binding: Binding
) -> None:
    question = await sent(client, ASKER, binding, message("Ann"))
    task = check_question(question, binding.result)
    reply = await sent(client, ASKER, binding, message("Bob", taskId=task))
    check_reply(reply, task, binding.result)


async def test_a_task_is_read_at_its_own_agent(client: httpx.AsyncClient) -> None:
    answer = await sent(client, "", REST, message("1"))
    check_task(answer, 1, REST.result)
    path = REST.task_path.format(task=orjson.loads(answer)["task"]["id"])

    check_read((await client.get(path)).content, path.rpartition("/")[2], 1, REST.result)
    assert (await client.get(f"{ASKER}{path}")).status_code == 404


async def test_the_plain_agent_counts_to_the_last_message_of_a_thread(
    client: httpx.AsyncClient,
) -> None:
    for said in (["1"], ["1", "1 ", "2"]):
        answer = await client.post("/ag-ui", json=input_of("t", said))
        check_events(answer.content, int(said[-1]), run_of("t", said))
