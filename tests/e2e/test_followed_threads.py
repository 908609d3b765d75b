"""One stream over all runs of a thread, exact over kills of gateways and workers."""

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Any

import httpx
import websockets

from tests.architecture.tree import ROOT
from tests.support.document import shown
from tests.support.event_stream import Frame, Json, frames
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent, message
from tests.support.service_process import ServiceProcess
from tests.support.waiting import eventually

_TIMEOUT = 90.0


class Follower:
    """A client that follows a thread, at whichever gateway answers, with its last cursor."""

    def __init__(self, http: httpx.AsyncClient, gateways: list[str], thread: str) -> None:
        self._http, self._gateways, self._thread = http, gateways, thread
        self.seen = list[Frame]()
        self.connections = 0

    async def until_ended(self, runs: int) -> None:
        """Return once that many tasks have ended."""
        async with asyncio.timeout(_TIMEOUT):
            while self.ended() < runs:
                try:
                    await self._follow(runs)
                except httpx.TransportError:
                    await asyncio.sleep(0.1)

    async def _follow(self, runs: int) -> None:
        url = self._gateways[self.connections % len(self._gateways)]
        self.connections += 1
        headers = {"Last-Event-ID": self.seen[-1].id} if self.seen else {}
        path = f"{url}/v1/threads/{self._thread}/events"
        async with self._http.stream("GET", path, headers=headers) as response:
            async for frame in frames(response):
                self.seen.append(frame)
                if self.ended() >= runs:
                    return

    def ended(self) -> int:
        """Return how many tasks have ended."""
        states = [
            frame.json["event"].get("statusUpdate", {}).get("status", {}).get("state")
            for frame in self.seen
        ]
        return states.count("TASK_STATE_COMPLETED")

    def generations(self) -> dict[str, list[int]]:
        """Return the generations of the events that were seen of each task."""
        found: dict[str, list[int]] = {}
        for frame in self.seen:
            found.setdefault(frame.json["task"], []).append(frame.json["generation"])
        return found


async def begun(agent: PlainAgent, text: str, context: str) -> str:
    """Send a message without waiting for the run, and return the task's id."""
    body: Json = {
        "message": message(text, contextId=context),
        "configuration": {"returnImmediately": True},
    }
    answer = await agent.post("message:send", body)
    return str(answer.raise_for_status().json()["task"]["id"])


type Rows = AsyncGenerator[tuple[str, Json]]
"""Cursors and events."""


async def over_a2a(http: httpx.AsyncClient, url: str, context: str, cursor: str) -> Rows:
    """Follow a context with the slow counter over A2A."""
    path = f"{url}/v1/agents/slow-counter/contexts/{context}:subscribe"
    async with http.stream("GET", path, headers={"Last-Event-ID": cursor}) as response:
        async for frame in frames(response):
            yield frame.id, frame.event


async def over_agui(http: httpx.AsyncClient, url: str, context: str, cursor: str) -> Rows:
    """Follow it over AG-UI."""
    path, body = f"{url}/v1/agents/slow-counter/ag-ui/connect?stay=1", {"threadId": context}
    async with http.stream("POST", path, json=body, headers={"Last-Event-ID": cursor}) as response:
        async for frame in frames(response):
            yield frame.id, frame.event


async def over_websocket(_: httpx.AsyncClient, url: str, context: str, cursor: str) -> Rows:
    """Follow it over a WebSocket."""
    path = f"{url.replace('http', 'ws', 1)}/v1/agents/slow-counter/stream"
    after = {"after": cursor} if cursor else {}
    async with websockets.connect(path, proxy=None) as connection:
        await connection.send(json.dumps({"id": 1, "follow": {"context": context} | after}))
        async for text in connection:
            row = json.loads(text)
            if "error" in row:
                return
            yield row["cursor"], row["event"]


class DoorFollower:
    """A client of one door that follows one run, as `Follower` does."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        gateways: list[str],
        door: Callable[[httpx.AsyncClient, str, str, str], Rows],
        context: str,
    ) -> None:
        self._http, self._gateways, self._door, self._context = http, gateways, door, context
        self.seen = list[tuple[str, Json]]()
        self.connections = 0

    async def until_ended(self) -> None:
        """Return once the run has ended."""
        async with asyncio.timeout(_TIMEOUT):
            while not (self.seen and _is_end(self.seen[-1][1])):
                url = self._gateways[self.connections % len(self._gateways)]
                self.connections += 1
                with suppress(httpx.TransportError, OSError, websockets.WebSocketException):
                    await self._follow(url)
                await asyncio.sleep(0.1)

    async def _follow(self, url: str) -> None:
        cursor = self.seen[-1][0] if self.seen else ""
        async with aclosing(self._door(self._http, url, self._context, cursor)) as rows:
            async for row in rows:
                self.seen.append(row)
                if _is_end(row[1]):
                    return


def _is_end(event: Json) -> bool:
    return _is_completed(event) or event.get("type") == "RUN_FINISHED"


def _places(seen: list[tuple[str, Json]]) -> dict[tuple[int, ...], Json]:
    """Return the frames of a run by their places, without those that repeat one at a resumption."""
    rows = dict[tuple[int, ...], Json]()
    for cursor, event in seen:
        place = tuple(int(one) for one in cursor.partition(":")[2].split("."))
        rows.setdefault(place, event)
    return rows


def _shared_tails(pair: list[DoorFollower]) -> list[list[Json]]:
    """Return what each has seen after the later one had joined."""
    rows = [_places(one.seen) for one in pair]
    start = max(min(one) for one in rows)
    return [[event for place, event in one.items() if place > start] for one in rows]


async def test_a_thread_is_followed_over_later_runs_and_kills_of_gateway_and_worker(
    fleet: Fleet, http: httpx.AsyncClient, slow_counters: list[ServiceProcess]
) -> None:
    context, gateways = uuid.uuid4().hex, fleet.gateways
    followers = [Follower(http, order, context) for order in (gateways, gateways[::-1])]
    tasks = [await begun(PlainAgent(http, gateways[0], "counter"), "3", context)]
    following = [asyncio.create_task(one.until_ended(3)) for one in followers]
    slow = PlainAgent(http, gateways[1], "slow-counter")
    tasks.append(await begun(slow, "go", context))
    a2a, socket, *agui = [
        DoorFollower(http, order, door, context)
        for door, order in (
            (over_a2a, gateways),
            (over_websocket, gateways),
            (over_agui, gateways),
            (over_agui, gateways[::-1]),
        )
    ]
    doors = [a2a, socket, *agui]
    following += [asyncio.create_task(one.until_ended()) for one in doors]

    async def are_far() -> bool:
        seen = [len(one.seen) for one in followers] + [len(one.seen) for one in doors]
        return min(seen) >= 20

    await eventually(are_far, "all are in the middle of the second run")
    _kill_holder(slow_counters, followers[0].seen)
    await asyncio.to_thread(fleet.restart, "gateway", 0)
    tasks.append(await begun(PlainAgent(http, gateways[1], "echo"), "bye", context))
    await asyncio.gather(*following)
    assert [list(one.generations()) for one in followers] == [tasks] * 2
    for one in followers:
        for generations in one.generations().values():
            assert generations == list(range(1, len(generations) + 1))
    assert [(f.id, f.json) for f in followers[0].seen] == [
        (f.id, f.json) for f in followers[1].seen
    ]
    assert max(one.connections for one in followers) > 1
    slow_rows = [(f.id, f.json["event"]) for f in followers[0].seen if f.json["task"] == tasks[1]]
    assert a2a.seen == socket.seen == slow_rows
    assert min(a2a.connections, socket.connections, agui[0].connections) > agui[1].connections == 1
    tails = _shared_tails(agui)
    assert tails[0] == tails[1] != []


def _kill_holder(workers: list[ServiceProcess], seen: list[Frame]) -> None:
    metadata = [f.json["event"].get("statusUpdate", {}).get("metadata", {}) for f in seen]
    names = [one["headrace.worker"] for one in metadata if "headrace.worker" in one]
    [holder] = [one for one in workers if f"{names[-1]} serves " in one.log.read_text()]
    holder.kill()


async def test_any_cursor_of_a_thread_resumes_it_and_another_ones_is_refused(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    context, url = uuid.uuid4().hex, fleet.gateways[0]
    for number in range(2):
        await PlainAgent(http, url, "counter").post(
            "message:send", {"message": message(str(number + 2), contextId=context)}
        )
    whole = Follower(http, [url], context)
    await whole.until_ended(2)
    expected = [frame.json for frame in whole.seen]
    for at, frame in enumerate(whole.seen[:-1]):
        rest = Follower(http, fleet.gateways[::-1], context)
        rest.seen.append(frame)
        left = expected[at + 1 :]
        await rest.until_ended(_ends(frame.json) + _ends_in(left))
        assert [one.json for one in rest.seen[1:]] == left
    path = f"{url}/v1/threads/{context}/events"
    codes = [
        (await http.get(path, params={"after": cursor})).json()["error"]["code"]
        for cursor in ("00000000:1", "x", whole.seen[0].id.partition(":")[0] + ":999999999")
    ]
    assert codes == ["log_lost"] * 3
    nobodys = await http.get(f"{url}/v1/threads/{uuid.uuid4().hex}/events")
    assert (nobodys.status_code, nobodys.json()["error"]["code"]) == (404, "thread_unknown")


def _ends(row: Json) -> bool:
    status = row["event"].get("statusUpdate", {}).get("status", {})
    return bool(status.get("state") == "TASK_STATE_COMPLETED")


def _ends_in(rows: list[Json]) -> int:
    return sum(map(_ends, rows))


class Opened:
    """Tells when that many streams have begun."""

    def __init__(self, streams: int) -> None:
        self._left, self.all = streams, asyncio.Event()

    def note(self) -> None:
        """Note that one more has begun."""
        self._left -= 1
        if not self._left:
            self.all.set()


async def _sse_events(
    response: httpx.Response, runs: int, is_end: Callable[[Json], bool], opened: Opened
) -> list[Frame]:
    """Return the frames up to the end of that many runs."""
    seen, ended = list[Frame](), 0
    async for frame in frames(response):
        if not seen:
            opened.note()
        seen.append(frame)
        ended += is_end(frame.event)
        if ended >= runs:
            return seen
    raise AssertionError("the stream has ended")


def _is_completed(event: Json) -> bool:
    status = event.get("statusUpdate", {}).get("status", {})
    return bool(status.get("state") == "TASK_STATE_COMPLETED")


def _is_finished(event: Json) -> bool:
    return bool(event["type"] == "RUN_FINISHED")


async def test_each_protocol_shows_a_later_run_that_another_gateway_begins(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    context, (here, there) = uuid.uuid4().hex, fleet.gateways[:2]
    first = await begun(PlainAgent(http, here, "counter"), "2", context)
    base = f"{here}/v1/agents/counter"
    call = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "SubscribeToContext",
        "params": {"contextId": context},
    }
    opened = Opened(4)
    socket_url = f"{base.replace('http', 'ws', 1)}/stream"

    async def rest() -> list[Frame]:
        async with http.stream("GET", f"{base}/contexts/{context}:subscribe") as response:
            return await _sse_events(response, 2, _is_completed, opened)

    async def rpc() -> list[Frame]:
        async with http.stream("POST", base, json=call) as response:
            return await _sse_events(response, 2, _is_completed, opened)

    async def agui() -> list[Frame]:
        path, body = f"{base}/ag-ui/connect?stay=1", {"threadId": context}
        async with http.stream("POST", path, json=body) as response:
            return await _sse_events(response, 2, _is_finished, opened)

    async def socket() -> list[Json]:
        seen = list[Json]()
        async with websockets.connect(socket_url, proxy=None) as connection:
            await connection.send(json.dumps({"id": 1, "follow": {"context": context}}))
            while sum(_is_completed(one["event"]) for one in seen) < 2:
                seen.append(json.loads(await connection.recv()))
                if len(seen) == 1:
                    opened.note()
        return seen

    async def ended() -> bool:
        return bool(
            (await PlainAgent(http, here, "counter").get(first)).json()["status"]["state"]
            == "TASK_STATE_COMPLETED"
        )

    await eventually(ended, "the first run has ended")
    async with asyncio.timeout(_TIMEOUT):
        following = asyncio.gather(rest(), rpc(), agui(), socket())
        await opened.all.wait()
        second = await begun(PlainAgent(http, there, "counter"), "3", context)
        by_rest, by_rpc, by_agui, by_socket = await following
    events = [frame.event for frame in by_rest]
    assert [frame.event for frame in by_rpc] == events
    assert [one["event"] for one in by_socket] == events
    assert [one["cursor"] for one in by_socket] == [frame.id for frame in by_rest]
    assert {_task(one) for one in events} == {first, second}
    started = [one.event["runId"] for one in by_agui if one.event["type"] == "RUN_STARTED"]
    assert len(started) == len(set(started)) == 2
    async with http.stream(
        "POST",
        f"{there.rstrip('/')}/v1/agents/counter/ag-ui/connect?stay=1",
        json={"threadId": context},
        headers={"Last-Event-ID": _end_of_first(by_agui)},
    ) as response:
        resumed = await _sse_events(response, 2, _is_finished, Opened(1))
    left = by_agui[1 + by_agui.index(next(f for f in by_agui if _is_finished(f.event))) :]
    assert [f.raw for f in resumed[-len(left) :]] == [f.raw for f in left]


def _end_of_first(seen: list[Frame]) -> str:
    return next(frame.id for frame in seen if _is_finished(frame.event))


def _task(event: Json) -> str:
    (body,) = event.values()
    return str(body.get("taskId") or body["id"])


async def test_the_documents_client_follows_a_thread(fleet: Fleet, http: httpx.AsyncClient) -> None:
    context = uuid.uuid4().hex
    names: dict[str, Any] = {}
    exec(shown(ROOT / "docs" / "threads.md", "def follow"), names)  # noqa: S102 - the document's code
    await begun(PlainAgent(http, fleet.gateways[0], "counter"), "2", context)

    def followed() -> list[Json]:
        rows = list[Json]()
        for row in names["follow"](["http://127.0.0.1:1", *fleet.gateways], context):
            rows.append(row)
            if _is_completed(row["event"]):
                return rows
        raise AssertionError("a thread has no end")

    rows = await asyncio.wait_for(asyncio.to_thread(followed), _TIMEOUT)
    assert [row["generation"] for row in rows] == list(range(1, len(rows) + 1))
