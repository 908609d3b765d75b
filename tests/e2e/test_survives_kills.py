"""Processes die; clients lose nothing and tasks end."""

import asyncio
import re
import secrets
from functools import partial

import httpx

from tests.support.event_stream import Frame, Json, all_frames, frames, text_of
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent
from tests.support.service_process import ServiceProcess
from tests.support.slow_counter import COUNT
from tests.support.stored_log import lines_of, read_log
from tests.support.waiting import eventually

TASK = re.compile(r"\d+-[0-9a-f]{32}")


def counted_to(number: int) -> str:
    return "".join(f"{n} " for n in range(1, number + 1))


def data(streamed: list[Frame]) -> list[bytes]:
    return [frame.raw.partition(b"data: ")[2] for frame in streamed]


def attempts(events: list[Json]) -> list[int]:
    metadata = [event.get("statusUpdate", {}).get("metadata", {}) for event in events]
    return [found["headrace.attempt"] for found in metadata if "headrace.attempt" in found]


async def test_a_stream_cut_anywhere_goes_on_at_the_other_gateway(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    here, there = (PlainAgent(http, url, "counter") for url in fleet.gateways)
    seen = list[Frame]()
    async with here.stream("30 20") as response:
        stream = frames(response)
        seen += [await anext(stream) for _ in range(4)]
    task = seen[0].event["task"]["id"]
    for agent in (there, here, there):
        async with agent.subscribe(task, seen[-1].id) as response:
            stream = frames(response)
            seen += [await anext(stream) for _ in range(6)]
    async with here.subscribe(task, seen[-1].id) as response:
        seen += await all_frames(response)
    assert data(seen) == await lines_of(fleet.nats_url, "counter", task)
    assert text_of([frame.event for frame in seen]) == counted_to(30)


async def test_a_killed_gateways_client_goes_on_at_the_other(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    here, there = (PlainAgent(http, url, "counter") for url in fleet.gateways)
    seen = list[Frame]()
    try:
        async with here.stream("100000 40") as response:
            async for frame in frames(response):
                seen.append(frame)
                if len(seen) == 10:
                    await asyncio.to_thread(fleet.restart, "gateway", 0)
    except (httpx.TransportError, AssertionError):
        pass  # The connection is torn, perhaps within a frame.
    task = seen[0].event["task"]["id"]
    goal = len(seen) + 20
    async with there.subscribe(task, seen[-1].id) as response:
        async for frame in frames(response):
            seen.append(frame)
            if len(seen) == goal:
                await there.cancel(task)
    assert seen[-1].state == "CANCELED"
    assert data(seen) == await lines_of(fleet.nats_url, "counter", task)
    numbers = sum("artifactUpdate" in frame.event for frame in seen)
    assert text_of([frame.event for frame in seen]) == counted_to(numbers)


async def test_a_killed_workers_task_is_finished_by_another_in_the_open_stream(
    fleet: Fleet, http: httpx.AsyncClient, slow_counters: list[ServiceProcess]
) -> None:
    streamed = list[Frame]()
    async with PlainAgent(http, fleet.gateways[0], "slow-counter").stream("go") as response:
        async for frame in frames(response):
            streamed.append(frame)
            if len(streamed) == 6:
                kill_holder(slow_counters, streamed)
    events = [frame.event for frame in streamed]
    assert streamed[-1].state == "COMPLETED"
    assert attempts(events) == [1, 2]
    assert [frame.generation for frame in streamed] == list(range(1, len(streamed) + 1))
    task = streamed[0].event["task"]["id"]
    found = await PlainAgent(http, fleet.gateways[1], "slow-counter").get(task)
    [artifact] = found.json()["artifacts"]
    assert "".join(part["text"] for part in artifact["parts"]) == counted_to(COUNT)


def kill_holder(workers: list[ServiceProcess], streamed: list[Frame]) -> None:
    """Kill the worker that took the run: the log tells its id, its own first line whose that is."""
    [working] = [event for event in (f.event for f in streamed) if attempts([event])]
    name = working["statusUpdate"]["metadata"]["headrace.worker"]
    [holder] = [worker for worker in workers if f"{name} serves " in worker.log.read_text()]
    holder.kill()


async def test_nats_may_be_killed_in_mid_stream(fleet: Fleet, http: httpx.AsyncClient) -> None:
    streamed = list[Frame]()
    async with PlainAgent(http, fleet.gateways[0], "counter").stream("60 50") as response:
        async for frame in frames(response):
            streamed.append(frame)
            if len(streamed) == 10:
                await asyncio.to_thread(fleet.restart, "nats")
    assert streamed[-1].state == "COMPLETED"
    task = streamed[0].event["task"]["id"]
    assert data(streamed) == await lines_of(fleet.nats_url, "counter", task)
    generations = [
        int(m.headers["Headrace-Generation"])
        for m in await read_log(fleet.nats_url, "counter", task)
    ]
    assert generations == sorted(set(generations))


async def test_what_a_gateway_killed_while_it_settles_was_sent_is_worked_on_once(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    here, there = (PlainAgent(http, url, "echo") for url in fleet.gateways)
    texts = [f"settled {secrets.token_hex(4)}" for _ in range(6)]
    with fleet.frozen("nats"):
        answers = await asyncio.gather(*(here.send(text) for text in texts))
        assert {answer.status_code for answer in answers} == {503}
        # They may have been taken: nobody is told to send them again.
        assert any("retry-after" not in answer.headers for answer in answers), "none is settled"
        killed = fleet.stack.kill("gateway", 0)

        async def knows() -> bool:
            return not (await http.get(f"{fleet.gateways[1]}/readyz")).is_success

        await eventually(knows, "the other gateway knows that NATS is silent")
    await asyncio.gather(*map(partial(obey, there), texts, answers))
    found = await there.tasks()
    outputs = [task["history"][0]["parts"][0].get("text") for task in found]
    assert [outputs.count(text) for text in texts] == [1] * len(texts)
    await asyncio.to_thread(fleet.stack.until_restarted, "gateway", 0, killed)


async def obey(agent: PlainAgent, text: str, answer: httpx.Response) -> None:
    """Do what the answers say, at another gateway, until the message has been worked on."""
    task = "" if "retry-after" in answer.headers else TASK.findall(answer.text)[0]

    async def is_over() -> bool:
        nonlocal task
        if not task:
            sent = await agent.send(text)
            assert sent.is_success or "retry-after" in sent.headers, sent.text
            task = sent.json()["task"]["id"] if sent.is_success else ""
            return False
        found = await agent.get(task)
        if found.status_code == httpx.codes.NOT_FOUND:
            task = ""  # It was not taken.
            return False
        assert found.is_success or "retry-after" in found.headers, found.text
        return found.is_success and found.json()["status"]["state"] == "TASK_STATE_COMPLETED"

    await eventually(is_over, f"{text} is worked on")
