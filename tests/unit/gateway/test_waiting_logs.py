"""The log of a task that waits for its user is not read again for the user's message."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
from nats.aio.msg import Msg

from headrace.jetstream.connection import Bus
from headrace.links import MARK
from headrace.log import LogWriter, last_entry
from headrace.log.tombstone import put_tombstone
from headrace.model import events
from headrace.model.entry import Entry, Stamp
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.messages import GetTask, RunRequest
from headrace.model.task import COMPLETED, INPUT_REQUIRED, TaskKey
from headrace.state_client import StateClient, TaskRead
from headrace_gateway.app import build_app
from headrace_gateway.protocol_table import PROTOCOLS
from headrace_gateway.server.open_requests import OpenRequests
from headrace_gateway.services import Services
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.waiting_logs import WaitingLog, WaitingLogs
from tests.support.memory_gateway import memory_services
from tests.support.plain_a2a import message

QUESTIONS = 3
KEY, OTHER, THIRD = (TaskKey("default", "echo", f"3-{name * 32}") for name in "abc")


async def ask_or_end(bus: Bus, msg: Msg) -> None:
    """Ask as often as `QUESTIONS` says, with one event per run, and then end the task."""
    key, run = bus.subjects.key_of_run(msg.subject)
    request = RunRequest.decode(msg.subject, msg.data)
    state = INPUT_REQUIRED if run < 2 * QUESTIONS else COMPLETED
    stamp = Stamp(request.log, run + 1, "worker", state, run, 1, request.owner)
    writer = LogWriter(bus, key, sequence=request.sequence or 0, generation=run)
    await writer.append([events.status_update(key.task, request.context, state)], stamp)


class Talk:
    """A user who talks to the agent, over a gateway that counts what it reads of tasks."""

    def __init__(self, services: Services, http: httpx.AsyncClient) -> None:
        self.bus, self.http, self.reads = services.bus, http, 0
        self.task = ""

    @property
    def key(self) -> TaskKey:
        return TaskKey("default", "echo", self.task)

    async def send(self, text: str = "hello", **configuration: object) -> httpx.Response:
        """Send a message to the agent, or to the task once there is one."""
        sent = message(text, **({"taskId": self.task} if self.task else {}))
        body: Json = {"message": sent, "configuration": configuration}
        return await self.http.post("/v1/agents/echo/message:send", json=body)

    async def state(self, text: str = "hello") -> str:
        """Send a message; return the task's state when its run has ended."""
        task = (await self.send(text)).json()["task"]
        self.task = task["id"]
        return str(task["status"]["state"])

    async def last(self) -> Entry:
        last = await last_entry(self.bus, self.key)
        assert last is not None
        return last


@asynccontextmanager
async def talking(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Talk]:
    settings = GatewaySettings()
    async with memory_services(OpenRequests(), settings, ask_or_end) as services:
        app, headers = build_app(services, PROTOCOLS), {"A2A-Version": "1.0"}
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=headers
        ) as http:
            talk, read = Talk(services, http), StateClient.read

            async def counted(state: StateClient, query: GetTask) -> TaskRead:
                talk.reads += 1
                return await read(state, query)

            monkeypatch.setattr(StateClient, "read", counted)
            yield talk


async def test_answers_are_appended_without_a_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking(monkeypatch) as talk:
        states = [await talk.state() for _ in range(QUESTIONS + 1)]
        assert states == [*[INPUT_REQUIRED] * QUESTIONS, COMPLETED]
        assert talk.reads == 0
        task = (await talk.http.get(f"/v1/agents/echo/tasks/{talk.task}")).json()
        assert len(task["history"]) == QUESTIONS + 1
        refused = await talk.send()
        assert "is over" in refused.json()["error"]["message"]


async def answer_elsewhere(talk: Talk) -> None:
    """Append an entry after which the task waits again, as if it had gone on at another gateway."""
    last, said = await talk.last(), message("from elsewhere")
    writer = LogWriter.after(talk.bus, talk.key, last)
    stamp = Stamp(last.stamp.log, 3, "elsewhere", INPUT_REQUIRED, 1, 1, last.stamp.owner)
    draft = events.status_update(talk.task, "context", INPUT_REQUIRED, said)
    await writer.append([draft], stamp)


async def delete(talk: Talk) -> None:
    last = await talk.last()
    owner = last.stamp.owner or ""
    await put_tombstone(talk.bus, talk.key, owner, "deleted", 60, last.sequence)


@pytest.mark.parametrize(
    ("change", "status"),
    [(answer_elsewhere, httpx.codes.OK), (delete, httpx.codes.NOT_FOUND)],
    ids=["gone on", "deleted"],
)
async def test_a_log_that_is_another_by_now_is_read(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Talk], Awaitable[None]], status: int
) -> None:
    async with talking(monkeypatch) as talk:
        await talk.state()
        before = await talk.last()
        await change(talk)
        response = await talk.send(returnImmediately=True)
        assert response.status_code == status, response.text
        assert talk.reads == 1
        if status == httpx.codes.OK:
            assert (await talk.last()).generation > before.generation + 1


@pytest.mark.parametrize(("text", "folds"), [("hello", 1), (MARK.decode(), 2)])
async def test_what_a_client_has_waited_for_is_folded_once(
    monkeypatch: pytest.MonkeyPatch, text: str, folds: int
) -> None:
    folded, apply_entry = Counter[int](), TaskFold.apply_entry

    def counted(fold: TaskFold, entry: Entry) -> None:
        folded[entry.generation] += 1
        apply_entry(fold, entry)

    monkeypatch.setattr(TaskFold, "apply_entry", counted)
    async with talking(monkeypatch) as talk:
        # Where there may be links of files, the fold has addresses for its client.
        assert [await talk.state(text) for _ in range(2)] == [INPUT_REQUIRED] * 2
        before = (await talk.last()).generation // 2
    assert set(folded.values()) == ({1} if folds == 1 else {1, 2})
    assert [folded[one] for one in range(1, before + 1)] == [folds] * before


def test_a_log_is_kept_until_it_is_taken_or_too_old() -> None:
    kept = WaitingLogs(total_bytes=250)
    log = WaitingLog([Entry(Stamp("l", 1, "w", "s", 1), [], 1, "")])
    for key in (KEY, OTHER, THIRD):
        kept.keep(key, log, 100)
    assert kept.take(KEY) is None, "it was the oldest of too many"
    assert kept.take(OTHER) == log
    assert kept.take(OTHER) is None
    kept.keep(THIRD, log, 100)
    kept.keep(KEY, log, 100)
    assert len(kept) == 2
    old = WaitingLogs(seconds=0)
    for key in (KEY, OTHER):
        old.keep(key, log, 100)
    assert old.take(KEY) is None
    old.drop_old()
    assert len(old) == 0
