"""Messages of which nobody knows for a while whether they are stored: each is worked on once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest_asyncio

from headrace.model.events import Json
from tests.integration.gateway.own_nats import Outcome, OwnNats, own_nats
from tests.support.agui.runs import run_input
from tests.support.clients.bindings import Rest, Rpc, message
from tests.support.clients.grpc_binding import Grpc
from tests.support.clients.websocket import socket_to
from tests.support.waiting import eventually


class Outage(OwnNats):
    """A gateway and a fleet whose server is about to be away."""

    def times(self, text: str) -> int:
        """Return how often work on a message was begun."""
        return self.worked_on.count(text)


@pytest_asyncio.fixture(loop_scope="module")
async def outage(tmp_path: Path) -> AsyncIterator[Outage]:
    """All of it, at work."""
    async with own_nats(tmp_path, append_timeout=0.5) as own:
        assert (await Rest(own.http).call("SendMessage", message("before")))["task"]
        yield Outage(own.server, own.fleet, own.gateway, own.url, own.http, own.channel)


async def by_rest(outage: Outage, text: str) -> Outcome:
    return Outcome.of_response(await Rest(outage.http).send("SendMessage", message(text)))


async def by_rest_stream(outage: Outage, text: str) -> Outcome:
    return Outcome.of_response(await outage.http.post("/message:stream", json=message(text)))


async def by_rpc(outage: Outage, text: str) -> Outcome:
    return Outcome.of_response(await Rpc(outage.http).send("SendMessage", message(text)))


async def by_grpc(outage: Outage, text: str) -> Outcome:
    return Outcome.of_response(
        await Grpc(outage.http, None, outage.channel).send("SendMessage", message(text))
    )


async def by_hector(outage: Outage, text: str) -> Outcome:
    return Outcome.of_response(
        await outage.http.post("/message:send?format=hector", json=message(text))
    )


async def by_socket(outage: Outage, text: str) -> Outcome:
    async with socket_to(outage.url) as socket:
        await socket.send({"id": "s", "send": message(text)})
        *_, last = await socket.rest("s")
    return Outcome.of_frame(last)


def run_of(text: str) -> Json:
    """Return the same run of AG-UI's however often it is sent: sent again, it is found."""
    output = {"id": text, "role": "user", "content": text}
    return run_input(threadId=f"thread-{text}", runId=f"run-{text}", messages=[output])


async def by_agui(outage: Outage, text: str) -> Outcome:
    return Outcome.of_response(
        await outage.http.post("/v1/agents/assistant/ag-ui", json=run_of(text))
    )


async def by_copilotkit(outage: Outage, text: str) -> Outcome:
    return Outcome.of_response(
        await outage.http.post("/copilotkit/agent/assistant/run", json=run_of(text))
    )


async def under_a_key(outage: Outage, text: str) -> Outcome:
    headers = {"Idempotency-Key": text}
    return Outcome.of_response(
        await outage.http.post("/message:send", json=message(text), headers=headers)
    )


type Sends = Callable[[Outage, str], Awaitable[Outcome]]

CLIENTS: dict[str, Sends] = {
    client.__name__: client
    for client in (
        by_rest,
        by_rest_stream,
        by_rpc,
        by_grpc,
        by_hector,
        by_socket,
        by_agui,
        by_copilotkit,
        under_a_key,
    )
}


async def obeys(outage: Outage, client: Sends, text: str, first: Outcome) -> None:
    """Do what the answers say until the message has been worked on."""
    answer = first
    while not answer.accepted and answer.again:
        await asyncio.sleep(0.1)
        answer = await client(outage, text)
    if not answer.accepted:
        assert answer.task, "neither to be sent again, nor named"
        params = {"id": answer.task}

        async def is_over() -> bool:
            response = await Rest(outage.http).send("GetTask", params)
            if response.is_success:
                return bool(response.json()["status"]["state"] == "TASK_STATE_COMPLETED")
            assert "retry-after" in response.headers, response.text
            return False

        await eventually(is_over, f"{text} is over")


async def test_a_client_that_follows_every_answer_has_its_work_done_once_though_nats_freezes(
    outage: Outage,
) -> None:
    outage.server.freeze()
    firsts = await asyncio.gather(*(client(outage, name) for name, client in CLIENTS.items()))
    answers = dict(zip(CLIENTS, firsts, strict=True))
    assert not any(answer.accepted for answer in firsts)
    assert answers["by_rest"].task
    assert not answers["by_rest"].again
    late = await by_rest(outage, "late")
    assert late.again, "nothing of it was sent"
    outage.server.thaw()
    await asyncio.gather(
        *(obeys(outage, client, name, answers[name]) for name, client in CLIENTS.items()),
        obeys(outage, by_rest, "late", late),
    )
    await outage.fleet.settle()
    assert {name: outage.times(name) for name in [*CLIENTS, "late"]} == dict.fromkeys(
        [*CLIENTS, "late"], 1
    )


async def test_a_client_that_follows_every_answer_has_its_work_done_once_though_nats_is_killed(
    outage: Outage,
) -> None:
    names = [f"{client}-{wave}" for client in CLIENTS for wave in range(3)]

    def begun(wave: int) -> dict[str, asyncio.Future[Outcome]]:
        return {
            f"{name}-{wave}": asyncio.ensure_future(client(outage, f"{name}-{wave}"))
            for name, client in CLIENTS.items()
        }

    sending = begun(0)
    # Killed in the middle of sending: some are answered, others are on their way.
    await asyncio.wait(sending.values(), return_when=asyncio.FIRST_COMPLETED)
    sending |= begun(1)
    await asyncio.sleep(0)
    await asyncio.to_thread(outage.server.kill)
    sending |= begun(2)
    await asyncio.to_thread(outage.server.start)
    answers = dict(zip(sending, await asyncio.gather(*sending.values()), strict=True))
    await asyncio.gather(
        *(
            obeys(outage, CLIENTS[name.rpartition("-")[0]], name, answer)
            for name, answer in answers.items()
        )
    )
    await outage.fleet.settle()
    assert {name: outage.times(name) for name in names} == dict.fromkeys(names, 1)


async def test_an_answer_to_a_question_is_taken_once_though_nats_freezes(outage: Outage) -> None:
    talk = Rest(outage.http, "ask")
    task = (await talk.call("SendMessage", message("hi")))["task"]["id"]
    # Of the view as it is now, so that what is frozen is the append.
    sending = asyncio.create_task(talk.send("SendMessage", message("Ada", taskId=task)))
    outage.server.freeze()
    answer = Outcome.of_response(await sending)
    outage.server.thaw()
    if not answer.accepted and answer.again:
        assert (await talk.call("SendMessage", message("Ada", taskId=task)))["task"]

    async def is_over() -> bool:
        response = await talk.send("GetTask", {"id": task})
        return response.is_success and response.json()["status"]["state"].endswith("COMPLETED")

    await eventually(is_over, "the task is over")
    assert outage.times("Ada") == 1
