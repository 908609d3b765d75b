"""A fleet in which every service has a NATS user of its own does all that it does without."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest

from headrace import Agents
from headrace.client import Client
from headrace.jetstream.permissions import WorkerGroup
from tests.support import extra_services, role_agents
from tests.support.compose_file import ROOT
from tests.support.deployment import get
from tests.support.event_stream import all_frames, frames
from tests.support.plain_a2a import PlainAgent, message
from tests.support.plain_http import NO_TLS
from tests.support.receiver import receiving
from tests.support.role_agents import LARGE
from tests.support.roles import NatsOfRoles
from tests.support.servers import ValkeyProcess, ports
from tests.support.service_process import ServiceProcess
from tests.support.terminal import enter
from tests.support.waiting import eventually, until
from tests.support.worker_process import WorkerProcess

_SEEN = 500
"""Events of a counter, one every 10 ms, by which task state has long asked its worker."""


@dataclass(frozen=True)
class RoleFleet:
    nats: NatsOfRoles
    gateway: str
    task_state: ServiceProcess

    def agent(self, http: httpx.AsyncClient, name: str) -> PlainAgent:
        return PlainAgent(http, self.gateway, name)

    def operate(self, *arguments: str) -> str:
        """Return what a command of an operator's says."""
        done = enter(*arguments, **self.nats.login("operator"))
        assert done.code == 0, done.err
        return done.out


def _group(name: str, agents: Agents) -> WorkerGroup:
    versions = ((one.name, one.card.pinned_version) for one in agents)
    pinned = tuple((agent, version) for agent, version in versions if version)
    return WorkerGroup(name, tuple(one.name for one in agents), pinned)


def _task_state(folder: Path, nats: NatsOfRoles, valkey: ValkeyProcess) -> ServiceProcess:
    port = ports.pick()
    environment = {
        **nats.login("task-state"),
        "HEADRACE_REDIS_URL": valkey.url,
        "HEADRACE_METRICS_PORT": str(port),
        "HEADRACE_PUSH_ALLOW": "127.0.0.0/8",
    }
    return ServiceProcess(
        "task-state",
        folder,
        ["task-state"],
        environment,
        lambda: get(f"127.0.0.1:{port}", "/readyz")[0] == 200,
    )


@pytest.fixture(scope="module")
def roles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoleFleet]:
    folder = tmp_path_factory.mktemp("roles")
    groups = {"parents": role_agents.parents, "children": role_agents.children}
    nats = NatsOfRoles(folder / "nats", [_group(n, a) for n, a in groups.items()])
    valkey = ValkeyProcess(folder / "valkey")
    with ExitStack() as running:
        running.enter_context(nats)
        running.enter_context(valkey)
        gateway, url = extra_services.gateway(folder / "gateway", nats.url, **nats.login("gateway"))
        services = [gateway, _task_state(folder / "task-state", nats, valkey)]
        triggers = ["triggers", "serve"]
        services.append(
            ServiceProcess(
                "triggers", folder / "triggers", triggers, nats.login("triggers"), lambda: True
            )
        )
        for name in groups:
            environment = {"PYTHONPATH": str(ROOT), **nats.login(name)}
            arguments = ["worker", f"tests.support.role_agents:{name}"]
            services.append(
                ServiceProcess(name, folder / name, arguments, environment, lambda: True)
            )
        for service in services:
            running.callback(service.stop)
            service.start(wait=False)
        until(lambda: extra_services.is_served([url], "parent"), "the parents are served")
        until(lambda: extra_services.is_served([url], "counter"), "the children is served")
        services[1].until_answers()
        yield RoleFleet(nats, url, services[1])


@pytest.fixture
async def http(roles: RoleFleet) -> AsyncIterator[httpx.AsyncClient]:
    """A client; whatever a test has done, nobody has tried what it may not."""
    async with httpx.AsyncClient(timeout=90, verify=NO_TLS) as client:
        yield client
    assert roles.nats.violations() == []


async def ended(agent: PlainAgent, task: str, state: str) -> None:
    async def has_ended() -> bool:
        return bool((await agent.get(task)).json()["status"]["state"] == f"TASK_STATE_{state}")

    await eventually(has_ended, f"{task} is {state}")


def test_the_doctor_sees_every_process_and_what_logins_may_do(roles: RoleFleet) -> None:
    found = enter("doctor", "--json", **roles.nats.login("operator")).out.splitlines()
    texts = {(one["subject"], one["level"], one["text"]) for one in map(json.loads, found)}
    release = version("headrace")
    services = "1 gateway, 1 task-state, 1 triggers, 2 worker"
    assert ("versions", "ok", f"release {release}: {services}") in texts
    for user in ("gateway", "task-state", "triggers", "operator"):
        said = enter("doctor", "--json", **roles.nats.login(user)).out
        assert f"user '{user}' has the rights of {user}, and no other service's" in said


async def test_an_operator_changes_the_level_of_a_running_worker(
    roles: RoleFleet, http: httpx.AsyncClient
) -> None:
    assert http.timeout
    async with Client(roles.gateway) as client:
        found = await client.set_log_level("debug", service="worker")
        assert [(one["service"], one["logLevel"]) for one in found] == [("worker", "debug")] * 2
        await client.set_log_level("configured")
        levels = {one["logLevel"] for one in await client.processes()}
    assert levels == {"info"}


async def test_a_schedule_begins_tasks_and_replaces_them(
    roles: RoleFleet, http: httpx.AsyncClient
) -> None:
    async with Client(roles.gateway) as client:
        await client.schedules.apply(
            {
                "name": "count",
                "agent": "counter",
                "message": "1000 40",
                "every": "1s",
                "overlap": "replace",
            }
        )

        async def has_begun_two() -> str | None:
            firings = (await client.schedules.get("count"))["firings"]
            began = [one["task"] for one in firings if one["outcome"] == "began"]
            return began[-1] if len(began) > 1 else None

        first = await eventually(has_begun_two, "two firings have begun a task")
        await client.schedules.delete("count")
    await ended(roles.agent(http, "counter"), first, "CANCELED")


async def test_messages_are_answered_streamed_and_listed(
    roles: RoleFleet, http: httpx.AsyncClient
) -> None:
    sent = (await roles.agent(http, "echo").send("hello")).json()["task"]
    assert sent["artifacts"][0]["parts"][0]["text"] == "hello"
    async with roles.agent(http, "counter").stream("20") as response:
        frames = await all_frames(response)
    assert frames[-1].event["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    listed = (await roles.agent(http, "echo").list()).json()["tasks"]
    assert sent["id"] in {task["id"] for task in listed}


async def test_a_task_goes_on_with_its_users_answer(
    roles: RoleFleet, http: httpx.AsyncClient
) -> None:
    agent = roles.agent(http, "asker")
    waiting = (await agent.send("hi")).json()["task"]
    assert waiting["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    answer = message("Ann", taskId=waiting["id"], contextId=waiting["contextId"])
    done = (await agent.post("message:send", {"message": answer})).json()["task"]
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_pinned_task_goes_on_with_its_version(
    roles: RoleFleet, http: httpx.AsyncClient
) -> None:
    agent = roles.agent(http, "tailor")
    waiting = (await agent.send("hi")).json()["task"]
    assert waiting["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    answer = message("3 cm", taskId=waiting["id"], contextId=waiting["contextId"])
    done = (await agent.post("message:send", {"message": answer})).json()["task"]
    assert done["artifacts"][0]["parts"][0]["text"] == "Cut 3 cm"
    assert done["metadata"]["headrace.version"] == "2.1"


async def test_a_message_reaches_a_task_at_work_and_a_cancel_ends_it(
    roles: RoleFleet, http: httpx.AsyncClient
) -> None:
    agent = roles.agent(http, "counter")
    sent = (await agent.send("1000 100", returnImmediately=True)).json()["task"]
    more = message("5", taskId=sent["id"], contextId=sent["contextId"])
    body = {"message": more, "configuration": {"returnImmediately": True}}
    assert (await agent.post("message:send", body)).status_code == 200
    assert (await agent.cancel(sent["id"])).status_code == 200
    await ended(agent, sent["id"], "CANCELED")


async def test_agents_of_two_groups_ask_each_other(
    roles: RoleFleet, http: httpx.AsyncClient
) -> None:
    done = (await roles.agent(http, "parent").send("3")).json()["task"]
    assert done["artifacts"][0]["parts"][0]["text"] == "1 2 3 "
    file = (await roles.agent(http, "parent").send("file")).json()["task"]
    digest = hashlib.sha256(b"y" * LARGE).hexdigest()
    assert file["artifacts"][0]["parts"][0]["text"] == digest


async def test_a_cancel_reaches_a_child_of_another_group(
    roles: RoleFleet, http: httpx.AsyncClient
) -> None:
    parent, counter = roles.agent(http, "parent"), roles.agent(http, "counter")
    sent = (await parent.send("1000 100", returnImmediately=True)).json()["task"]

    async def children() -> list[str]:
        tasks = (await counter.list(contextId=sent["contextId"])).json()["tasks"]
        return [task["id"] for task in tasks]

    await eventually(children, "the child is there")
    [task] = await children()
    assert (await parent.cancel(sent["id"])).status_code == 200
    await ended(counter, task, "CANCELED")


async def test_webhooks_are_notified(roles: RoleFleet, http: httpx.AsyncClient) -> None:
    async with receiving() as receiver:
        config = {"url": f"http://127.0.0.1:{receiver.port}/hook"}
        sent = await roles.agent(http, "echo").send("hello", taskPushNotificationConfig=config)
        assert sent.status_code == 200, sent.text

        async def is_told() -> bool:
            return bool(receiver.came)

        await eventually(is_told, "the webhook is told")


async def test_a_request_that_is_sent_again_is_one(
    roles: RoleFleet, http: httpx.AsyncClient
) -> None:
    agent, key = roles.agent(http, "echo"), {"Idempotency-Key": "once"}
    body = {"message": message("hello")}
    tasks = [
        (await http.post(f"{agent.url}/message:send", json=body, headers=key)).json()["task"]["id"]
        for _ in range(2)
    ]
    assert tasks[0] == tasks[1]


async def test_large_files_are_kept(roles: RoleFleet, http: httpx.AsyncClient) -> None:
    made = (await roles.agent(http, "filer").send(str(LARGE))).json()["task"]
    url = made["artifacts"][0]["parts"][0]["url"]
    assert (await http.get(url)).content == b"x" * LARGE


async def test_what_was_given_up_is_tried_again_by_an_operator(
    roles: RoleFleet, http: httpx.AsyncClient
) -> None:
    agent = roles.agent(http, "flaky")
    failed = (await agent.send("please")).json()["task"]
    assert failed["status"]["state"] == "TASK_STATE_FAILED"
    of_it = ("--agent", "flaky", "--task", failed["id"])
    output = await asyncio.to_thread(roles.operate, "dead", "retry", "--all", *of_it, "--yes")
    await ended(agent, output.split()[-1], "COMPLETED")


async def test_a_deleted_task_is_gone(roles: RoleFleet, http: httpx.AsyncClient) -> None:
    agent = roles.agent(http, "filer")
    made = (await agent.send(str(LARGE))).json()["task"]
    await asyncio.to_thread(roles.operate, "tasks", "delete", made["id"], "--yes")

    async def is_gone() -> bool:
        return (await agent.get(made["id"])).status_code == 404

    await eventually(is_gone, "the task is gone")


async def test_an_owner_deletes_a_task(roles: RoleFleet, http: httpx.AsyncClient) -> None:
    agent = roles.agent(http, "counter")
    ended = (await agent.send("3")).json()["task"]["id"]
    at_work = (await agent.send("1000 100", returnImmediately=True)).json()["task"]["id"]
    for task in (ended, at_work):
        deleted = await http.delete(f"{agent.url}/tasks/{task}")
        assert deleted.status_code == 200, deleted.text
        assert (await agent.get(task)).status_code == 404
    listed = (await agent.list()).json()["tasks"]
    assert not {ended, at_work} & {task["id"] for task in listed}


async def test_an_operator_ends_a_task(roles: RoleFleet, http: httpx.AsyncClient) -> None:
    agent = roles.agent(http, "counter")
    sent = (await agent.send("1000 100", returnImmediately=True)).json()["task"]
    await asyncio.to_thread(roles.operate, "tasks", "fail", sent["id"], "--reason", "enough")
    await ended(agent, sent["id"], "FAILED")


async def test_a_gateway_drains_a_worker_of_another_account(
    roles: RoleFleet, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    with WorkerProcess(
        tmp_path, "tests.support.role_agents:children", roles.nats.url, _settings(roles, "children")
    ) as worker:

        async def is_drained() -> bool:
            answer = await http.post(f"{roles.gateway}/v1/workers/{worker.id}:drain")
            return answer.status_code == httpx.codes.OK

        await eventually(is_drained, "the gateway knows the worker, and asks it to drain")
        await asyncio.to_thread(until, lambda: not worker.is_running, "its process ends")
        assert worker.exit_code() == 0
        assert "asked to drain" in worker.output()


async def test_task_state_gives_back_the_runs_of_a_killed_worker_of_another_account(
    roles: RoleFleet, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    agent = roles.agent(http, "counter")
    tasks = list[str]()
    with WorkerProcess(
        tmp_path, "tests.support.role_agents:children", roles.nats.url, _settings(roles, "children")
    ) as worker:

        async def has_one() -> bool:
            """Start a task; if the worker has it, return after some seconds of its output."""
            seen, holder = 0, ""
            async with agent.stream("3000 10") as response:
                async for frame in frames(response):
                    if not seen:
                        tasks.append(frame.event["task"]["id"])
                    update = frame.event.get("statusUpdate", {})
                    holder = str(update.get("metadata", {}).get("headrace.worker", holder))
                    seen += 1
                    if holder not in {"", worker.id} or seen > _SEEN:
                        break
            return holder == worker.id

        await eventually(has_one, "the worker has a run")
        worker.kill()

    async def is_given_back() -> bool:
        return f"{worker.id} is gone; giving back its" in roles.task_state.log.read_text()

    await eventually(is_given_back, "task state gives it back")
    for task in tasks:
        await agent.cancel(task)


def _settings(roles: RoleFleet, user: str) -> dict[str, str]:
    login = roles.nats.login(user)
    return {key.removeprefix("HEADRACE_").lower(): value for key, value in login.items()}
