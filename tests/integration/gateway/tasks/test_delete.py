"""DeleteTask: an owner has a task erased, at work or not, and again without harm."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from nats.aio.msg import Msg

from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileOwner, FileStore
from headrace.log.read import last_stored, next_stored, tombstone_of
from headrace.model.task import TaskKey
from headrace.tasks.forget import clear_away
from headrace_gateway.settings import GatewaySettings
from tests.support.clients.bindings import Rest, Rpc, Talk, message
from tests.support.credentials import ANN, EVE, write
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports
from tests.support.waiting import eventually


async def delete(talk: Talk, task: str) -> httpx.Response:
    """Ask for it in the binding's own way."""
    if isinstance(talk, Rest):
        return await talk.http.delete(f"{talk.base}/tasks/{task}")
    return await talk.send("DeleteTask", {"id": task})


async def deleted(talk: Talk, task: str) -> None:
    answer = await delete(talk, task)
    assert answer.is_success, answer.text
    assert talk.result(answer.json()) == {}


async def is_erased(bus: Bus, key: TaskKey) -> bool:
    """Tell whether the log is nothing but a tombstone, and there are no files."""
    first, last = await next_stored(bus, key, 0), await last_stored(bus, key)
    return first is not None and first == last and last.is_tombstone


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def erasing(bus: Bus) -> AsyncIterator[None]:
    """Erase what has a tombstone, as task state does."""

    async def erase(msg: Msg) -> None:
        if tombstone_of(msg.headers) is not None:
            await clear_away(bus, bus.subjects.key_of_event(msg.subject))

    subscription = await bus.subscribe(f"{bus.subjects.prefix}.live.>", erase)
    yield
    await bus.unsubscribe(subscription)


async def test_a_task_that_has_ended_is_erased(json_talk: Talk, bus: Bus) -> None:
    task = (await json_talk.call("SendMessage", message("hello")))["task"]["id"]
    key = TaskKey("default", "assistant", task)
    link = await FileStore(bus).put(key, FileOwner("anonymous", "context"), b"x" * 300_000)
    await deleted(json_talk, task)
    assert await is_erased(bus, key)
    found = await bus.js.stream_info(f"OBJ_{bus.streams.files}", subjects_filter=">")
    assert not [name for name in found.state.subjects or {} if task in name], link
    refusal = await json_talk.refused("GetTask", {"id": task})
    assert refusal.reason == "TASK_NOT_FOUND"
    await deleted(json_talk, task)


async def test_a_task_at_work_is_canceled_first_and_its_streams_report_it(
    json_talk: Talk, bus: Bus, fleet: ScriptedFleet
) -> None:
    agent = json_talk.to("patient")
    async with agent.stream("SendStreamingMessage", message()) as stream:
        frames = stream.frames()
        _, event = await anext(frames)
        task = event["task"]["id"]
        await anext(frames)
        await deleted(agent, task)
        states = [
            seen["statusUpdate"]["status"]["state"]
            async for _, seen in frames
            if "statusUpdate" in seen
        ]
    assert states[-1:] in ([], ["TASK_STATE_CANCELED"])
    assert fleet.runs[0].key.task == task
    assert await is_erased(bus, fleet.runs[0].key)


async def test_what_is_no_task_can_not_be_deleted(json_talk: Talk) -> None:
    for task in (f"3-{secrets.token_hex(16)}", "no-task"):
        answer = await delete(json_talk, task)
        assert "TASK_NOT_FOUND" in answer.text


async def test_a_cursor_of_a_deleted_task_is_answered_at_once(json_talk: Talk) -> None:
    async with json_talk.stream("SendStreamingMessage", message("hello")) as stream:
        frames = await stream.rest()
    cursor, task = frames[0][0], frames[0][1]["task"]["id"]
    await deleted(json_talk, task)
    refusal = await json_talk.refused_stream("SubscribeToTask", {"id": task}, cursor)
    assert refusal.reason == "TASK_NOT_FOUND"


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("credentials") / "credentials.toml", ANN, EVE)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(
    settings: GatewaySettings, one_fleet: ScriptedFleet, credentials: Path
) -> AsyncIterator[str]:
    assert one_fleet.working
    update = {"credentials": credentials, "http_port": ports.pick(), "grpc_port": 0}
    async with running(settings.model_copy(update=update)) as url:
        yield url


@pytest.mark.parametrize("binding", [Rest, Rpc])
async def test_another_owners_task_is_not_found_before_and_after(
    guarded: str, binding: type[Talk], bus: Bus
) -> None:
    def client(token: str) -> httpx.AsyncClient:
        headers = {"A2A-Version": "1.0", "Authorization": f"Bearer {token}"}
        return httpx.AsyncClient(base_url=guarded, headers=headers, timeout=60, verify=NO_TLS)

    async with client(ANN.token) as hers, client(EVE.token) as others:
        ann, eve = binding(hers), binding(others)
        task = (await ann.call("SendMessage", message("mine")))["task"]["id"]
        for _ in range(2):
            foreign = await delete(eve, task)
            unknown = await delete(eve, f"3-{secrets.token_hex(16)}")
            assert foreign.status_code == unknown.status_code
            assert "TASK_NOT_FOUND" in foreign.text
            await deleted(ann, task)

        async def gone() -> bool:
            return "TASK_NOT_FOUND" in (await ann.send("GetTask", {"id": task})).text

        await eventually(gone, "it is gone")
    assert bus.connected
