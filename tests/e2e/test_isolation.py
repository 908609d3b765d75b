"""Nobody sees another's task: on no operation and no protocol, not even that it exists.

`REACHES` says of each operation who reaches another's task by it. The tests ask on a real fleet, in
each protocol, and `docs/design/isolation.md` has the table.
"""

import json
import logging
import os
import re
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
from starlette.routing import Route

from headrace.jetstream.connection import Bus
from headrace.model import events
from headrace.model.messages import DeadLetter
from headrace.model.subjects import encode_token
from headrace.settings import BusSettings
from headrace.tasks.dead_letters import LetterFilter, write_letter
from headrace.tasks.dead_letters import Letters as StoredLetters
from headrace_gateway.protocols.a2a.operations import STREAMING, UNARY
from headrace_gateway.protocols.fleet.routes import routes as fleet_routes
from headrace_gateway.server.open_requests import OpenRequests
from headrace_gateway.settings import GatewaySettings
from tests.support.compose_file import ROOT
from tests.support.credentials import ANN, BOB, EVE, Person, write
from tests.support.isolation import (
    BINDINGS,
    CONFIG,
    FLEET,
    HOOK,
    IN_CONTEXT,
    SCHEDULE,
    MaskedResponse,
    Thing,
    binding,
)
from tests.support.memory_gateway import memory_services
from tests.support.plain_a2a import message
from tests.support.plain_http import NO_TLS
from tests.support.stack import Stack
from tests.support.waiting import eventually

OLA = Person("acme", "ola", ("on-call",))
ROLES = """
[[role]]
name = "on-call"
operator = true
operations = ["read", "send", "cancel", "delete", "push", "operate", "route"]
"""
"""An operator who may do all that there is."""

CALLERS: Mapping[str, Person | None] = {
    "its owner": ANN,
    "another owner": BOB,
    "another tenant": EVE,
    "an operator": OLA,
    "nobody": None,
}

YES, NO, REFUSED = "yes", "no", "401"
_ANNS = (YES, NO, NO, NO, REFUSED)
_OPERATED = (YES, NO, NO, YES, REFUSED)
_OPERATORS = (NO, NO, NO, YES, REFUSED)
_ALL_OWNERS = (YES, YES, YES, YES, REFUSED)

REACHES: Mapping[str, tuple[str, ...]] = {
    "SendMessage": _ANNS,
    IN_CONTEXT: _ANNS,
    "SendStreamingMessage": _ANNS,
    "GetTask": _OPERATED,
    "ListTasks": _OPERATED,
    "CancelTask": _OPERATED,
    "DeleteTask": _ANNS,
    "ForkTask": _ANNS,
    "SubscribeToTask": _OPERATED,
    "SubscribeToContext": _ANNS,
    "CreateTaskPushNotificationConfig": _ANNS,
    "GetTaskPushNotificationConfig": _ANNS,
    "ListTaskPushNotificationConfigs": _ANNS,
    "DeleteTaskPushNotificationConfig": _ANNS,
    "GetExtendedAgentCard": _ALL_OWNERS,
    "AG-UI: run": _ANNS,
    "AG-UI: attach": _ANNS,
    "AG-UI: connect": _ANNS,
    "AG-UI: connect and stay": _ANNS,
    "AG-UI: stop": _ANNS,
    "AG-UI: thread": _ANNS,
    "CopilotKit: run": _ANNS,
    "CopilotKit: connect": _ANNS,
    "CopilotKit: stop": _ANNS,
    "file download": _OPERATED,
    "file: sign its URL": _OPERATED,
    "task log": _OPERATED,
    "task log: stream": _OPERATED,
    "feedback: get": _OPERATED,
    "feedback: give": _ANNS,
    "tasks: watch": _OPERATED,
    "tasks of all agents: list": _OPERATED,
    "tasks of all agents: watch": _OPERATED,
    "fleet": _OPERATORS,
    "threads: list": _OPERATED,
    "thread: get": _OPERATED,
    "thread: follow": _OPERATED,
    "thread: change": _ANNS,
    "usage": _OPERATED,
    "agent versions: list": _OPERATORS,
    "agent versions: route": _OPERATORS,
    "agent versions: roll back": _OPERATORS,
    "agent versions: retire": _OPERATORS,
    "worker: drain": _OPERATORS,
    "processes: list": _OPERATORS,
    "processes: log level": _OPERATORS,
    "signing key: rotate": _OPERATORS,
    "processes of headrace dev: list": _OPERATORS,
    "process of headrace dev: kill": _OPERATORS,
    "webhook deliveries: list": _OPERATORS,
    "dead letters: list": _OPERATORS,
    "dead letter: get": _OPERATORS,
    "dead letter: retry": _OPERATORS,
    "dead letter: drop": _OPERATORS,
    "schedules: list": _OPERATED,
    "schedule: get": _OPERATED,
    "schedule: dead letters": _ANNS,
    "schedule: dead letter": _ANNS,
    "schedule: run now": _ANNS,
    "schedule: back-fill": _ANNS,
    "schedule: pause": _OPERATED,
    "schedule: resume": _OPERATED,
    "schedule: delete": _OPERATED,
    "schedule: replace": _ANNS,
    "triggers: list": _OPERATED,
    "trigger: get": _OPERATED,
    "trigger: dead letters": _ANNS,
    "trigger: dead letter": _ANNS,
    "trigger: pause": _OPERATED,
    "trigger: resume": _OPERATED,
    "trigger: delete": _OPERATED,
    "trigger: replace": _ANNS,
    "thread: delete": _ANNS,
    "task: fail": _OPERATORS,
}
"""By the order of `CALLERS`: it reaches the task; or is answered exactly as for one that does not
exist; or, unknown, is not answered."""

_OF_THE_CALLER: Mapping[str, Callable[[MaskedResponse], bool]] = {
    "GetExtendedAgentCard": lambda answer: answer.is_ok,
    "fleet": lambda answer: answer.text == str(True),
    # Ann's name is also the name of an owner in the other tenant, who may ask for its own.
    "usage": lambda answer: answer.text == str(True),
    **dict.fromkeys(
        (
            "agent versions: list",
            "agent versions: route",
            "agent versions: roll back",
            "agent versions: retire",
            "worker: drain",
            "processes: list",
            "processes: log level",
            "signing key: rotate",
            "processes of headrace dev: list",
            "process of headrace dev: kill",
        ),
        lambda answer: answer.is_permitted,
    ),
}
"""What names nothing of an owner's is answered by who asks: whether the answer says that it may."""

_BEGINS_A_RUN = (IN_CONTEXT, "AG-UI: run", "CopilotKit: run")
_CHANGING = (
    *_BEGINS_A_RUN,
    "SendMessage",
    "CancelTask",
    "DeleteTask",
    "CreateTaskPushNotificationConfig",
    "DeleteTaskPushNotificationConfig",
    "AG-UI: stop",
    "schedule: pause",
    "schedule: resume",
    "schedule: replace",
    "schedule: delete",
    "trigger: pause",
    "trigger: resume",
    "trigger: replace",
    "trigger: delete",
    "thread: change",
    "thread: delete",
    "task: fail",
)
_WATCHED = ("tasks: watch", "tasks of all agents: watch")
"""Meanwhile its owner changes the thing."""
_ENDS_AT_ONCE = (*_BEGINS_A_RUN, *_WATCHED, "file download", "file: sign its URL")
"""Asked of the agent that makes a file."""
_LARGE = "300000"
_DECLARED = ("schedules", "triggers")
_NO_LETTER = 10**15
"""The number of a dead letter that nobody has."""
_PAIRS = 400

_log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack that wants credentials."""
    folder = tmp_path_factory.mktemp("guarded")
    file = write(folder / "credentials.toml", ANN, BOB, EVE, OLA, head=ROLES)
    environment = {
        "HEADRACE_CREDENTIALS": str(file),
        "PYTHONPATH": str(ROOT),
        "HEADRACE_CONCURRENCY": "1000",
        "HEADRACE_TRIGGER_SUBJECTS": "{tenant}.>",
        # Nobody is there to take in what is told of some hundred tasks.
        "HEADRACE_PUSH_BACKOFF": "300",
    }
    agents = "tests.support.agents:agents"
    with Stack(folder, agents=agents, environment=environment) as stack:
        yield stack


@asynccontextmanager
async def client_of(guarded: Stack, person: Person | None) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"A2A-Version": "1.0", **(person.bearer if person else {})}
    async with httpx.AsyncClient(
        base_url=guarded.url, headers=headers, timeout=90, verify=NO_TLS
    ) as http:
        yield http


class Letters:
    """The dead letters of a stack."""

    def __init__(self, bus: Bus) -> None:
        """Write on `bus`."""
        self._bus = bus

    async def write(self, agent: str, source: str, task: str) -> int:
        """Write one of a source of firings of Ann's, which nobody can retry; return its number."""
        letter = DeadLetter(
            reason="body.total is missing",
            subject=f"{ANN.tenant}.orders",
            task=task,
            trigger=source,
            at=events.now(),
        )
        await write_letter(self._bus, letter, to=(ANN.tenant, agent))
        wanted = LetterFilter(ANN.tenant, agent, "event", task)
        *_, found = [one async for one in StoredLetters(self._bus).find(wanted)]
        return found.number


@pytest.fixture
async def letters(guarded: Stack) -> AsyncIterator[Letters]:
    bus = Bus(BusSettings(nats_url=guarded.dev()["nats_url"]))
    await bus.connect("test")
    yield Letters(bus)
    await bus.close()


class Ann:
    """The owner: of a task at work, and one that has ended, each in a context of its own."""

    def __init__(
        self, http: httpx.AsyncClient, letters: Letters, folder: Path, *, declares: bool = False
    ) -> None:
        """Have nothing yet; the task at work waits for a file in `folder` that never comes.

        With `declares` she also has what only pages are asked for: for each task a schedule,
        a trigger and a dead letter, a file that can be downloaded, and usage that has been counted.
        """
        self._http, self._letters, self._gate = http, letters, folder / "never"
        self._declared = _DECLARED if declares else ()

    async def things(self) -> list[Thing]:
        """Make both."""
        size = _LARGE if self._declared else "1"
        things = [await self._begun("gated", str(self._gate)), await self._begun("filer", size)]
        if self._declared:
            await eventually(self._is_counted, "her run's usage is counted")
        return things

    async def _is_counted(self) -> bool:
        answer = await self._http.get("/v1/usage")
        return any(row["runs"] for row in answer.raise_for_status().json()["rows"])

    async def _begun(self, agent: str, text: str) -> Thing:
        base = f"/v1/agents/{agent}"
        context = f"ann-{time.monotonic_ns()}"
        body = {
            "message": message(text, contextId=context),
            "configuration": {"taskPushNotificationConfig": {"id": CONFIG, "url": HOOK}},
        }
        task, cursor, file = "", "", "none"
        async with self._http.stream("POST", f"{base}/message:stream", json=body) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("id: "):
                    cursor = cursor or line.removeprefix("id: ")
                elif line.startswith("data: "):
                    event = json.loads(line.removeprefix("data: "))
                    task = task or event["task"]["id"]
                    if "artifactUpdate" in event:
                        [part] = event["artifactUpdate"]["artifact"]["parts"]
                        file = part.get("url", file).rpartition("/")[2]
                        if agent == "gated":
                            break
        trigger = {"agent": agent, "subject": f"{ANN.tenant}.{context}"}
        bodies = {"schedules": SCHEDULE, "triggers": trigger}
        for kind in self._declared:
            put = await self._http.put(f"/v1/{kind}/{context}", json=bodies[kind])
            put.raise_for_status()
        trigger_letter, schedule_letter = [
            await self._letters.write(agent, f"{kind}/{encode_token(ANN.owner)}/{context}", task)
            for kind in ("trigger", "schedule")
            if self._declared
        ] or [_NO_LETTER] * 2
        more = partial(self._sent, context)
        return Thing(
            agent,
            task,
            context,
            cursor,
            file,
            ANN.owner,
            ANN.owner,
            trigger_letter,
            schedule_letter,
            more,
        )

    async def _sent(self, context: str) -> None:
        body = {"message": message("1", contextId=context)}
        (await self._http.post("/v1/agents/filer/message:send", json=body)).raise_for_status()

    async def seen(self, things: list[Thing]) -> list[str]:
        """Return all that she sees of them: they may be gone."""
        paths = [
            f"/v1/agents/{one.agent}/tasks{path}"
            for one in things
            for path in (
                f"/{one.task}",
                f"/{one.task}/pushNotificationConfigs",
                f"?contextId={one.context}",
            )
        ]
        paths += [f"/v1/{kind}/{one.context}" for one in things for kind in self._declared]
        paths += [f"/v1/threads/{one.context}" for one in things]
        return [await self._read(path) for path in paths]

    async def _read(self, path: str) -> str:
        """Return what is there, once task state has had the time to answer."""

        async def answer() -> str | None:
            found = await self._http.get(path)
            is_too_late = found.status_code == httpx.codes.SERVICE_UNAVAILABLE
            return None if is_too_late else found.text

        return await eventually(answer, f"{path} is answered")

    async def end(self, things: list[Thing]) -> None:
        """End what is at work, and delete what she has declared."""
        for one in things:
            await self._http.post(f"/v1/agents/{one.agent}/tasks/{one.task}:cancel")
            for kind in self._declared:
                await self._http.delete(f"/v1/{kind}/{one.context}")


def outcome(operation: str, theirs: MaskedResponse, nothing: MaskedResponse) -> str:
    """Say what came of it to ask for Ann's, beside what came of it to ask for nobody's."""
    if theirs.is_unauthenticated and theirs == nothing:
        return REFUSED
    if (may := _OF_THE_CALLER.get(operation)) is not None:
        return YES if may(theirs) else NO
    return NO if theirs == nothing else YES


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("name", BINDINGS)
async def test_who_reaches_anothers_task_by_which_operation(
    guarded: Stack, letters: Letters, tmp_path: Path, name: str, caller: str
) -> None:
    column = list(CALLERS).index(caller)
    is_stranger = YES not in {REACHES[name][column] for name in _CHANGING}
    async with (
        client_of(guarded, ANN) as anns,
        client_of(guarded, CALLERS[caller]) as http,
        binding(name, http) as request,
    ):
        ann = Ann(anns, letters, tmp_path, declares=not FLEET.keys().isdisjoint(request.operations))
        things = await ann.things()
        before = await ann.seen(things)
        assert request.operations
        for operation in request.operations:
            expected = REACHES[operation][column]
            answers = list[tuple[MaskedResponse, MaskedResponse]]()
            for thing in things[1:] if operation in _ENDS_AT_ONCE else things:
                nothing = await request.answered(operation, thing.as_nobodys())
                theirs = await request.answered(operation, thing)
                answers += zip(theirs, nothing, strict=True)
            found = {outcome(operation, *pair) for pair in answers}
            # What strangers change is looked at before things are replaced, and at last. What the
            # answer has told of others need not be looked at, unless things are to be replaced.
            is_untold = operation in _CHANGING or YES not in found
            is_looked_at = operation in _BEGINS_A_RUN or (is_untold and not is_stranger)
            is_changed = is_looked_at and await ann.seen(things) != before
            # Of several asks one that reaches it is enough, and so is a change that its owner sees.
            assert (YES if is_changed or YES in found else found.pop()) == expected, (
                operation,
                [pair for pair in answers if pair[0] != pair[1]],
            )
            if is_changed or operation in _BEGINS_A_RUN:
                await ann.end(things)
                things = await ann.things()
                before = await ann.seen(things)
            elif operation in _WATCHED:
                before = await ann.seen(things)
        assert await ann.seen(things) == before, "one of these operations changed a task"
        await ann.end(things)


def test_each_operation_of_a2a_is_in_the_table() -> None:
    assert {*UNARY, *STREAMING} < REACHES.keys()


async def test_each_route_of_the_fleet_api_is_in_the_table() -> None:
    settings = GatewaySettings(dev_control=Path("control"))
    async with memory_services(OpenRequests(), settings) as services:
        routes = fleet_routes(services)
    served = {
        (method, re.sub(r":\w+}", "}", route.path))
        for route in routes
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    }
    assert served == {(request.method, request.route) for request in FLEET.values()}
    assert FLEET.keys() <= REACHES.keys()


def test_the_table_is_in_the_documentation() -> None:
    head = f"| operation | {' | '.join(CALLERS)} |\n|---|{'---|' * len(CALLERS)}\n"
    rows = (f"| {operation} | {' | '.join(output)} |\n" for operation, output in REACHES.items())
    made = head + "".join(rows)
    page = (ROOT / "docs" / "design" / "isolation.md").read_text()
    assert made in page, f"docs/design/isolation.md is to have:\n\n{made}"


async def test_the_name_of_a_trigger_is_each_owners_own(guarded: Stack) -> None:
    async with client_of(guarded, ANN) as anns:
        path, subject = f"/v1/triggers/anns-{time.monotonic_ns()}", f"{ANN.tenant}.orders"
        made = await anns.put(path, json={"agent": "filer", "subject": subject})
        seen = (await anns.get(made.raise_for_status().url.path)).text
        for caller, code in ((BOB, 201), (OLA, 201), (EVE, 201), (None, 401)):
            async with client_of(guarded, caller) as http:
                tenant = ANN.tenant if caller is None else caller.tenant
                received = f"{tenant}.stolen"
                answer = await http.put(path, json={"agent": "filer", "subject": received})
                assert answer.status_code == code
        assert (await anns.get(path)).text == seen


async def test_an_idempotency_key_is_each_owners_own(guarded: Stack) -> None:
    tasks = set()
    for person in (ANN, BOB, EVE):
        async with client_of(guarded, person) as http:
            answer = await http.post(
                "/v1/agents/filer/message:send",
                json={"message": message("1", messageId="same")},
                headers={"Idempotency-Key": "shared"},
            )
            tasks.add(answer.raise_for_status().json()["task"]["id"])
    assert len(tasks) == 3


async def test_the_ids_of_an_agui_run_are_each_owners_own(guarded: Stack) -> None:
    thread, run = f"shared-{time.monotonic_ns()}", "shared"
    request = {"id": "1", "role": "user", "content": "[]"}
    ids = {"threadId": thread, "runId": run}
    body = {**ids, "tools": [], "context": [], "forwardedProps": {}, "messages": [request]}
    tasks, received = set[str](), dict[str, str]()
    for person in (ANN, BOB, EVE):
        async with client_of(guarded, person) as http:
            path, own = "/v1/agents/patcher/ag-ui", {**body, "state": {"of": person.token}}
            first = (await http.post(path, json=own)).raise_for_status().text
            again = (await http.post(path, json=own)).raise_for_status().text
            assert again == first, "a retry joins one's own run"
            kept = (await http.get(f"{path}/threads/{thread}")).raise_for_status().text
            received[person.token] = first + kept
            listed = await http.get(f"/v1/agents/patcher/tasks?contextId={thread}")
            [task] = listed.raise_for_status().json()["tasks"]
            tasks.add(task["id"])
    assert len(tasks) == 3
    seen = {own: {one for one in received if one in text} for own, text in received.items()}
    assert seen == {own: {own} for own in received}
    assert all("RUN_FINISHED" in text for text in received.values())


async def test_the_tenant_of_a_path_is_an_address_and_no_right(
    guarded: Stack, letters: Letters, tmp_path: Path
) -> None:
    async with client_of(guarded, ANN) as anns, client_of(guarded, EVE) as http:
        ann = Ann(anns, letters, tmp_path)
        things = await ann.things()
        assert things
        for one in things:
            for path in (f"/acme/tasks/{one.task}", f"/tasks/{one.task}?tenant=acme"):
                answer = await http.get(f"/v1/agents/{one.agent}{path}")
                assert answer.status_code in (400, 404)
                assert "TASK_STATE" not in answer.text
        await ann.end(things)


@pytest.mark.soak
@pytest.mark.skipif("HEADRACE_SOAK" not in os.environ, reason="times vary on a busy machine")
@pytest.mark.parametrize(
    "operation", ["GetTask", "CancelTask", "DeleteTask", "SubscribeToTask", "SendMessage"]
)
async def test_how_long_a_refusal_takes_does_not_reveal_whether_a_task_exists(
    guarded: Stack, letters: Letters, tmp_path: Path, operation: str
) -> None:
    async with (
        client_of(guarded, ANN) as anns,
        client_of(guarded, BOB) as http,
        binding("REST", http) as request,
    ):
        ann = Ann(anns, letters, tmp_path)
        things = await ann.things()
        times: dict[bool, list[float]] = {True: [], False: []}
        for number in range(2 * _PAIRS):
            is_anns = number % 2 == 0
            thing = things[number // 2 % 2]
            begun = time.perf_counter()
            await request.ask(operation, thing if is_anns else thing.as_nobodys())
            times[is_anns].append(time.perf_counter() - begun)
        await ann.end(things)
    anns_median, nobodys_median = (statistics.median(times[one]) for one in (True, False))
    # How far medians of the same thing lie apart: those of halves, which is noise twice as large.
    noise = max(
        abs(statistics.median(each[::2]) - statistics.median(each[1::2])) for each in times.values()
    )
    _log.warning(
        "%s: %.2f ms for Ann's, %.2f ms for nobody's, noise %.2f ms",
        operation,
        1000 * anns_median,
        1000 * nobodys_median,
        1000 * noise,
    )
    assert abs(anns_median - nobodys_median) < max(4 * noise, 0.25 * nobodys_median)
