"""Users of agents: each with the official client of a protocol."""

import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
import orjson
from a2a.client import Client as A2AClient
from a2a.client import ClientConfig, ClientFactory
from a2a.helpers import get_stream_response_text, new_text_message
from a2a.types import Role, SendMessageRequest, StreamResponse, Task, TaskState
from a2a.types.a2a_pb2 import GetTaskRequest

from headrace.model.events import Json
from tests.support import javascript
from tests.support.agui.client_rules import Client
from tests.support.waiting import eventually


async def announced(http: httpx.AsyncClient, agent: str) -> None:
    """Return when the gateway serves an agent."""

    async def serves() -> bool:
        card = await http.get(f"/v1/agents/{agent}/.well-known/agent-card.json")
        return card.is_success

    await eventually(serves, f"the gateway knows {agent}")


@dataclass
class A2AUser:
    """Talks to one agent by A2A; what it says belongs to the task that waits for it."""

    client: A2AClient
    waits: Task | None = None

    async def replies(self, text: str) -> list[StreamResponse]:
        """Send a message, and return what comes."""
        message = new_text_message(text, role=Role.ROLE_USER)
        if self.waits is not None:
            message.task_id, message.context_id = self.waits.id, self.waits.context_id
        received = [
            each async for each in self.client.send_message(SendMessageRequest(message=message))
        ]
        tasks = [each.task for each in received if each.HasField("task")]
        over = {TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_FAILED}
        self.waits = None if state(received) in over else tasks[0] if tasks else self.waits
        return received

    async def task(self, name: str) -> Task:
        """Return a task as it is."""
        return await self.client.get_task(GetTaskRequest(id=name))


@asynccontextmanager
async def a2a_user(http: httpx.AsyncClient, agent: str) -> AsyncIterator[A2AUser]:
    """Yield a user of an agent that the gateway serves."""
    await announced(http, agent)
    factory = ClientFactory(ClientConfig(httpx_client=http))
    url = str(http.base_url).rstrip("/")
    async with await factory.create_from_url(f"{url}/v1/agents/{agent}") as client:
        yield A2AUser(client)


def state(received: list[StreamResponse]) -> int:
    """Return the last state of what came."""
    states = [
        (each.task if each.HasField("task") else each.status_update).status.state
        for each in received
        if each.HasField("task") or each.HasField("status_update")
    ]
    return states[-1]


def words(received: list[StreamResponse]) -> list[str]:
    """Return the texts of what came, in order."""
    return [text for each in received if (text := get_stream_response_text(each))]


@dataclass(frozen=True)
class RecordedRun:
    """A run for the official client to read again, and what it is to hold then."""

    order: Json
    holds: Json


def read_again(runs: list[RecordedRun]) -> None:
    """Have the official AG-UI client read runs, and hold the same."""
    held = javascript.run("read.mjs", [run.order for run in runs])
    assert held == [run.holds for run in runs]


@dataclass
class AgUiUser:
    """Talks to one agent by AG-UI, and keeps what is said, and the state."""

    http: httpx.AsyncClient
    agent: str
    runs: list[RecordedRun]
    """Where the runs are recorded."""
    tools: list[Json] = field(default_factory=list)
    state: Any = field(default_factory=dict)
    messages: list[Json] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    """Of the last run."""
    thread: str = field(default_factory=lambda: str(uuid4()))

    async def replies(self, text: str) -> Json:
        """Send a message, and return how the run ends."""
        self.messages.append({"id": str(uuid4()), "role": "user", "content": text})
        return await self._run()

    async def returns(self, call: str, result: str) -> Json:
        """Send what a tool of the user's has answered, and return how the run ends."""
        output = {"id": str(uuid4()), "role": "tool", "toolCallId": call, "content": result}
        self.messages.append(output)
        return await self._run()

    async def resumes(self, payloads: dict[str, Any]) -> Json:
        """Answer interrupts, by id, and return how the run ends."""
        given = payloads.items()
        entries = [{"interruptId": k, "status": "resolved", "payload": v} for k, v in given]
        return await self._run(resume=entries)

    def told(self, kind: str) -> list[Json]:
        """Return the last run's events of a type."""
        return [event for event in self.events if event["type"] == kind]

    @property
    def last(self) -> Json:
        """The last message."""
        return self.messages[-1]

    async def _run(self, **more: Any) -> Json:  # noqa: ANN401  # any JSON
        body = {
            "threadId": self.thread,
            "runId": str(uuid4()),
            "protocolVersion": "1.0",
            "state": self.state,
            "messages": self.messages,
            "tools": self.tools,
            "context": [],
            "forwardedProps": {},
            **more,
        }
        await announced(self.http, self.agent)
        headers = {"accept": "text/event-stream"}
        path = f"/v1/agents/{self.agent}/ag-ui"
        answer = await self.http.post(path, json=body, headers=headers)
        assert answer.is_success, answer.text
        lines = (line for line in answer.text.split("\n") if line.startswith("data:"))
        self.events = [orjson.loads(line.removeprefix("data:")) for line in lines]
        order = {"body": answer.text, "messages": self.messages, "state": self.state}
        client = Client(self.messages, self.state)
        client.take_all(self.events)
        self.messages, self.state = client.messages, client.state
        holds = {"messages": self.messages, "state": self.state, "failure": None, "warnings": []}
        self.runs.append(RecordedRun(*copy.deepcopy((order, holds))))
        end = self.events[-1]
        assert end["type"] == "RUN_FINISHED", end
        outcome: Json = end.get("outcome") or {"type": "success"}
        return outcome
