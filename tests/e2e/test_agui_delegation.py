"""A worker is killed amid delegated work, and the official client reads on."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from headrace.model.delegation import CHILD
from headrace.model.events import Json
from tests.support import extra_services, javascript
from tests.support.agui.client_rules import Client
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent
from tests.support.service_process import ServiceProcess
from tests.support.soak import marks
from tests.support.stored_log import events_of
from tests.support.waiting import eventually, until

WHOLE = {"gated": "before after", "parent": "Delegating. before after"}
"""What each agent says in the end."""

type Workers = Callable[[str], list[ServiceProcess]]


@pytest.fixture
def parents(fleet: Fleet, tmp_path: Path) -> Iterator[Workers]:
    """Starts workers of `tests.support.parent_agents`: two of the one to be killed."""

    def is_served(agent: str) -> bool:
        return extra_services.is_served(fleet.gateways, agent)

    with ExitStack() as running:

        def start(victim: str) -> list[ServiceProcess]:
            names = ["parent", "grandparent", victim]
            workers = [
                extra_services.worker(
                    tmp_path / f"{name}-{n}", f"{name}s", fleet.nats_url, "parent_agents"
                )
                for n, name in enumerate(names)
            ]
            for worker in workers:
                running.enter_context(worker)
            until(lambda: all(map(is_served, names)), "the parents are there")
            return workers

        yield start


async def drive(gateway: str, path: str, run: Json, **more: Any) -> Json:  # noqa: ANN401
    """Run the client and return what it holds; it had nothing to complain of."""
    order = {"url": f"{gateway}/v1/agents/grandparent/ag-ui{path}", "runs": [run], **more}
    driven: Json = await asyncio.to_thread(javascript.run, "drive.mjs", order)
    assert driven["warnings"] == []
    assert driven["runs"][0]["failure"] is None
    return driven


class TaskTree:
    """The grandparent's task of a thread and the tasks below it, by what their logs say."""

    def __init__(self, fleet: Fleet, http: httpx.AsyncClient, thread: str) -> None:
        self._nats_url, self._thread = fleet.nats_url, thread
        self._grandparent = PlainAgent(http, fleet.gateways[1], "grandparent")

    async def logs(self) -> dict[str, list[Json]]:
        """Return the logs by agent, as far as there are any."""
        agent, logs = "grandparent", dict[str, list[Json]]()
        listed = (await self._grandparent.list(contextId=self._thread)).json()["tasks"]
        task = listed[0]["id"] if listed else ""
        while task:
            logs[agent] = await events_of(self._nats_url, agent, task)
            requests = [
                received for received in metadata(logs[agent], CHILD) if "agent" in received
            ]
            agent, task = (requests[0]["agent"], requests[0]["task"]) if requests else ("", "")
        return logs

    async def holder(self, agent: str) -> str:
        """Return the worker of `agent`'s task, once the lowest has been heard all the way up."""
        found = list[str]()

        async def is_heard() -> bool:
            logs = await self.logs()
            found[:] = metadata(logs.get(agent, []), "headrace.worker")
            return "before " in str(logs.get("grandparent"))

        await eventually(is_heard, "the lowest agent has said something")
        return found[-1]

    async def is_begun_again(self, agent: str) -> None:
        """Return once another worker has taken over `agent`'s task."""

        async def is_second() -> bool:
            return 2 in metadata((await self.logs())[agent], "headrace.attempt")

        await eventually(is_second, f"another worker goes on with {agent}")


def metadata(log: list[Json], key: str) -> list[Any]:
    """Return what the log's events say under a key of their metadata."""
    outputs = [event.get("statusUpdate", {}).get("metadata") or {} for event in log]
    return [one[key] for one in outputs if key in one]


@pytest.mark.usefixtures("extra_worker")
@pytest.mark.parametrize(
    "victim",
    [
        "grandparent",
        pytest.param(
            "parent",
            marks=marks(
                shown_by="e2e/test_agui_delegation.py"
                "::test_a_killed_worker_amid_delegated_work_takes_back_its_own_words_alone"
            ),
        ),
    ],
)
async def test_a_killed_worker_amid_delegated_work_takes_back_its_own_words_alone(
    fleet: Fleet, http: httpx.AsyncClient, parents: Workers, tmp_path: Path, victim: str
) -> None:
    workers = await asyncio.to_thread(parents, victim)
    thread, run, gate = str(uuid4()), str(uuid4()), tmp_path / "gate"
    request = {"text": str(gate), "runId": run}
    staying = asyncio.create_task(drive(fleet.gateways[0], "", request, threadId=thread))
    tree = TaskTree(fleet, http, thread)
    holder = await tree.holder(victim)
    next(w for w in workers if f"{holder} serves " in w.log.read_text()).kill()
    await tree.is_begun_again(victim)
    # Who joins now, elsewhere, lets the lowest agent go on as soon as it has been told the past.
    joining = {"runId": run, "openAt": "MESSAGES_SNAPSHOT", "gate": str(gate)}
    joined = await drive(fleet.gateways[1], "/attach", joining, threadId=thread)
    stayed = await staying
    assert_whole(stayed, str(gate), victim)
    assert joined["messages"] == stayed["messages"]


def assert_whole(stayed: Json, question: str, victim: str) -> None:
    events = stayed["runs"][0]["events"]
    client = Client([{"id": "user-0", "role": "user", "content": question}], {}).take_all(events)
    assert client.messages == stayed["messages"]
    began = [event for event in events if event["type"] == "SUBAGENT_STARTED"]
    assert [event["name"] for event in began] == ["parent", "gated"]
    runs = {event["subagentRunId"]: event["name"] for event in began}
    assert began[1]["parentSubagentRunId"] == began[0]["subagentRunId"]
    ended = [event for event in events if event["type"] == "SUBAGENT_FINISHED"]
    assert [event["outcome"] for event in ended] == [{"type": "success"}] * 2
    [again] = [event for event in events if event.get("name") == "headrace.attempt"]
    assert again["value"] == {"attempt": 2}
    assert runs.get(again.get("subagentRunId", ""), "grandparent") == victim
    messages = [(runs.get(m.get("subagentRunId", "")), m["content"]) for m in client.messages[1:]]
    number = 2 if victim == "grandparent" else 1
    assert sorted(messages, key=str) == sorted(
        [*WHOLE.items(), (None, f"Attempt {number}: Delegating. before after")], key=str
    )
    assert (events[-1]["type"], "outcome" in events[-1]) == ("RUN_FINISHED", False)
