"""A bound on waiting runs, checked before a task exists, and told in each protocol's shape."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import orjson
import pytest
import pytest_asyncio

from headrace.jetstream.connection import Bus
from headrace.model.messages import RunRequest
from headrace.model.queues import RunQueue
from headrace.model.task import TaskKey, mint_task_id
from headrace.tasks import admission
from headrace.tasks.admission import QueueCounts, TooManyWaiting, read_figures
from headrace.tasks.runs import ensure_queue
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.timing import GatewayTiming
from tests.support.clients.bindings import Json, Rest, Rpc, Talk, message
from tests.support.clients.websocket import connect
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports
from tests.support.waiting import eventually

NOW = {"configuration": {"returnImmediately": True}}


UNHURRIED = GatewayTiming(queue_answer=60.0)
"""Reads of the queue succeed, however slow the machine is."""


@asynccontextmanager
async def bounded(
    settings: GatewaySettings, timing: GatewayTiming = UNHURRIED, /, **bounds: int
) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of a further gateway, with bounds of its own."""
    own = {"http_port": ports.pick(), "grpc_port": ports.pick()}
    changed = settings.model_copy(update={**own, **bounds})
    async with (
        running(changed, timing=timing) as url,
        httpx.AsyncClient(
            base_url=url, headers={"A2A-Version": "1.0"}, timeout=60, verify=NO_TLS
        ) as http,
    ):
        yield http


async def wait_in_queue(bus: Bus, agent: str, runs: int) -> None:
    """Return once so many runs wait: the queue's consumer hears of them after the stream."""

    async def are_counted() -> bool:
        info = await bus.js.consumer_info(bus.streams.runs, agent)
        return bool(info.num_pending == runs)

    await eventually(are_counted, f"{runs} runs wait")


@pytest_asyncio.fixture(loop_scope="module")
async def idle(bus: Bus, fleet: ScriptedFleet) -> AsyncIterator[None]:
    """Nobody takes runs, and none wait."""
    fleet.working = False
    await bus.js.purge_stream(bus.streams.runs)
    for agent in ("assistant", "ask"):
        await ensure_queue(bus, RunQueue(agent))
    yield
    await bus.js.purge_stream(bus.streams.runs)
    fleet.working = True


async def fill(http: httpx.AsyncClient, count: int) -> None:
    for _ in range(count):
        await Rest(http).call("SendMessage", message() | NOW)


@pytest.mark.usefixtures("idle")
async def test_more_than_may_wait_are_refused_before_a_task_exists(
    settings: GatewaySettings, bus: Bus
) -> None:
    async with bounded(settings, max_waiting_per_agent=3) as http:
        await fill(http, 3)
        tasks = (await Rest(http).call("ListTasks", {}))["totalSize"]
        for talk in (Rest(http), Rpc(http)):
            for operation in ("SendMessage", "SendStreamingMessage"):
                refusal = await talk.refused(operation, message() | NOW)
                assert refusal.status == 429
                assert refusal.code in (429, -32603)
                assert refusal.reason == "TOO_MANY_WAITING"
                assert (
                    "3 runs of all clients are already waiting for agent assistant" in refusal.text
                )
                assert 1 <= int(refusal.headers["Retry-After"]) <= 30
        await wait_in_queue(bus, "assistant", 3)
        assert (await Rest(http).call("ListTasks", {}))["totalSize"] == tasks
        # Other agents have room.
        await Rest(http, "ask").call("SendMessage", message() | NOW)


@pytest.mark.usefixtures("idle")
async def test_the_files_of_what_is_refused_are_not_stored(
    settings: GatewaySettings, bus: Bus
) -> None:
    async def stored() -> int:
        info = await bus.js.stream_info(f"OBJ_{bus.streams.files}")
        return info.state.messages

    await ensure_queue(bus, RunQueue("patient"))
    file, before = {"raw": b64encode(b"x" * 300_000).decode()}, await stored()
    async with bounded(settings, max_waiting_per_agent=1) as http:
        agent = Rest(http, "patient")
        too_large = message()
        too_large["message"]["parts"] = [file, *({"text": one * 700_000} for one in "yz")]
        assert (await agent.refused("SendMessage", too_large | NOW)).status == 413
        assert await stored() == before
        await agent.call("SendMessage", message() | NOW)
        sent = message()
        sent["message"]["parts"] = [file]
        assert (await agent.refused("SendMessage", sent | NOW)).status == 429
        assert await stored() == before


@pytest.mark.usefixtures("idle")
async def test_ag_ui_hector_and_websocket_clients_get_errors_in_their_own_shapes(
    settings: GatewaySettings,
) -> None:
    async with bounded(settings, max_waiting_per_tenant=1) as http:
        await fill(http, 1)
        run = {
            "threadId": "t", "runId": "r", "state": {}, "tools": [], "context": [],
            "forwardedProps": {}, "messages": [{"id": "1", "role": "user", "content": "hi"}],
        }  # fmt: skip
        answer = await http.post("/v1/agents/assistant/ag-ui", json=run)
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "too_many_waiting")
        assert "Retry-After" in answer.headers
        hector = {"Accept": "application/x-agui-events"}
        answer = await http.post("/message:stream", json=message(), headers=hector)
        assert (answer.status_code, answer.json()["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
        url = str(http.base_url).replace("http", "ws", 1)
        async with connect(f"{url}/v1/agents/assistant/stream") as socket:
            await socket.send(orjson.dumps(
                {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": message()}
            ).decode())  # fmt: skip
            error = orjson.loads(await asyncio.wait_for(socket.recv(), 60))["error"]
        assert error["data"][0]["reason"] == "TOO_MANY_WAITING"
        assert error["data"][-1]["retryDelay"].endswith("s")


@pytest.mark.usefixtures("idle")
async def test_there_is_room_again_as_soon_as_runs_are_begun(
    settings: GatewaySettings, bus: Bus
) -> None:
    async with bounded(settings, max_waiting_per_agent=2) as http:
        await fill(http, 2)
        assert (await Rest(http).refused("SendMessage", message() | NOW)).status == 429
        await bus.js.purge_stream(bus.streams.runs)

        async def taken() -> bool:
            return (await Rest(http).send("SendMessage", message() | NOW)).is_success

        await eventually(taken, "a message is taken again")


@pytest.mark.usefixtures("idle")
async def test_one_gateway_keeps_exactly_to_the_bound_however_many_come_at_once(
    settings: GatewaySettings, bus: Bus
) -> None:
    async with bounded(settings, max_waiting_per_agent=10) as http:
        sending = (Rest(http).send("SendMessage", message() | NOW) for _ in range(60))
        statuses = [response.status_code for response in await asyncio.gather(*sending)]
        assert (statuses.count(200), statuses.count(429)) == (10, 50)
        await wait_in_queue(bus, "assistant", 10)


@pytest.mark.usefixtures("idle")
async def test_a_response_warns_of_a_bound_that_is_near(settings: GatewaySettings) -> None:
    async with bounded(settings, max_waiting_per_agent=6, max_waiting_per_tenant=5) as http:
        said = [
            (await http.post("/message:send", json=message() | NOW)).headers.get("headrace-quota")
            for _ in range(6)
        ]
    near = "waiting-tenant;waiting;used=4;limit=5;period=now"
    assert said == [None, None, None, None, near, None], "the last one is refused"


@pytest.mark.usefixtures("idle")
async def test_a_run_that_is_not_known_to_be_queued_yet_does_not_count_twice(
    settings: GatewaySettings, bus: Bus
) -> None:
    bounded_by_two = settings.model_copy(update={"max_waiting_per_agent": 2})
    admits = admission.Admission(bus, bounded_by_two, UNHURRIED.queue_answer)
    keys = [TaskKey("default", "assistant", mint_task_id(0)) for _ in range(3)]
    first = await admits.admit(keys[0])
    await bus.js.publish(bus.subjects.run(keys[0], 1), b"{}")
    asking = asyncio.create_task(admits.admit(keys[1]))
    await asyncio.sleep(0.05)
    first.settle()
    await asking
    with pytest.raises(TooManyWaiting):
        await admits.admit(keys[2])
    await admits.stop()


@pytest.mark.usefixtures("idle")
async def test_two_gateways_together_keep_to_the_bound(settings: GatewaySettings) -> None:
    bound = {"max_waiting_per_agent": 40}
    async with bounded(settings, **bound) as one, bounded(settings, **bound) as other:
        taken = 0
        for _ in range(60):
            for http in (one, other):
                answer = await Rest(http).send("SendMessage", message() | NOW)
                taken += answer.is_success
    # What one admits while the other looks is not seen: a run or two.
    assert 38 <= taken <= 44


@pytest.mark.usefixtures("idle")
async def test_what_waits_already_counts_when_a_gateway_starts(
    settings: GatewaySettings, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slowly(bus: Bus, timeout: float) -> QueueCounts:
        await asyncio.sleep(2)
        return await read_figures(bus, timeout)

    # Its first look is not over when the first message comes.
    monkeypatch.setattr(admission, "read_figures", slowly)
    for _ in range(5):
        key = TaskKey("default", "assistant", mint_task_id(0))
        run = RunRequest(log="abcdefgh", context="c", owner="anonymous")
        await bus.js.publish(bus.subjects.run(key, 1), run.encode())
    async with bounded(settings, max_waiting_per_agent=5) as http:
        assert (await Rest(http).refused("SendMessage", message() | NOW)).status == 429


@pytest.mark.usefixtures("idle")
async def test_an_answer_to_a_waiting_task_is_refused_and_the_task_still_waits(
    settings: GatewaySettings, fleet: ScriptedFleet
) -> None:
    async with bounded(settings, max_waiting_per_agent=0) as http:
        async with bounded(settings) as other:
            fleet.working = True
            request = (await Rest(other, "ask").call("SendMessage", message()))["task"]
            fleet.working = False
        answer = message("Ada", taskId=request["id"])
        assert (await Rest(http, "ask").refused("SendMessage", answer)).status == 429
        task = await Rest(http, "ask").call("GetTask", {"id": request["id"]})
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"


async def test_a_request_costs_no_look_at_the_queue(
    settings: GatewaySettings, fleet: ScriptedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fleet.working
    looks = 0

    async def counting(bus: Bus, timeout: float) -> QueueCounts:
        nonlocal looks
        looks += 1
        return await read_figures(bus, timeout)

    monkeypatch.setattr(admission, "read_figures", counting)
    async with bounded(settings, GatewayTiming(queue_interval=3600.0)) as http:
        await fill(http, 50)
    assert looks == 1


@pytest.mark.usefixtures("idle")
async def test_a_queue_that_is_full_all_the_same_rejects_the_task_in_its_log(
    settings: GatewaySettings, bus: Bus
) -> None:
    config = (await bus.js.stream_info(bus.streams.runs)).config
    key = TaskKey("default", "assistant", mint_task_id(0))
    await bus.js.publish(bus.subjects.run(key, 1), b"{}")
    await bus.js.update_stream(config.evolve(max_msgs=1))
    try:
        async with bounded(settings) as http:
            task = (await asyncio.wait_for(Rest(http).call("SendMessage", message()), 60))["task"]
    finally:
        await bus.js.update_stream(config)
    assert task["status"]["state"] == "TASK_STATE_REJECTED"
    assert "the queue is full" in task["status"]["message"]["parts"][0]["text"]


async def metadata_of(talk: Talk, params: Json) -> Json:
    async with talk.stream("SendStreamingMessage", params) as stream:
        _, event = await anext(stream.frames())
    metadata: Json = event["task"]["metadata"]
    return metadata


async def test_a_client_may_request_a_lower_priority_and_an_earlier_start(
    talk: Talk, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    wishes = {"headrace.priority": "low", "headrace.startWithin": 30}
    metadata = await metadata_of(talk, message() | {"metadata": wishes})
    assert metadata["headrace.priority"] == "low"
    assert metadata["headrace.startBy"].endswith("Z")
    assert "headrace.startWithin" not in metadata
    assert "headrace.startBy" not in await metadata_of(talk, message())


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("priority", "high"),
        ("priority", "urgent"),
        ("priority", 1),
        ("startWithin", 0),
        ("startWithin", -1),
        ("startWithin", "soon"),
        ("startWithin", True),
        ("startWithin", 10**9),
        ("startAt", 1),
        ("startAt", ""),
        ("startAt", "soon"),
        ("startAt", "2030-01-31T09:00:00"),
        ("startAt", "2030-02-31T09:00:00Z"),
        ("startAt", "9999-12-31T23:59:59-23:59"),
        ("startAt", "99999-01-01T00:00:00Z"),
    ],
)
async def test_a_request_beyond_the_allowed_priority_is_refused_by_its_field(
    talk: Talk, field: str, wrong: object
) -> None:
    refusal = await talk.refused(
        "SendMessage", message() | {"metadata": {f"headrace.{field}": wrong}}
    )
    assert refusal.code in (400, -32602)
    assert list(refusal.fields) == [f"metadata.headrace.{field}"]


async def test_the_trace_of_a_request_goes_with_its_run_and_into_answers_to_it(
    http: httpx.AsyncClient, bus: Bus, fleet: ScriptedFleet
) -> None:
    runs: list[str | None] = []

    async def note(msg: object) -> None:
        runs.append(RunRequest.decode("run", msg.data).traceparent)  # type: ignore[attr-defined]

    noting = await bus.connection.subscribe(bus.subjects.runs()[0], cb=note)
    await bus.connection.flush()
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    agent = Rest(http, "ask")
    http.headers["traceparent"] = trace
    task = (await agent.call("SendMessage", message()))["task"]
    del http.headers["traceparent"]
    await agent.call("SendMessage", message("Ada", taskId=task["id"]))
    http.headers["traceparent"] = "nonsense"
    await agent.call("SendMessage", message())
    del http.headers["traceparent"]

    async def all_came() -> bool:
        return len(runs) == 3

    await eventually(all_came, "all runs have come")
    await noting.unsubscribe()
    assert fleet.runs
    assert (runs[0], runs[2]) == (trace, None)
