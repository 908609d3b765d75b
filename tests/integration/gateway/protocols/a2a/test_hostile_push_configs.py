"""Push notification configs that no client of ours would send, in every binding."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from urllib.parse import quote

import grpc
import grpc.aio
import httpx
import pytest
import pytest_asyncio
from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.types import a2a_pb2
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message

from headrace_gateway.settings import GatewaySettings
from tests.support.clients.bindings import Json, Rest, Talk, message
from tests.support.clients.websocket import connect
from tests.support.scripted_fleet import ScriptedFleet

URL = "https://hooks.example/a"
DEEP = "the deep one"
TOO_DEEP = "nested deeper than 90 levels"
CONTROL = "a\x00\r\nX: y\x1b[2J\x7f\u2028\u202e"
LARGE = "x" * 100_000


def nested(levels: int) -> str:
    """Return JSON that no library would write."""
    return '{"a":' * levels + "1" + "}" * levels


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a request."""

    status: int
    """As of HTTP; 500 also where a binding says so with 200."""
    text: str


def said(answer: httpx.Response) -> Answer:
    is_error = '"error"' in answer.text
    if answer.status_code == 200 and is_error:
        return Answer(500 if "-32603" in answer.text else 400, answer.text)
    return Answer(answer.status_code, answer.text)


@dataclass(frozen=True, slots=True)
class Place:
    """Where it is said."""

    http: httpx.AsyncClient
    channel: grpc.aio.Channel
    url: str
    task: str

    async def post(self, path: str, body: Json, deep: int, version: str = "1.0") -> Answer:
        """Return what comes of a body, in which `DEEP` stands for what nests so deep."""
        content = json.dumps(body).replace(f'"{DEEP}"', nested(deep)).encode()
        headers = {"Content-Type": "application/json", "A2A-Version": version}
        return said(await self.http.post(path, content=content, headers=headers))


type Config = Json
type Way = Callable[[Place, Config, int], Coroutine[None, None, Answer]]


async def by_rest(to: Place, config: Config, deep: int = 0) -> Answer:
    path = f"/tasks/{to.task}/pushNotificationConfigs"
    return await to.post(path, config, deep)


async def by_rpc(to: Place, config: Config, deep: int = 0) -> Answer:
    method = "CreateTaskPushNotificationConfig"
    params = {"taskId": to.task, **config}
    return await to.post("/", call(method, params), deep)


async def by_old_rpc(to: Place, config: Config, deep: int = 0) -> Answer:
    params = {"taskId": to.task, "pushNotificationConfig": older(config)}
    body = call("tasks/pushNotificationConfig/set", params)
    return await to.post("/", body, deep, "0.3")


async def by_old_rest(to: Place, config: Config, deep: int = 0) -> Answer:
    path = f"/v1/tasks/{to.task}/pushNotificationConfigs"
    return await to.post(path, {"config": {"pushNotificationConfig": older(config)}}, deep, "0.3")


async def by_hector(to: Place, config: Config, deep: int = 0) -> Answer:
    method = "CreateTaskPushNotificationConfig"
    return await to.post("/rpc", call(method, {"taskId": to.task, **config}), deep)


async def with_a_message(to: Place, config: Config, deep: int = 0) -> Answer:
    configuration = {"taskPushNotificationConfig": config}
    return await to.post("/message:send", message() | {"configuration": configuration}, deep)


async def with_an_old_message(to: Place, config: Config, deep: int = 0) -> Answer:
    parts = [{"kind": "text", "text": "hi"}]
    sent = {"messageId": "m", "kind": "message", "role": "user", "parts": parts}
    params = {"message": sent, "configuration": {"pushNotificationConfig": older(config)}}
    return await to.post("/", call("message/send", params), deep, "0.3")


async def with_a_streamed_message(to: Place, config: Config, deep: int = 0) -> Answer:
    configuration = {"taskPushNotificationConfig": config}
    params = message() | {"configuration": configuration}
    return await to.post("/", call("SendStreamingMessage", params), deep)


async def by_socket(to: Place, config: Config, deep: int = 0) -> Answer:
    frame = call("CreateTaskPushNotificationConfig", {"taskId": to.task, **config})
    async with connect(to.url.replace("http://", "ws://") + "/stream", max_size=None) as socket:
        await socket.send(json.dumps(frame).replace(f'"{DEEP}"', nested(deep)))
        answer = str(await asyncio.wait_for(socket.recv(), 60))
    if '"error"' not in answer:
        return Answer(200, answer)
    return Answer(500 if "-32603" in answer else 400, answer)


def call(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def older(config: Config) -> Json:
    """Return a config as 0.3 has it."""
    if not isinstance(authentication := config.get("authentication"), dict):
        return config
    schemes = authentication.get("scheme")
    rest = {key: value for key, value in authentication.items() if key != "scheme"}
    return {**config, "authentication": {"schemes": [schemes], **rest}}


WAYS: dict[str, Way] = {
    way.__name__: way
    for way in (
        by_rest,
        by_rpc,
        by_old_rpc,
        by_old_rest,
        by_hector,
        by_socket,
        with_a_message,
        with_an_old_message,
        with_a_streamed_message,
    )
}

WRONG: dict[str, Config] = {
    "url missing": {},
    "url null": {"url": None},
    "url a number": {"url": 5},
    "url a list": {"url": [URL]},
    "url an object": {"url": {"a": 1}},
    "url huge": {"url": f"https://hooks.example/{LARGE}"},
    "url with control characters": {"url": f"https://hooks.example/{CONTROL}"},
    "url with an open bracket": {"url": "https://[::1"},
    "url with a future address": {"url": "https://[v1.x]:/"},
    "url with brackets inside": {"url": "https://a[b]c/"},
    "url with two ports": {"url": "https://hooks.example:1:2/"},
    "url with a negative port": {"url": "https://hooks.example:-1/"},
    "url with port 0": {"url": "https://hooks.example:0/"},
    "url with a backslash": {"url": "https://hooks.example\\@127.0.0.1/"},
    "url with an empty label": {"url": "https://hooks..example/"},
    "url with a long label": {"url": f"https://{'x' * 64}.example/"},
    "url with a %-encoded host": {"url": "https://127.0.0%2e1/"},
    "url with a zone": {"url": "https://[fe80::1%25eth0]/"},
    "url without a scheme": {"url": "//hooks.example/"},
    "url of another scheme": {"url": "gopher://hooks.example/"},
    "url javascript": {"url": "javascript:alert(1)"},
    "url data": {"url": "data:text/plain,x"},
    "url with a user": {"url": "https://u:p@hooks.example/"},
    "url a lone surrogate": {"url": "https://hooks.example/\ud800"},
    "token a number": {"url": URL, "token": 5},
    "token huge": {"url": URL, "token": LARGE},
    "token with control characters": {"url": URL, "token": CONTROL},
    "token a lone surrogate": {"url": URL, "token": "\udc00"},
    "id a number": {"url": URL, "id": 5},
    "id an object": {"url": URL, "id": {"a": 1}},
    "id huge": {"url": URL, "id": LARGE},
    "authentication a string": {"url": URL, "authentication": "Bearer"},
    "authentication a list": {"url": URL, "authentication": [1]},
    "scheme a number": {"url": URL, "authentication": {"scheme": 5}},
    "scheme with control characters": {"url": URL, "authentication": {"scheme": CONTROL}},
    "scheme huge": {"url": URL, "authentication": {"scheme": LARGE}},
    "credentials with control characters": {
        "url": URL,
        "authentication": {"scheme": "Bearer", "credentials": CONTROL},
    },
    "credentials huge": {
        "url": URL,
        "authentication": {"scheme": "Bearer", "credentials": LARGE},
    },
    "url nested": {"url": DEEP},
    "id nested": {"url": URL, "id": DEEP},
    "authentication nested": {"url": URL, "authentication": DEEP},
    "scheme nested": {"url": URL, "authentication": {"scheme": DEEP}},
}


@pytest_asyncio.fixture(loop_scope="module")
async def place(
    http: httpx.AsyncClient, settings: GatewaySettings, fleet: ScriptedFleet, gateway: str
) -> AsyncIterator[Place]:
    """A gateway and a task of it."""
    assert fleet.working
    task = (await Rest(http).call("SendMessage", message()))["task"]["id"]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{settings.grpc_port}") as channel:
        yield Place(http, channel, gateway, task)


@pytest.mark.parametrize("way", WAYS)
async def test_what_is_no_config_is_refused(
    place: Place, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    for name, config in WRONG.items():
        for deep in (91, 260, 5_000) if DEEP in str(config) else (0,):
            answer = await WAYS[way](place, config, deep)
            assert 400 <= answer.status < 500, (name, deep, answer)
            assert len(answer.text) < 4_096, (name, deep)
            # What no parser takes is no JSON to anybody; 0.3's nests under a name of its own.
            reasons = (name.split()[0], "not JSON", TOO_DEEP)
            assert any(reason in answer.text for reason in reasons), (name, deep, answer.text)
    kept = await Rest(place.http).call("ListTaskPushNotificationConfigs", {"taskId": place.task})
    assert kept.get("configs", []) == []
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []


def as_grpc(config: Config, task: str) -> Message | None:
    """Return the same for gRPC; None: protobuf can't say that."""
    try:
        return ParseDict({"taskId": task, **config}, a2a_pb2.TaskPushNotificationConfig())
    except (ParseError, UnicodeEncodeError):
        return None


def as_old_grpc(config: Config, task: str) -> Message | None:
    """Return the same for 0.3's."""
    names = {"config_id": config.get("id", "c")}
    try:
        return ParseDict(
            {
                "parent": f"tasks/{task}",
                **names,
                "config": {"pushNotificationConfig": older(config)},
            },
            a2a_v0_3_pb2.CreateTaskPushNotificationConfigRequest(),
        )
    except (ParseError, UnicodeEncodeError):
        return None


@pytest.mark.parametrize(
    ("service", "said_by"), [("lf.a2a.v1.A2AService", as_grpc), ("a2a.v1.A2AService", as_old_grpc)]
)
async def test_what_is_no_config_is_refused_over_grpc(
    place: Place,
    service: str,
    said_by: Callable[[Config, str], Message | None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    create: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = place.channel.unary_unary(
        f"/{service}/CreateTaskPushNotificationConfig"
    )
    tried = 0
    for name, config in WRONG.items():
        if DEEP in str(config) or (request := said_by(config, place.task)) is None:
            continue
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await create(request.SerializeToString(), timeout=60)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT, (name, refused.value)
        tried += 1
    assert tried > len(WRONG) / 2
    for garbage in (b"\xff" * 100, b"\x0a\x02\xff\xfe", b"\x0a\xff\xff\xff\xff\x7f"):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await create(garbage, timeout=60)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT, garbage
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []


IDS = (CONTROL, "../../x", "*", ">", "a.b.c", "$KV.PUSH.x", "x" * 4_000, "\u00fcberall", " ", "%2e")


async def test_ids_of_configs_may_be_anything_and_lead_nowhere_else(
    talk: Talk, caplog: pytest.LogCaptureFixture
) -> None:
    task = (await talk.call("SendMessage", message()))["task"]["id"]
    await talk.call("CreateTaskPushNotificationConfig", {"taskId": task, "id": "c", "url": URL})
    for name in IDS:
        request = {"taskId": task, "id": name}
        if isinstance(talk, Rest):
            request = {key: quote(value, safe="") for key, value in request.items()}
        for operation in ("GetTaskPushNotificationConfig", "DeleteTaskPushNotificationConfig"):
            answer = said(await talk.send(operation, request))
            assert answer.status < 500, (operation, name, answer)
            assert URL not in answer.text, (operation, name)
    kept = await talk.call("ListTaskPushNotificationConfigs", {"taskId": task})
    assert [one["id"] for one in kept["configs"]] == ["c"]
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []
