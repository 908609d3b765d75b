"""What JSON and streams of lines are bad at arrives whole and exact, over each binding."""

import json
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import httpx
import pytest
import websockets
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.helpers.proto_helpers import new_text_message
from a2a.types import a2a_pb2
from a2a.utils.constants import TransportProtocol
from fasta2a.client import A2AClient
from fasta2a.schema import Message
from google.protobuf.json_format import MessageToDict

from headrace.client import Client as FleetClient
from headrace.model.events import Json
from tests.support import extra_services
from tests.support.plain_http import NO_TLS
from tests.support.service_process import ServiceProcess
from tests.support.stack import Stack
from tests.support.text_agents import BIG, SEPARATORS, WHOLE
from tests.support.waiting import eventually, until

BINDINGS = [TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON, TransportProtocol.GRPC]


@pytest.fixture(scope="module")
def worker(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    folder, nats_url = tmp_path_factory.mktemp("text"), stack.dev()["nats_url"]
    with extra_services.worker(folder, "agents", nats_url, "text_agents") as worker:
        until(
            lambda: extra_services.is_served(stack.gateways, "overflowing"), "its agents are there"
        )
        yield worker


@pytest.fixture
def agents(stack: Stack, worker: ServiceProcess) -> str:
    """The URL under which the agents are."""
    assert worker
    return f"{stack.gateways[0]}/v1/agents"


def a2a(text: str = "hi", **more: object) -> Json:
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    return {"message": message | more}


def rpc(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "id": "\u2028id", "method": method, "params": params}


def ag_ui(text: str = "hi", **more: object) -> Json:
    empty: Json = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
    ids = {"threadId": str(uuid.uuid4()), "runId": str(uuid.uuid4())}
    said = {"id": str(uuid.uuid4()), "role": "user", "content": text}
    return {**ids, **empty, "messages": [said], **more}


STREAMS: dict[str, tuple[str, Json, dict[str, str]]] = {
    "a2a rest": ("message:stream", a2a(), {}),
    "a2a rpc": ("", rpc("SendStreamingMessage", a2a()), {}),
    "a2a 0.3 rpc": (
        "",
        rpc(
            "message/stream",
            {
                "message": {
                    "kind": "message",
                    "messageId": "m",
                    "role": "user",
                    "parts": [{"kind": "text", "text": "hi"}],
                }
            },
        ),
        {"A2A-Version": "0.3"},
    ),
    "hector": ("message:stream", a2a(), {"Accept": "application/x-agui-events"}),
    "ag-ui": ("ag-ui", ag_ui(), {}),
}


async def streamed(
    http: httpx.AsyncClient, url: str, body: Json | str, headers: dict[str, str] | None = None
) -> list[Any]:
    """Return the data of each event, for a client that splits text into lines as Python does."""
    content = body if isinstance(body, str) else json.dumps(body)
    stated = {"Content-Type": "application/json", "Accept": "text/event-stream", **(headers or {})}
    answer = await http.post(url, content=content, headers=stated)
    assert answer.status_code == 200, answer.text
    lines = answer.text.splitlines()
    assert all(line.split(":")[0] in ("", "id", "event", "data") for line in lines)
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data")]


@asynccontextmanager
async def official(url: str, binding: TransportProtocol) -> AsyncIterator[Client]:
    async with httpx.AsyncClient(timeout=90, verify=NO_TLS) as http:
        config = ClientConfig(
            httpx_client=http,
            grpc_channel_factory=grpc.aio.insecure_channel,
            supported_protocol_bindings=[binding],
        )
        async with await ClientFactory(config).create_from_url(url) as client:
            yield client


async def of_official(url: str, binding: TransportProtocol) -> list[a2a_pb2.StreamResponse]:
    message = new_text_message("hi", role=a2a_pb2.ROLE_USER)
    async with official(url, binding) as client:
        request = a2a_pb2.SendMessageRequest(message=message)
        return [event async for event in client.send_message(request)]


def texts(events: list[a2a_pb2.StreamResponse]) -> str:
    updates = [event.artifact_update for event in events if event.HasField("artifact_update")]
    return "".join(part.text for update in updates for part in update.artifact.parts)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_official_client_reads_separators_and_cut_characters(
    agents: str, binding: TransportProtocol
) -> None:
    events = await of_official(f"{agents}/separating", binding)
    assert events[-1].status_update.status.state == a2a_pb2.TASK_STATE_COMPLETED
    assert texts(events) == 2 * SEPARATORS
    events = await of_official(f"{agents}/cutting", binding)
    assert events[-1].status_update.status.state == a2a_pb2.TASK_STATE_COMPLETED
    assert texts(events) == WHOLE


async def test_fasta2as_client_reads_separators(agents: str) -> None:
    async with httpx.AsyncClient(timeout=90, verify=NO_TLS) as http:
        client = A2AClient(f"{agents}/separating", http)
        message = Message(role="user", message_id="m", parts=[{"text": "hi"}])
        found = [answer async for answer in client.stream_message(message)]
    assert len(found) > 3


@pytest.mark.parametrize("name", STREAMS)
async def test_every_stream_is_the_same_lines_for_clients_that_split_at_more(
    agents: str, http: httpx.AsyncClient, name: str
) -> None:
    path, body, headers = STREAMS[name]
    events = await streamed(http, f"{agents}/separating/{path}".rstrip("/"), body, headers)
    assert SEPARATORS in [*strings_in(events)]
    events = await streamed(http, f"{agents}/cutting/{path}".rstrip("/"), body, headers)
    texts = [*strings_in(events)]
    assert {"cut ", "\U0001f600 after, alone ", "\ufffd"} <= {*texts}
    assert any("file \ufffd.txt" in text for text in texts)


def strings_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from strings_in([name, one])
    elif isinstance(value, list):
        for one in value:
            yield from strings_in(one)


def joined(events: list[Json], kind: str) -> str:
    return "".join(event["delta"] for event in events if event["type"] == kind)


async def test_ag_ui_joins_what_was_cut_in_each_kind_of_text(
    agents: str, http: httpx.AsyncClient
) -> None:
    events = await streamed(http, f"{agents}/cutting/ag-ui", ag_ui())
    assert events[-1]["type"] == "RUN_FINISHED"
    assert joined(events, "TEXT_MESSAGE_CONTENT") == WHOLE
    assert joined(events, "REASONING_MESSAGE_CONTENT") == WHOLE
    assert json.loads(joined(events, "TOOL_CALL_ARGS")) == {"q": WHOLE}
    [state] = [event["snapshot"] for event in events if event["type"] == "STATE_SNAPSHOT"]
    assert state == {"\ufffd": "\U0001f600"}


async def test_a_message_with_half_a_character_is_taken_and_so_is_the_next_of_its_thread(
    agents: str, http: httpx.AsyncClient
) -> None:
    echo = agents.replace("/v1/agents", "/v1/agents/echo")
    halved = json.dumps(a2a("cut \ud83d"))
    assert r"\ud83d" in halved
    [*_, task] = await streamed(http, f"{echo}/message:stream", halved)
    assert task["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    call = json.dumps(rpc("SendMessage", a2a("cut \ud83d")))
    answer = await http.post(echo, content=call, headers={"Content-Type": "application/json"})
    assert answer.json()["id"] == "\u2028id"
    artifacts = answer.json()["result"]["task"]["artifacts"]
    assert artifacts[0]["parts"][0]["text"] == "cut \ufffd"
    first = ag_ui("cut \ud83d", state={"note": "\udc00"})
    for text in ("cut \ud83d", "next \ud83d"):
        said = {"id": str(uuid.uuid4()), "role": "user", "content": text}
        body = {**first, "runId": str(uuid.uuid4()), "messages": [*first["messages"], said]}
        events = await streamed(http, f"{echo}/ag-ui", json.dumps(body))
        assert events[-1]["type"] == "RUN_FINISHED"
        assert joined(events, "TEXT_MESSAGE_CONTENT") == text.replace("\ud83d", "\ufffd")


async def test_a_web_socket_takes_and_sends_the_same(agents: str) -> None:
    url = f"{agents.replace('http', 'ws', 1)}/cutting/stream"
    async with websockets.connect(url) as socket:
        await socket.send(json.dumps({"id": 2**70, "send": a2a("cut \ud83d")}))
        frames: list[Json] = []
        while not (frames and frames[-1].get("end")):
            frames.append(json.loads(await socket.recv()))
            assert "error" not in frames[-1], frames[-1]
    assert {frame["id"] for frame in frames} == {2**70}
    assert {"cut ", "\U0001f600 after, alone ", "\ufffd", "cut \ufffd"} <= {*strings_in(frames)}


async def test_integers_beyond_64_bits_are_exact_over_json_in_both_directions(
    agents: str, http: httpx.AsyncClient
) -> None:
    given = {"ids": [2**64 + 1, {"wei": 10**21}]}
    url = f"{agents}/counting"
    body = a2a(metadata={"kept": given}) | {"metadata": {"given": given}}
    events = await streamed(http, f"{url}/message:stream", body)
    [numbers] = [e["artifactUpdate"] for e in events if "artifactUpdate" in e]
    assert numbers["artifact"]["parts"][0]["data"]["own"] == BIG
    assert numbers["artifact"]["parts"][0]["data"]["given"] == given
    task = events[0]["task"]["id"]
    found = (await http.get(f"{url}/tasks/{task}")).json()
    assert found["artifacts"][0]["parts"][0]["data"]["own"] == BIG
    assert found["history"][0]["metadata"]["kept"] == given
    listed = await http.get(f"{url}/tasks", params={"includeArtifacts": "true"})
    tasks = {one["id"]: one for one in listed.json()["tasks"]}
    assert tasks[task]["artifacts"] == found["artifacts"]


async def test_streams_of_a2a_0_3_have_the_same_numbers(
    agents: str, http: httpx.AsyncClient
) -> None:
    given = {"ids": [2**64 + 1, {"wei": 10**21, "share": 1.0}]}
    parts = [{"kind": "text", "text": "x"}]
    message = {"kind": "message", "messageId": uuid.uuid4().hex, "role": "user", "parts": parts}
    params = {"message": message, "metadata": {"given": given}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": params}
    async with http.stream("POST", f"{agents}/counting", json=call) as response:
        lines = [line async for line in response.aiter_lines()]
    events = [json.loads(line[6:])["result"] for line in lines if line.startswith("data: ")]
    [numbers] = [event["artifact"] for event in events if event["kind"] == "artifact-update"]
    found = numbers["parts"][0]["data"]
    shown, expected = (
        [each["given"], each["own"]] for each in (found, {"given": given, "own": BIG})
    )
    assert json.dumps(shown, sort_keys=True) == json.dumps(expected, sort_keys=True)


async def test_integers_of_ag_uis_state_arguments_and_results_are_exact(
    agents: str, http: httpx.AsyncClient
) -> None:
    given = {"wei": 10**21, "below": -(2**63) - 1}
    run = ag_ui(state=given)
    events = await streamed(http, f"{agents}/counting/ag-ui", run)
    [state] = [event["snapshot"] for event in events if event["type"] == "STATE_SNAPSHOT"]
    assert state == {**given, "own": BIG}
    assert json.loads(joined(events, "TOOL_CALL_ARGS")) == BIG
    [result] = [event["content"] for event in events if event["type"] == "TOOL_CALL_RESULT"]
    assert json.loads(result) == BIG
    assert "\t" not in result + joined(events, "TOOL_CALL_ARGS")
    url = f"{agents}/counting/ag-ui/threads/{run['threadId']}"
    assert (await http.get(url)).json()["state"] == {**given, "own": BIG}


async def test_the_runtime_of_copilotkit_takes_and_sends_the_same(
    agents: str, http: httpx.AsyncClient
) -> None:
    given = {"wei": 10**21, "note": "\udc00"}
    run = f"{agents.removesuffix('/v1/agents')}/copilotkit/agent/counting/run"
    events = await streamed(http, run, json.dumps(ag_ui("cut \ud83d", state=given)))
    [state] = [event["snapshot"] for event in events if event["type"] == "STATE_SNAPSHOT"]
    assert state == {"wei": 10**21, "note": "\ufffd", "own": BIG}
    assert json.loads(joined(events, "TOOL_CALL_ARGS")) == BIG


async def test_a_schedule_is_stored_and_begins_its_task_with_the_same(
    agents: str, http: httpx.AsyncClient
) -> None:
    context, url = str(uuid.uuid4()), f"{agents.removesuffix('/agents')}/schedules/exact"
    parts = [{"text": "cut \ud83d", "metadata": {"wei": 10**21, "note": "\udc00"}}]
    body = {"agent": "counting", "message": parts, "contextId": context}
    past = json.dumps(body | {"at": "2026-01-01T00:00:00Z"})
    stored = await http.put(url, content=past, headers={"Content-Type": "application/json"})
    whole = {"text": "cut \ufffd", "metadata": {"wei": 10**21, "note": "\ufffd"}}
    assert stored.json()["message"] == [whole]

    async def begun() -> Json | None:
        query = {"contextId": context, "historyLength": "9"}
        found: list[Json] = (await http.get(f"{agents}/counting/tasks", params=query)).json()[
            "tasks"
        ]
        return found[0] if found else None

    task = await eventually(begun, "the schedule begins its task")
    assert task["history"][0]["parts"] == [whole]


async def test_numbers_over_grpc_are_the_nearest_doubles(agents: str) -> None:
    events = await of_official(f"{agents}/counting", TransportProtocol.GRPC)
    [numbers] = [one.artifact_update for one in events if one.HasField("artifact_update")]
    found = MessageToDict(numbers.artifact.parts[0].data)
    assert found["own"] == {name: float(number) for name, number in BIG.items()}


async def test_the_fleets_own_client_keeps_integers_exact(agents: str, stack: Stack) -> None:
    assert agents
    async with FleetClient(*stack.gateways) as client:
        events = [event.json async for event in client.stream("counting", "cut \ud83d")]
        found = await client.get("counting", events[0]["task"]["id"])
    assert events[0]["task"]["history"][0]["parts"] == [{"text": "cut \ufffd"}]
    assert json.dumps(BIG) in json.dumps(events)
    assert json.dumps(BIG) in json.dumps(found.task)


async def test_a_number_that_json_does_not_have_is_null_and_reported_once(
    agents: str, http: httpx.AsyncClient, worker: ServiceProcess
) -> None:
    events = await streamed(http, f"{agents}/measuring/message:stream", a2a())
    shown = [e["artifactUpdate"]["artifact"] for e in events if "artifactUpdate" in e]
    assert [one["parts"][0]["data"] for one in shown] == 3 * [{"mean": [1.5, None]}]
    task = events[0]["task"]["id"]
    lines = worker.log.read_text().splitlines()
    reports = [line for line in lines if task in line and "WARN" in line]
    assert len(reports) == 1
    assert "Data.data.mean[1] is nan" in reports[0]


async def test_a_number_that_no_client_could_read_is_refused_with_its_field(
    agents: str, http: httpx.AsyncClient
) -> None:
    events = await streamed(http, f"{agents}/overflowing/message:stream", a2a())
    status = events[-1]["statusUpdate"]["status"]
    assert status["state"] == "TASK_STATE_FAILED"
    assert "data.orders[0] must be an integer" in status["message"]["parts"][0]["text"]
    for number in ("1e999", "NaN", "-Infinity", "9" * 400):
        text = json.dumps(a2a(metadata={"x": [0, "NUMBER"]})).replace('"NUMBER"', number)
        answer = await http.post(f"{agents}/counting/message:send", content=text)
        assert answer.status_code == 400
        assert "message.metadata.x[1] is " in answer.json()["error"]["message"]
