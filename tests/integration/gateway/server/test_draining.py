"""A gateway that stops answers whatever it is asked for, also while NATS is silent."""

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import grpc.aio
import httpx
import pytest_asyncio
from websockets.exceptions import ConnectionClosed

from headrace_gateway.timing import GatewayTiming
from tests.integration.gateway.own_nats import Outcome, OwnNats, own_nats, task_in
from tests.support.agui.runs import run_input
from tests.support.clients.bindings import Rest, Rpc, message
from tests.support.clients.grpc_binding import Grpc, refused
from tests.support.clients.websocket import Json, connect, socket_to
from tests.support.waiting import eventually

_CLOSING = 0.1
"""Seconds in which a gateway that is to stop begins to."""
_OPEN = re.compile(r"^headrace_open_requests (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Stopped(OwnNats):
    """What stops, and a task of it."""

    task: str
    """One that waits for an answer, of the agent `ask`."""

    async def open(self) -> int:
        """Return how many requests the gateway is carrying out."""
        found = _OPEN.search((await self.http.get("/metrics")).text)
        assert found is not None
        return int(float(found[1]))


@pytest_asyncio.fixture(loop_scope="module")
async def stopped(tmp_path: Path) -> AsyncIterator[Stopped]:
    """All of it, at work. Whoever asks waits for NATS longer than the gateway has to stop."""
    async with own_nats(tmp_path, append_timeout=120, timing=GatewayTiming(drain=0.1)) as own:
        task = (await Rest(own.http, "ask").call("SendMessage", message("before")))["task"]["id"]
        yield Stopped(own.server, own.fleet, own.gateway, own.url, own.http, own.channel, task)


def told(response: httpx.Response) -> Outcome:
    assert "application/json" in response.headers["content-type"], response.text
    assert response.json()["error"], response.text
    return Outcome.of_response(response)


type Asks = Callable[[Stopped, str], Coroutine[None, None, Outcome]]

type Streams = Callable[[Stopped, str], Coroutine[None, None, str]]
"""Returns all that the client of a stream was told, to its end."""


def by_post(path: str, body: Callable[[str], Json] = message, **headers: str) -> Asks:
    async def ask(to: Stopped, text: str) -> Outcome:
        return told(await to.http.post(path, json=body(text), headers=headers))

    return ask


def old_message(text: str) -> Json:
    parts = [{"kind": "text", "text": text}]
    return {"message": {"messageId": "m", "kind": "message", "role": "user", "parts": parts}}


def old_call(text: str) -> Json:
    return {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": old_message(text)}


def old_rest(text: str) -> Json:
    output = {"messageId": "m", "role": "ROLE_USER", "content": [{"text": text}]}
    return {"message": output}


async def by_rpc(to: Stopped, text: str) -> Outcome:
    return told(await Rpc(to.http).send("SendMessage", message(text)))


async def by_grpc(to: Stopped, text: str) -> Outcome:
    return told(await Grpc(to.http, None, to.channel).send("SendMessage", message(text)))


async def by_grpc_stream(to: Stopped, text: str) -> Outcome:
    return told(await Grpc(to.http, None, to.channel).send("SendStreamingMessage", message(text)))


async def by_socket(to: Stopped, text: str) -> Outcome:
    async with socket_to(to.url) as socket:
        await socket.send({"id": "s", "send": message(text)})
        *_, last = await socket.rest("s")
    return Outcome.of_frame(last)


SENDS: dict[str, Asks] = {
    "rest": by_post("/message:send"),
    "rest stream": by_post("/message:stream"),
    "rest 0.3": by_post("/v1/message:send", old_rest, **{"A2A-Version": "0.3"}),
    "json-rpc": by_rpc,
    "json-rpc 0.3": by_post("/", old_call, **{"A2A-Version": "0.3"}),
    "hector": by_post("/message:send?format=hector"),
    "hector stream": by_post("/stream", Accept="application/x-agui-events"),
    "ag-ui": by_post("/v1/agents/assistant/ag-ui", run_input),
    "copilotkit": by_post("/copilotkit/agent/assistant/run", run_input),
    "grpc": by_grpc,
    "grpc stream": by_grpc_stream,
    "websocket": by_socket,
}


async def get_by_rest(to: Stopped, _: str) -> Outcome:
    return told(await Rest(to.http, "ask").send("GetTask", {"id": to.task}))


async def get_by_rpc(to: Stopped, _: str) -> Outcome:
    return told(await Rpc(to.http, "ask").send("GetTask", {"id": to.task}))


async def get_by_grpc(to: Stopped, _: str) -> Outcome:
    return told(await Grpc(to.http, "ask", to.channel).send("GetTask", {"id": to.task}))


async def cancel_by_rest(to: Stopped, _: str) -> Outcome:
    return told(await Rest(to.http, "ask").send("CancelTask", {"id": to.task}))


async def delete_by_rest(to: Stopped, _: str) -> Outcome:
    return told(await Rest(to.http, "ask").send("DeleteTask", {"id": to.task}))


async def cancel_by_socket(to: Stopped, _text: str) -> Outcome:
    async with socket_to(to.url, "/v1/agents/ask/stream") as socket:
        await socket.send({"id": "c", "cancel": {"task": to.task}})
        *_, last = await socket.rest("c")
    return Outcome.of_frame(last)


async def under_a_key(to: Stopped, text: str) -> Outcome:
    headers = {"Idempotency-Key": secrets.token_hex(4)}
    return told(await to.http.post("/message:send", json=message(text), headers=headers))


async def stop_by_agui(to: Stopped, _: str) -> Outcome:
    return told(await to.http.post("/v1/agents/ask/ag-ui/stop", json={"threadId": "t"}))


REPEATABLE: dict[str, Asks] = {
    asks.__name__: asks
    for asks in (
        get_by_rest,
        get_by_rpc,
        get_by_grpc,
        cancel_by_rest,
        delete_by_rest,
        cancel_by_socket,
        under_a_key,
        stop_by_agui,
    )
}


async def test_what_is_under_way_when_a_gateway_stops_is_answered_though_nats_is_frozen(
    stopped: Stopped,
) -> None:
    stopped.server.freeze()
    asking = {
        name: asyncio.create_task(asks(stopped, name))
        for name, asks in (SENDS | REPEATABLE).items()
    }

    async def has_all() -> bool:
        pending = sum(not one.done() for one in asking.values())
        return await stopped.open() >= pending

    await eventually(has_all, "the gateway is carrying all of them out")
    await stopped.gateway.aclose()
    await asyncio.wait(asking.values())
    answers = {name: one.result() for name, one in asking.items()}
    assert {name: one.status for name, one in answers.items()} == dict.fromkeys(answers, 503)
    for name in REPEATABLE:
        assert answers[name].again, name
    for name in SENDS:
        assert answers[name].again != bool(answers[name].task), name
    assert any(answers[name].task for name in SENDS), "none of them was being stored"
    stopped.server.thaw()
    await stopped.fleet.settle()
    repeated = [name for name in SENDS if answers[name].again]
    assert not set(repeated) & set(stopped.worked_on), "it is asked for again, and has been done"


def post_stream(path: str, body: Callable[[str], Json] = message, **headers: str) -> Streams:
    async def read(to: Stopped, text: str) -> str:
        return (await to.http.post(path, json=body(text), headers=headers)).text

    return read


def streaming_call(text: str) -> Json:
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage"}
    return call | {"params": message(text)}


async def stream_by_get(to: Stopped, text: str) -> str:
    """As an EventSource does, which would send a message again that got no cursor."""
    return (await to.http.get("/v1/agents/patient/message:stream", params={"message": text})).text


async def stream_by_grpc(to: Stopped, text: str) -> str:
    headers: Json = {}
    try:
        opened = Grpc(to.http, "patient", to.channel).open(
            "SendStreamingMessage", message(text), headers
        )
        async with opened as response:
            return "".join([piece async for piece in response.aiter_text()])
    except grpc.aio.AioRpcError as cut:
        return refused(cut).text


async def stream_by_socket(to: Stopped, text: str) -> str:
    came, url = list[str](), to.url.replace("http://", "ws://")
    async with connect(f"{url}/v1/agents/patient/stream") as socket:
        await socket.send(json.dumps({"id": "s", "send": message(text)}))
        with suppress(ConnectionClosed):
            async for frame in socket:
                came.append(str(frame))
    return "".join(came)


STREAMS: dict[str, Streams] = {
    "rest": post_stream("/v1/agents/patient/message:stream"),
    "json-rpc": post_stream("/v1/agents/patient", streaming_call),
    "hector": post_stream("/v1/agents/patient/message:stream?format=hector"),
    "hector events": post_stream("/v1/agents/patient/stream", Accept="application/x-agui-events"),
    "get": stream_by_get,
    "grpc": stream_by_grpc,
    "websocket": stream_by_socket,
}


async def test_a_stream_that_begins_while_its_gateway_stops_names_its_task(
    stopped: Stopped,
) -> None:
    stopped.server.freeze()
    reading = {name: asyncio.create_task(read(stopped, name)) for name, read in STREAMS.items()}

    async def has_all() -> bool:
        return await stopped.open() >= len(reading)

    await eventually(has_all, "the gateway waits for NATS to store all messages")
    stopping = asyncio.create_task(stopped.gateway.aclose())
    await asyncio.sleep(_CLOSING)
    stopped.server.thaw()
    await asyncio.wait(reading.values())
    await stopping
    named = {name: task_in(one.result()) for name, one in reading.items()}
    assert set(named) == {name for name, task in named.items() if task}
