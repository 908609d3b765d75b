"""Nobody sees another's task: on no operation and no protocol, not even that it exists."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc.aio
import httpx
import pytest
from websockets.asyncio.client import connect

from headrace.task import mint_task_id
from tests.integration.gateway.talking import Json, Rest, Rpc, Talk
from tests.integration.gateway.talking_grpc import Grpc
from tests.support.credentials import ANN, BOB, EVE, Person, write
from tests.support.plain_a2a import message
from tests.support.stack import Stack

INTRUDERS = pytest.mark.parametrize("intruder", [BOB, EVE], ids=["other owner", "other tenant"])
BINDINGS = pytest.mark.parametrize("binding", [Rest, Rpc, Grpc])
URL = "https://hooks.example/"


@dataclass(frozen=True)
class Secret:
    """One of Ann's tasks, as somebody else might name it."""

    id: str
    cursor: str


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack that wants credentials."""
    folder = tmp_path_factory.mktemp("guarded")
    file = write(folder / "credentials.toml", ANN, BOB, EVE)
    with Stack(folder, environment={"HEADRACE_CREDENTIALS": str(file)}) as stack:
        yield stack


@asynccontextmanager
async def client_of(guarded: Stack, person: Person) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"A2A-Version": "1.0", **person.bearer}
    async with httpx.AsyncClient(base_url=guarded.url, headers=headers, timeout=90) as http:
        yield http


@asynccontextmanager
async def talking(guarded: Stack, binding: type[Talk], person: Person) -> AsyncIterator[Talk]:
    async with client_of(guarded, person) as http:
        if binding is not Grpc:
            yield binding(http, "counter")
            return
        interfaces = (await http.get("/v1/agents/counter")).json()["supportedInterfaces"]
        [address] = [at["url"] for at in interfaces if at["protocolBinding"] == "GRPC"]
        async with grpc.aio.insecure_channel(address) as channel:
            yield Grpc(http, "counter", channel)


@asynccontextmanager
async def secrets_of_ann(guarded: Stack) -> AsyncIterator[list[Secret]]:
    """Yield a task of Ann's that is at work, and one that has ended."""
    async with client_of(guarded, ANN) as http:
        found = []
        for text in ("500 100", "1 1"):
            body = {"message": message(text, contextId="anns-thread"), "configuration": {}}
            body["configuration"] = {
                "returnImmediately": text != "1 1",
                "taskPushNotificationConfig": {"id": "c", "url": URL},
            }
            answer = await http.post("/v1/agents/counter/message:send", json=body)
            task = answer.raise_for_status().json()["task"]["id"]
            found.append(Secret(task, ""))
        async with http.stream("GET", f"/v1/agents/counter/tasks/{found[0].id}:subscribe") as open_:
            async for line in open_.aiter_lines():
                if line.startswith("id: "):
                    found[0] = Secret(found[0].id, line.removeprefix("id: "))
                    break
        yield found
        await http.post(f"/v1/agents/counter/tasks/{found[0].id}:cancel")


def asked(task: str) -> dict[str, Json]:
    """Return every operation that names a task, with parameters that do."""
    return {
        "GetTask": {"id": task},
        "CancelTask": {"id": task},
        "SubscribeToTask": {"id": task},
        "SendMessage": {"message": message("hello", taskId=task, messageId="m")},
        "SendStreamingMessage": {"message": message("hello", taskId=task, messageId="m")},
        "CreateTaskPushNotificationConfig": {"taskId": task, "url": URL},
        "GetTaskPushNotificationConfig": {"taskId": task, "id": "c"},
        "ListTaskPushNotificationConfigs": {"taskId": task},
    }


@BINDINGS
@INTRUDERS
async def test_anothers_task_looks_like_one_that_does_not_exist(
    guarded: Stack, binding: type[Talk], intruder: Person
) -> None:
    async with (
        secrets_of_ann(guarded) as secrets,
        talking(guarded, binding, intruder) as talk,
    ):
        nothing = mint_task_id(0)
        for secret in secrets:
            for operation, params in asked(secret.id).items():
                for after in {"", secret.cursor}:
                    talk.http.headers["last-event-id"] = after
                    refusal = await talk.refused(operation, params)
                    other = await talk.refused(operation, asked(nothing)[operation])
                    assert refusal.reason == "TASK_NOT_FOUND", operation
                    said = [
                        (one.status, one.code, one.text.replace(task, "TASK"), one.fields)
                        for one, task in ((refusal, secret.id), (other, nothing))
                    ]
                    assert said[0] == said[1], operation


@BINDINGS
@INTRUDERS
async def test_anothers_tasks_are_in_no_list_and_no_count(
    guarded: Stack, binding: type[Talk], intruder: Person
) -> None:
    async with secrets_of_ann(guarded), talking(guarded, binding, intruder) as talk:
        for filters in ({}, {"contextId": "anns-thread"}, {"status": "TASK_STATE_WORKING"}):
            found = await talk.call("ListTasks", filters)
            assert (found.get("tasks", []), found.get("totalSize", 0)) == ([], 0)


@BINDINGS
async def test_the_owner_sees_them_on_every_binding(guarded: Stack, binding: type[Talk]) -> None:
    async with secrets_of_ann(guarded) as secrets, talking(guarded, binding, ANN) as talk:
        for secret in secrets:
            assert (await talk.call("GetTask", {"id": secret.id}))["id"] == secret.id
        found = await talk.call("ListTasks", {"contextId": "anns-thread"})
        assert {secret.id for secret in secrets} <= {task["id"] for task in found["tasks"]}


@INTRUDERS
async def test_anothers_context_id_is_a_context_of_ones_own(
    guarded: Stack, intruder: Person
) -> None:
    context = f"used-by-ann-and-{intruder.owner}"
    tasks = list[str]()
    async with (
        talking(guarded, Rest, ANN) as ann,
        talking(guarded, Rest, intruder) as talk,
    ):
        for caller in (ann, talk):
            sent = {"message": message("1 1", contextId=context)}
            task = (await caller.call("SendMessage", sent))["task"]
            assert task["contextId"] == context
            tasks.append(task["id"])
        for caller, own in zip((ann, talk), tasks, strict=True):
            listed = await caller.call("ListTasks", {"contextId": context})
            assert [one["id"] for one in listed["tasks"]] == [own]


@INTRUDERS
async def test_over_a_socket_anothers_task_does_not_exist(guarded: Stack, intruder: Person) -> None:
    url = f"{guarded.url.replace('http', 'ws', 1)}/v1/agents/counter/stream"
    async with (
        secrets_of_ann(guarded) as secrets,
        connect(url, additional_headers=intruder.bearer) as socket,
    ):
        for secret in secrets:
            frames: list[Json] = [
                {"subscribe": {"task": secret.id}},
                {"subscribe": {"task": secret.id, "after": secret.cursor or "abcdefgh:1"}},
                {"cancel": {"task": secret.id}},
                {"send": {"message": message("hello", taskId=secret.id)}},
                {"jsonrpc": "2.0", "method": "GetTask", "params": {"id": secret.id}},
            ]
            for number, frame in enumerate(frames):
                await socket.send(json.dumps({"id": number, **frame}))
                answer = json.loads(await asyncio.wait_for(socket.recv(), 20))
                assert "TASK_NOT_FOUND" in str(answer["error"]), frame


@INTRUDERS
async def test_by_ag_ui_anothers_thread_does_not_exist(guarded: Stack, intruder: Person) -> None:
    base = "/v1/agents/counter/ag-ui"
    async with secrets_of_ann(guarded), client_of(guarded, intruder) as http:

        async def answers(thread: str) -> list[tuple[int, Any]]:
            named = {"threadId": thread, "runId": "r"}
            found = [
                await http.get(f"{base}/threads/{thread}"),
                await http.post(f"{base}/attach", json=named),
                await http.post(f"{base}/stop", json=named),
            ]
            return [(one.status_code, one.text.replace(thread, "THREAD")) for one in found]

        assert await answers("anns-thread") == await answers("nobodys-thread")
        assert {status for status, _ in await answers("anns-thread")} == {404}


async def test_old_clients_see_no_more(guarded: Stack) -> None:
    async with secrets_of_ann(guarded) as secrets, client_of(guarded, BOB) as http:
        del http.headers["A2A-Version"]
        for method in ("tasks/get", "tasks/cancel", "tasks/resubscribe"):
            call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": secrets[0].id}}
            answer = await http.post("/v1/agents/counter", json=call)
            # A stream's refusal comes as its one event.
            assert '"code":-32001' in answer.text.replace(" ", ""), method
            assert "working" not in answer.text


async def test_an_idempotency_key_is_each_owners_own(guarded: Stack) -> None:
    tasks = set()
    for person in (ANN, BOB, EVE):
        async with client_of(guarded, person) as http:
            answer = await http.post(
                "/v1/agents/counter/message:send",
                json={"message": message("1 1", messageId="same")},
                headers={"Idempotency-Key": "everybodys"},
            )
            tasks.add(answer.raise_for_status().json()["task"]["id"])
    assert len(tasks) == 3


async def test_the_tenant_of_a_path_is_an_address_and_no_right(guarded: Stack) -> None:
    async with secrets_of_ann(guarded) as secrets, client_of(guarded, EVE) as http:
        for path in (f"/acme/tasks/{secrets[0].id}", f"/tasks/{secrets[0].id}?tenant=acme"):
            answer = await http.get(f"/v1/agents/counter{path}")
            assert answer.status_code in (400, 404)
            assert "WORKING" not in answer.text
