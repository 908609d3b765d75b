"""What task state answers is as of now, or it says that it can't tell."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from headrace_task_state.store import Range
from headrace_task_state.store_redis.store import Keys
from tests.support.event_stream import Json, all_frames, frames
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent
from tests.support.waiting import eventually


async def tell_redis(url: str, *commands: str) -> None:
    """Have commands carried out as one."""
    host, _, port = url.removeprefix("redis://").partition("/")[0].rpartition(":")
    expected = b"+OK\r\n" + b"+QUEUED\r\n" * len(commands) + b"*%d\r\n" % len(commands)

    def send() -> bytes:
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            lines = ["MULTI", *commands, "EXEC"]
            connection.sendall("".join(f"{line}\r\n" for line in lines).encode())
            answer = b""
            while answer.count(b"\r\n") < 2 * len(commands) + 2 and (more := connection.recv(512)):
                answer += more
            return answer

    assert (await asyncio.to_thread(send)).startswith(expected)


@asynccontextmanager
async def rebuilding(redis_url: str) -> AsyncIterator[None]:
    """Lose the view, and hold its rebuild up: somebody else has the lease and does nothing."""
    lease = Keys.of("headrace", "").lease(Range(0))
    await tell_redis(redis_url, "FLUSHALL SYNC", f"SET {lease} somebody")
    try:
        yield
    finally:
        await tell_redis(redis_url, f"DEL {lease}")


async def all_tasks(agent: PlainAgent) -> list[Json] | None:
    """Return every task of every page; None while task state can't tell."""
    tasks, token = list[Json](), ""
    while True:
        page = await agent.list(pageSize=100, pageToken=token, includeArtifacts=True)
        if page.status_code == 503:
            assert int(page.headers["retry-after"]) > 0
            return None
        tasks += page.json()["tasks"]
        token = page.json()["nextPageToken"]
        if not token:
            assert len(tasks) == page.json()["totalSize"]
            return tasks


@pytest.mark.usefixtures("extra_worker")
async def test_with_task_state_stopped_a_finished_task_is_never_working(
    fleet: Fleet, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    here, there = (PlainAgent(http, url, "gated") for url in fleet.gateways)
    async with here.stream(f"{gate}") as response:
        stream = frames(response)
        task = (await anext(stream)).event["task"]["id"]
        await anext(stream)
        assert (await there.get(task)).json()["status"]["state"] == "TASK_STATE_WORKING"
        with fleet.frozen("task-state"):
            gate.touch()
            *_, last = [frame async for frame in stream]
            assert last.state == "COMPLETED"
            # The log answers instead.
            found = await there.get(task)
            assert found.json()["status"]["state"] == "TASK_STATE_COMPLETED"
    answers = list[str]()

    async def has_ended() -> bool:
        found = await there.get(task)
        answers.append(
            str(found.status_code if found.is_error else found.json()["status"]["state"])
        )
        return not found.is_error

    await eventually(has_ended, "task state answers again")
    assert set(answers) <= {"503", "TASK_STATE_COMPLETED"}


async def test_with_task_state_stopped_tasks_are_accepted_and_streamed(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    agent = PlainAgent(http, fleet.gateways[0], "counter")
    with fleet.frozen("task-state"):
        async with agent.stream("3") as response:
            streamed = await all_frames(response)
        task = streamed[0].event["task"]
        readings = await asyncio.gather(
            agent.get(task["id"]),
            agent.list(),
            agent.rpc("GetTask", id=task["id"]),
            http.post(f"{agent.url}/message:send", json=continuing(task)),
            http.get(f"{fleet.gateways[0]}/readyz"),
        )
    assert streamed[-1].state == "COMPLETED"
    *reads, ready = [answer.status_code for answer in readings]
    assert reads == [200, 503, 200, 200], "only lists wait"
    assert ready == 200, "degraded, and ready all the same"


def continuing(task: Json) -> Json:
    part = {"text": "3"}
    return {
        "message": {
            "messageId": "1",
            "role": "ROLE_USER",
            "parts": [part],
            "contextId": task["contextId"],
        }
    }


def among(ids: set[str], tasks: list[Json] | None) -> list[Json] | None:
    """Return those of `tasks` that are named, in their order."""
    return None if tasks is None else [task for task in tasks if task["id"] in ids]


async def test_the_list_is_the_same_after_redis_has_lost_everything(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    here, there = (PlainAgent(http, url, "counter") for url in fleet.gateways)
    answers = [await here.send(text) for text in ("2", "3", "not a number")]
    # Logs that other tests have trimmed on purpose can't be listed again; these are whole.
    whole = {answer.json()["task"]["id"] for answer in answers}
    before = among(whole, await eventually(lambda: all_tasks(there), "the tasks are listed"))
    assert before is not None
    assert len(before) == 3
    await tell_redis(fleet.redis_url, "FLUSHALL SYNC")
    seen = list[list[Json] | None]()

    async def is_back() -> bool:
        seen.append(among(whole, await all_tasks(there)))
        return seen[-1] is not None

    await eventually(is_back, "task state has its view again")
    assert seen[-1] == before
    assert set(map(type, seen[:-1])) <= {type(None)}


@pytest.mark.usefixtures("extra_worker")
async def test_while_the_view_is_rebuilt_only_lists_wait(
    fleet: Fleet, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    asker, gated = (PlainAgent(http, fleet.gateways[0], name) for name in ("asker", "gated"))
    answered, canceled = [(await asker.send("hello")).json()["task"]["id"] for _ in range(2)]
    ended = (await PlainAgent(http, fleet.gateways[0], "counter").send("3")).json()["task"]
    running = (await gated.send(f"{gate}", returnImmediately=True)).json()["task"]["id"]
    async with rebuilding(fleet.redis_url):
        for url in fleet.gateways:
            assert (await PlainAgent(http, url, "counter").get(ended["id"])).json() == ended
        # Not at the gateway that began it, which has its feed.
        there = PlainAgent(http, fleet.gateways[1], "gated")
        async with there.subscribe(running) as response:
            stream = frames(response)
            assert (await anext(stream)).event["task"]["id"] == running
            gate.touch()
            *_, last = [frame async for frame in stream]
            assert last.state == "COMPLETED"
        asker = PlainAgent(http, fleet.gateways[1], "asker")
        async with asker.stream("Ann", taskId=answered) as response:
            assert (await all_frames(response))[-1].state == "COMPLETED"
        assert (await asker.cancel(canceled)).json()["status"]["state"] == "TASK_STATE_CANCELED"
        assert (await asker.list()).status_code == 503
    states = {answered: "COMPLETED", canceled: "CANCELED", running: "COMPLETED"}

    async def are_listed() -> bool:
        found = {task["id"]: task for one in (asker, gated) for task in await all_tasks(one) or ()}
        return all(
            task in found and found[task]["status"]["state"] == f"TASK_STATE_{state}"
            for task, state in states.items()
        )

    await eventually(are_listed, "task state has its view again")


async def test_redis_may_go_and_come_back(fleet: Fleet, http: httpx.AsyncClient) -> None:
    agent, other = (PlainAgent(http, url, "counter") for url in fleet.gateways)
    task = (await agent.send("3")).json()["task"]
    running = (await agent.send("10000 20", returnImmediately=True)).json()["task"]["id"]
    with fleet.frozen("redis"):
        assert (await other.cancel(running)).json()["status"]["state"] == "TASK_STATE_CANCELED"
        async with agent.stream("3") as response:
            assert (await all_frames(response))[-1].state == "COMPLETED"
        assert (await agent.get(task["id"])).json()["status"]["state"] == "TASK_STATE_COMPLETED"
        assert (await agent.list()).status_code == 503

    async def is_back() -> bool:
        return bool((await agent.get(task["id"])).json() == task)

    await eventually(is_back, "task state reads again")
