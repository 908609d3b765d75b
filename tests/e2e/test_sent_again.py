"""A message sent again under its key, on the whole stack: one task, whatever dies."""

import asyncio
import secrets
from contextlib import suppress

import httpx
import pytest

from tests.support.fleet import Fleet
from tests.support.plain_a2a import message
from tests.support.resuming_sizes import IS_SOAK
from tests.support.stored_log import events_of

AGENT = "/v1/agents/counter"


async def test_fifty_retries_on_two_gateways_are_one_task(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    key, output = secrets.token_hex(8), message("10")
    headers = {"Idempotency-Key": key}
    urls = [f"{fleet.gateways[n % 2]}{AGENT}/message:send" for n in range(50)]
    responses = await asyncio.gather(
        *(http.post(url, json={"message": output}, headers=headers) for url in urls)
    )
    tasks = [response.json()["task"] for response in responses]
    assert len({task["id"] for task in tasks}) == 1
    assert {task["status"]["state"] for task in tasks} == {"TASK_STATE_COMPLETED"}
    events = await events_of(fleet.nats_url, "counter", tasks[0]["id"])
    assert sum("task" in event for event in events) == 1


@pytest.mark.soak
@pytest.mark.parametrize("pause", [0.0, 0.003, 0.01, 0.02] if IS_SOAK else [0.01])
async def test_a_gateway_killed_while_sending_leaves_one_task_to_the_retries(
    fleet: Fleet, http: httpx.AsyncClient, pause: float
) -> None:
    headers, context = {"Idempotency-Key": secrets.token_hex(8)}, secrets.token_hex(8)
    here, there = (f"{url}{AGENT}" for url in fleet.gateways)
    body = {"message": message("30 5", contextId=context)}

    async def send(base: str) -> httpx.Response:
        return await http.post(f"{base}/message:send", json=body, headers=headers)

    first = asyncio.create_task(send(here))
    await asyncio.sleep(pause)
    await asyncio.to_thread(fleet.restart, "gateway", 0)
    again = await asyncio.gather(*(send(there) for _ in range(5)))
    with suppress(httpx.TransportError):
        await first
    (task,) = {response.json()["task"]["id"] for response in again}
    # Whatever the killed one began would be in the context too.
    listed = await http.get(f"{there}/tasks", params={"contextId": context})
    assert [found["id"] for found in listed.json()["tasks"]] == [task]
    events = await events_of(fleet.nats_url, "counter", task)
    assert sum("task" in event for event in events) == 1
    await fleet.until_whole()
