"""Quotas on a real fleet: gateways refuse by the same counts, which `headrace usage` shows."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path

import httpx
import pytest

from headrace import Agents, Emission, RunContext, Usage, agent
from headrace.jetstream.connection import Bus
from headrace.log import last_entry
from headrace.model.task import TaskKey
from headrace.settings import BusSettings
from headrace.tasks.quotas import FRESH
from headrace_worker.settings import WorkerSettings
from headrace_worker.worker import Worker
from tests.e2e.test_command_line import headrace
from tests.support import extra_services
from tests.support.credentials import Person, write
from tests.support.event_stream import Json
from tests.support.fleet import Fleet
from tests.support.plain_a2a import message
from tests.support.service_process import ServiceProcess
from tests.support.waiting import TIMEOUT, eventually, until

ANN, BOB = Person("limited", "ann"), Person("limited", "bob")
OLA = Person("limited", "ola", ("on-call",))
ROLES = '[[role]]\nname = "on-call"\noperator = true\noperations = ["operate"]\n'
EVE = Person("unlimited", "ann")
RUNS = 2
PAT = Person("patient", "pat")
PATIENT = """
[[quota]]
name = "patient"
tenant = "patient"
runs = 1
warn_at = 0.0
at_limit = "input-required"

[[quota]]
name = "warned"
tenant = "warned"
runs = 1000
warn_at = 0.0
"""
WIM = Person("warned", "wim")
ZOE, YAN = Person("open", "zoe"), Person("open", "yan")
OPEN = '[[quota]]\nname = "two"\ntenant = "open"\nowner = "*"\nopen = 2\n'
QUOTAS = f'{OPEN}[[quota]]\nname = "monthly"\ntenant = "limited"\nperiod = "month"\nruns = {RUNS}\n'
AGENT = "echo"
NO_COUNTS = re.compile("quotas: (?:no new counts of usage|can't count open tasks): ")


@dataclass
class Gateways:
    """Gateways with quotas, beside those of the shared fleet."""

    urls: list[str]
    processes: list[ServiceProcess]

    async def at_limit[T](self, send: Callable[[], Awaitable[T | None]]) -> T:
        """Return what `send` finds at a limit that fresh counts show; None is a run that begins.

        One begins only where task state did not give the gateway its counts in time, which is in
        the gateway's log. The next is sent when counts are read again.
        """
        async with asyncio.timeout(TIMEOUT):
            while (found := await send()) is None:
                assert any(NO_COUNTS.search(one.log.read_text()) for one in self.processes)
                await asyncio.sleep(FRESH)
        return found


@contextmanager
def gateways(
    fleet: Fleet, folder: Path, quotas: str, people: list[Person], *, number: int = 1
) -> Iterator[Gateways]:
    """Serve `people` by `quotas` at `number` more gateways of the shared fleet."""
    (folder / "quotas.toml").write_text(quotas)
    settings = {
        "HEADRACE_CREDENTIALS": str(write(folder / "credentials.toml", *people, head=ROLES)),
        "HEADRACE_QUOTAS": str(folder / "quotas.toml"),
    }
    made = [
        extra_services.gateway(folder / str(one), fleet.nats_url, **settings)
        for one in range(number)
    ]
    with ExitStack() as running:
        for process, _ in made:
            running.enter_context(process.start(wait=False))
        urls = [url for _, url in made]
        until(lambda: extra_services.is_served(urls, AGENT), "the gateways know the agent")
        yield Gateways(urls, [process for process, _ in made])


@pytest.fixture
def limited(fleet: Fleet, tmp_path: Path) -> Iterator[Gateways]:
    """Two gateways with the quotas of a month's runs and of open tasks."""
    people = [ANN, BOB, EVE, OLA, ZOE, YAN]
    with gateways(fleet, tmp_path, QUOTAS, people, number=2) as serving:
        yield serving


def runs_shown(url: str, person: Person) -> dict[str, int]:
    """Return how many runs of each owner the command shows to `person`."""
    arguments = ("--by", "owner", "--days", "2", "--json", "--token", person.token)
    shown = headrace(url, "usage", *arguments).out.splitlines()
    return {row["owner"]: row["runs"] for row in map(json.loads, shown)}


async def test_two_gateways_refuse_a_tenant_beyond_its_quota_and_no_other(
    limited: Gateways, http: httpx.AsyncClient
) -> None:
    async def sent(url: str, person: Person) -> httpx.Response:
        path = f"{url}/v1/agents/{AGENT}/message:send"
        return await http.post(path, json={"message": message("hi")}, headers=person.bearer)

    here, there = limited.urls
    (await sent(here, ANN)).raise_for_status()
    (await sent(there, BOB)).raise_for_status()
    begun = [ANN, BOB]

    def are_counted() -> bool:
        return runs_shown(here, OLA) == Counter(one.owner for one in begun)

    await asyncio.to_thread(until, are_counted, "both runs are counted")
    await asyncio.sleep(FRESH)

    async def refusal(url: str) -> httpx.Response | None:
        answer = await sent(url, ANN)
        if answer.is_error:
            return answer
        begun.append(ANN)
        return None

    refusals = [await limited.at_limit(partial(refusal, url)) for url in limited.urls]
    run = {"threadId": "t", "runId": "r", "state": {}, "tools": [], "context": []}
    words = [{"id": "m", "role": "user", "content": "hi"}]
    request = {**run, "forwardedProps": {}, "messages": words}
    agui = [
        await http.post(f"{url}/v1/agents/{AGENT}/ag-ui", json=request, headers=BOB.bearer)
        for url in limited.urls
    ]
    assert [answer.status_code for answer in (*refusals, *agui)] == [429] * 4
    reasons = [answer.json()["error"]["details"][0]["reason"] for answer in refusals]
    assert reasons == ["QUOTA_EXCEEDED"] * 2
    assert [answer.json()["error"]["code"] for answer in agui] == ["quota_exceeded"] * 2

    others = [await sent(url, EVE) for url in (here, there, here)]
    assert [answer.status_code for answer in others] == [200] * (RUNS + 1)
    assert await asyncio.to_thread(runs_shown, here, OLA) == Counter(one.owner for one in begun)
    assert await asyncio.to_thread(runs_shown, there, EVE) == {EVE.owner: RUNS + 1}


async def test_two_gateways_refuse_an_owner_more_open_tasks_than_its_quota(
    limited: Gateways, http: httpx.AsyncClient
) -> None:
    agents = [f"{url}/v1/agents/counter" for url in limited.urls]

    async def sent(agent: str, person: Person = ZOE) -> httpx.Response:
        body = {"message": message("600 500"), "configuration": {"returnImmediately": True}}
        return await http.post(f"{agent}/message:send", json=body, headers=person.bearer)

    async def canceled(task: str, person: Person) -> None:
        path = f"{agents[0]}/tasks/{task}:cancel"
        (await http.post(path, json={}, headers=person.bearer)).raise_for_status()

    async def refusal(agent: str) -> httpx.Response | None:
        answer = await sent(agent)
        if answer.is_error:
            return answer
        await canceled(answer.json()["task"]["id"], ZOE)
        return None

    begun = [(await sent(agent)).raise_for_status().json()["task"]["id"] for agent in agents]
    await asyncio.sleep(FRESH)  # Until then, each knows of its own task alone.
    refused = [await limited.at_limit(partial(refusal, agent)) for agent in agents]
    assert [answer.status_code for answer in refused] == [429, 429]
    [reason, _] = [answer.json()["error"]["message"] for answer in refused]
    assert reason == "quota 'two' is used up: 2 open tasks; try again when one of them has ended"
    assert {answer.headers["retry-after"] for answer in refused} == {"1"}
    other = (await sent(agents[0], YAN)).raise_for_status().json()["task"]["id"]
    await canceled(begun[0], ZOE)

    async def accepted() -> str:
        answer = await sent(agents[1])
        return "" if answer.is_error else str(answer.json()["task"]["id"])

    begun[0] = await eventually(accepted, "one more begins once one has ended")
    again = await limited.at_limit(partial(refusal, agents[0]))
    assert again.status_code == 429
    for task in begun:
        await canceled(task, ZOE)
    await canceled(other, YAN)


@pytest.fixture
def asking(fleet: Fleet, tmp_path: Path) -> Iterator[Gateways]:
    """A gateway at whose quota tasks wait."""
    with gateways(fleet, tmp_path, PATIENT, [PAT, WIM]) as serving:
        yield serving


@pytest.fixture
def free(fleet: Fleet, tmp_path: Path) -> Iterator[str]:
    """The URL of a gateway without quotas."""
    credentials = {"HEADRACE_CREDENTIALS": str(write(tmp_path / "free.toml", PAT))}
    process, url = extra_services.gateway(tmp_path / "free", fleet.nats_url, **credentials)
    with process.start(wait=False):
        until(lambda: extra_services.is_served([url], AGENT), "the gateway knows the agent")
        yield url


async def quotas_said(gateway: str, http: httpx.AsyncClient) -> dict[str, str]:
    """Return the name of the quota that the response over each binding has in its header."""
    agent = f"{gateway}/v1/agents/{AGENT}"
    run: Json = {"threadId": "w", "runId": "w", "state": {}, "tools": [], "context": []}
    run |= {"forwardedProps": {}, "messages": [{"id": "w", "role": "user", "content": "hi"}]}
    old: Json = {"kind": "message", "messageId": "o", "role": "user"}
    old |= {"parts": [{"kind": "text", "text": "hi"}]}

    def call(method: str, sent: Json) -> Json:
        return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": sent}}

    bodies: dict[str, tuple[str, Json]] = {
        "REST": (f"{agent}/message:send", {"message": message("hi")}),
        "REST, streamed": (f"{agent}/message:stream", {"message": message("hi")}),
        "JSON-RPC": (agent, call("SendMessage", message("hi"))),
        "JSON-RPC, streamed": (agent, call("SendStreamingMessage", message("hi"))),
        "JSON-RPC of A2A 0.3": (agent, call("message/send", old)),
        "AG-UI": (f"{agent}/ag-ui", run),
        "Hector": (f"{agent}/message:stream?format=agui", {"message": message("hi")}),
    }
    answers = {
        binding: await http.post(path, json=body, headers=WIM.bearer)
        for binding, (path, body) in bodies.items()
    }
    return {
        binding: answer.raise_for_status().headers.get("headrace-quota", "").partition(";")[0]
        for binding, answer in answers.items()
    }


async def test_at_a_quota_that_requests_input_a_task_waits_and_goes_on_with_the_next_message(
    asking: Gateways, free: str, fleet: Fleet, http: httpx.AsyncClient
) -> None:
    [here] = asking.urls
    said = await quotas_said(here, http)
    assert said == dict.fromkeys(said, "warned")
    assert len(said) == 7

    async def sent(url: str, text: str, **more: str) -> httpx.Response:
        body = {"message": message(text) | more}
        answer = await http.post(
            f"{url}/v1/agents/{AGENT}/message:send", json=body, headers=PAT.bearer
        )
        return answer.raise_for_status()

    first = await http.post(
        f"{here}/v1/agents/{AGENT}/message:stream",
        json={"message": message("hi")},
        headers=PAT.bearer,
    )
    assert "TASK_STATE_COMPLETED" in first.text
    assert first.headers["headrace-quota"] == "patient;runs;used=0;limit=1;period=day"

    async def asked() -> Json | None:
        task: Json = (await sent(here, "one more")).json()["task"]
        return task if task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED" else None

    async def is_counted() -> bool:
        answer = await http.get(f"{here}/v1/usage", headers=PAT.bearer)
        return [row["runs"] for row in answer.raise_for_status().json()["rows"]] == [1]

    await eventually(is_counted, "the run is counted")
    await asyncio.sleep(FRESH)
    task = await asking.at_limit(asked)
    again = (await sent(here, "now?", taskId=task["id"])).json()["task"]
    assert again["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    words = again["status"]["message"]["parts"][0]["text"]
    assert words.startswith("quota 'patient' is used up: 1 runs per day; try again at ")
    bus = Bus(BusSettings(nats_url=fleet.nats_url))
    await bus.connect("tool")
    last = await last_entry(bus, TaskKey(PAT.tenant, AGENT, task["id"]))
    await bus.close()
    assert last is not None
    assert len(last.events) == 2, "no run may begin between the message and the question"

    streamed = await http.post(
        f"{here}/v1/agents/{AGENT}/message:stream",
        json={"message": message("now?")},
        headers=PAT.bearer,
    )
    assert "TASK_STATE_INPUT_REQUIRED" in streamed.text

    run = {"threadId": "t", "runId": "r", "state": {}, "tools": [], "context": []}
    outputs = [{"id": "m", "role": "user", "content": "hi"}]
    agui = await http.post(
        f"{here}/v1/agents/{AGENT}/ag-ui",
        json={**run, "forwardedProps": {}, "messages": outputs},
        headers=PAT.bearer,
    )
    frames = re.findall(r"^data: (.*)$", agui.text, re.MULTILINE)
    types = [json.loads(frame)["type"] for frame in frames]
    assert (types[0], types[-1]) == ("RUN_STARTED", "RUN_FINISHED")

    done = (await sent(free, "go on", taskId=task["id"])).json()["task"]
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    mine = [one["parts"][0]["text"] for one in done["history"] if one["role"] == "ROLE_USER"]
    assert mine == ["one more", "now?", "go on"]

    fork = f"{here}/v1/agents/{AGENT}/tasks/{task['id']}:fork"
    forked = await http.post(fork, json={"message": message("again")}, headers=PAT.bearer)
    assert forked.json()["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    # Without a message there is nothing that could wait: the run would go on at once.
    refused = await http.post(fork, json={"generation": 1}, headers=PAT.bearer)
    reason = refused.json()["error"]["details"][0]["reason"]
    assert (refused.status_code, reason) == (429, "QUOTA_EXCEEDED")
    waiting = await http.post(fork, json={}, headers=PAT.bearer)
    assert waiting.json()["status"]["state"] == "TASK_STATE_INPUT_REQUIRED", "it begins no run"


SCOPES = {"tenant": "", "owner": 'owner = "*"\n', "agent": 'agent = "spender"\n'}
LIMITS = {"tokens": "10", "cost": "2.0", "runs": "1", "open": "1"}
FORMS = {
    "refused": "",
    "asked": 'at_limit = "input-required"\n',
    "warned": "enforce = false\n",
}


@agent
async def spender(ctx: RunContext) -> AsyncIterator[Emission]:
    """Use up any of the limits, or with "hold" remain open."""
    if ctx.prompt == "hold":
        await asyncio.Event().wait()
    yield Usage("model", "maker", 5, 5, 10, cost=2.0)
    yield "spent"


def quota_of(scope: str, what: str, form: str) -> str:
    """Return the only quota of the tenant that is called as it is."""
    name = f"{scope}-{what}-{form}"
    whose = f'name = "{name}"\ntenant = "{name}"\n{SCOPES[scope]}'
    return f"[[quota]]\n{whose}{what} = {LIMITS[what]}\n{FORMS[form]}\n"


@dataclass
class Limited:
    """The only quota of a tenant, and what its owners find."""

    scope: str
    what: str
    form: str
    http: httpx.AsyncClient
    gateways: Gateways
    opened: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.scope}-{self.what}-{self.form}"

    def person(self, owner: str = "ann") -> Person:
        return Person(self.name, owner)

    async def outcome(self, owner: str = "ann", agent_name: str = "spender") -> str:
        """Return what becomes of a message: a form, or "begun"."""
        body: Json = {"message": message("hold" if self.what == "open" else "spend")}
        body["configuration"] = {"returnImmediately": self.what == "open"}
        path = f"{self.gateways.urls[0]}/v1/agents/{agent_name}"
        person = self.person(owner)
        answer = await self.http.post(f"{path}/message:send", json=body, headers=person.bearer)
        if answer.status_code == 429:
            error = answer.json()["error"]
            assert error["details"][0]["reason"] == "QUOTA_EXCEEDED"
            assert repr(self.name) in error["message"]
            return "refused"
        task = answer.raise_for_status().json()["task"]
        if task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED":
            assert repr(self.name) in task["status"]["message"]["parts"][0]["text"]
            return "asked"
        if self.what == "open":
            self.opened.append(f"{path}/tasks/{task['id']}")
        said = answer.headers.get("headrace-quota")
        assert said is None or said.startswith(f"{self.name};{self.what};")
        return "begun" if said is None else "warned"

    async def is_counted(self) -> bool:
        """Return whether task state shows what the first run used."""
        url = f"{self.gateways.urls[0]}/v1/usage"
        answer = await self.http.get(url, headers=self.person().bearer)
        return any(row[self.what] for row in answer.raise_for_status().json()["rows"])

    async def found(self) -> tuple[str, ...]:
        """Return outcomes: the first one, at the limit, also at it, and not concerned by it.

        A tenant's limit concerns all its owners and agents, so it has no last outcome.
        """
        first = await self.outcome()
        if self.what != "open":  # Open tasks are counted at once.
            await eventually(self.is_counted, f"the {self.what} of {self.name} are counted")
            await asyncio.sleep(FRESH)

        async def at_limit(*of: str) -> str | None:
            outcome = await self.outcome(*of)
            return None if outcome == "begun" else outcome

        second = await self.gateways.at_limit(at_limit)
        by_another, of_another = ("bob", "spender"), ("ann", AGENT)
        concerned = of_another if self.scope == "owner" else by_another
        too = await self.gateways.at_limit(partial(at_limit, *concerned))
        if self.scope == "tenant":
            return first, second, too
        others = by_another if self.scope == "owner" else of_another
        return first, second, too, await self.outcome(*others)

    @property
    def expected(self) -> tuple[str, ...]:
        """What it finds if the limit holds."""
        return "begun", self.form, self.form, *(() if self.scope == "tenant" else ("begun",))

    async def end(self) -> None:
        """Cancel what is open."""
        for task in self.opened:
            await self.http.post(f"{task}:cancel", json={}, headers=self.person().bearer)


async def test_each_limit_of_each_scope_refuses_asks_or_warns(
    fleet: Fleet, tmp_path: Path, http: httpx.AsyncClient
) -> None:
    cases = list(product(SCOPES, LIMITS, FORMS))
    quotas = "".join(quota_of(*case) for case in cases)
    people = [Person("-".join(case), owner) for case in cases for owner in ("ann", "bob")]
    worker = Worker(WorkerSettings(nats_url=fleet.nats_url, drain_seconds=0), Agents([spender]))
    with gateways(fleet, tmp_path, quotas, people) as serving:
        every = [Limited(*case, http, serving) for case in cases]
        await worker.start()
        try:
            served = partial(extra_services.is_served, serving.urls, "spender")
            await asyncio.to_thread(until, served, "the gateway knows the agent")
            found = await asyncio.gather(*(one.found() for one in every))
        finally:
            await asyncio.gather(*(one.end() for one in every))
            await worker.stop()
    shown = {one.name: outcomes for one, outcomes in zip(every, found, strict=True)}
    assert shown == {one.name: one.expected for one in every}
