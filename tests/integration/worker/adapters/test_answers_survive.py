"""What happens between an agent's question and its answer, on a stack of two workers.

One table: adapter by event. All adapters ask, the event happens, and all are answered. So each cell
is one test, and an event happens once.
"""

import asyncio
import json
import signal
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from headrace.model import parts
from headrace.model.events import Json
from tests.integration.worker.adapters.approval_examples import EXAMPLES, Ledger
from tests.integration.worker.adapters.behaviour import PAINT, lines
from tests.integration.worker.adapters.gemini_wire import gemini_model
from tests.integration.worker.adapters.office import Office
from tests.integration.worker.adapters.test_agui_agent import run, text
from tests.integration.worker.adapters.wire import (
    Model,
    ModelMessage,
    ModelOutput,
    Script,
    calls,
    chat_model,
    replies,
)
from tests.support.agui.runs import path, run_input
from tests.support.chat_stub import AgUiStub, Reply, serving
from tests.support.module_loops import module_fixture
from tests.support.pids import freeze, living
from tests.support.plain_http import NO_TLS
from tests.support.resuming_sizes import sized
from tests.support.scripted_executor import ScriptedExecutor
from tests.support.sdk_server import sdk_server
from tests.support.stack import Stack
from tests.support.waiting import soon, until

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio(loop_scope="module")]

ROOT = Path(__file__).parents[4]
FRAMEWORKS: Final[dict[str, Callable[[Script], AbstractAsyncContextManager[Model]]]] = {
    "test_pydantic_ai": chat_model,
    "test_openai_agents": chat_model,
    "test_langgraph": chat_model,
    "test_google_adk": gemini_model,
    "test_openai": chat_model,
}
"""The model servers of the adapters' agents, by the modules that build these."""

IMPORTS = (
    "headrace.adapters.pydantic_ai.agent",
    "pydantic_ai.models.openai",
    "headrace.adapters.openai_agents.agent",
    "headrace.adapters.langgraph.agent",
    "langchain.agents",
    "langchain_openai",
    "headrace.adapters.adk.agent",
    "google.adk.models",
    "headrace.adapters.openai.agent",
    "headrace.adapters.a2a.executor",
    "headrace.adapters.a2a.remote",
    "headrace.adapters.ag_ui.agent",
)
"""What all of them import, once for all workers."""


EARLY = "yes"
"""What is sent before the question."""


def model_says(received: list[ModelMessage]) -> ModelOutput:
    """Return what a model says: the user's message names a tool and what it is for."""
    last = received[-1]
    if last.answers:
        return replies("So be it.")
    if last.text == EARLY:
        return replies(f"You said {EARLY} early.")
    verb, what = last.text.rstrip(".").split()
    city = {"city": f"Oakland {what}"}
    called: dict[str, list[tuple[str, str, Json]]] = {
        "Refund": [("c1", "refund", {"order": what, "amount": 5})],
        "Paint": [("p1", "paint", {"colour": what})],
        "Book": [("b1", "book_hotel", {"hotel_name": what})],
        "Measure": [("w1", "get_weather", city), ("w2", "get_temperature", city)],
        "Transfer": [("t1", "transfer_funds", {"amount": 200, "recipient": what})],
    }
    return calls(*called[verb])


ASKS: Json = {
    "id": "i1",
    "reason": "confirm",
    "message": "Sure?",
    "responseSchema": {"type": "string"},
}


def backend_says(request: Json) -> Reply:
    """Return what the AG-UI backend says: it asks whoever brings no answer."""
    if request.get("resume"):
        return run(*text(uuid.uuid4().hex, "Done."))
    return run(outcome={"type": "interrupt", "interrupts": [ASKS]})


@dataclass
class World:
    """The stack, and the servers that its agents use."""

    stack: Stack
    offices: dict[str, Office]
    models: dict[str, Model]
    backend: AgUiStub
    outside: ScriptedExecutor
    ledger: Ledger

    @property
    def http(self) -> httpx.AsyncClient:
        """A client of the gateway."""
        return httpx.AsyncClient(base_url=self.stack.url, timeout=300, verify=NO_TLS)

    def heard(self, framework: str, prompt: str) -> list[str]:
        """Return the longest conversation that begins with `prompt`, as its model got it."""
        found = [lines(each) for each in self.models[framework].conversations]
        return max((each for each in found if each[0] == f"user: {prompt}"), key=len)


@module_fixture
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """Serve all agents."""
    folder = tmp_path_factory.mktemp("world")
    offices = {name: Office(folder / name) for name in FRAMEWORKS}
    models = dict[str, Model]()
    async with AsyncExitStack() as servers:
        for name, serve in FRAMEWORKS.items():
            offices[name].folder.mkdir()
            models[name] = await servers.enter_async_context(serve(model_says))
        backend = await servers.enter_async_context(serving(AgUiStub(backend_says)))
        outside = ScriptedExecutor()
        remote = await servers.enter_async_context(sdk_server(outside))
        environment = {
            "PYTHONPATH": str(ROOT),
            "MODELS": json.dumps({name: model.url for name, model in models.items()}),
            "OFFICES": str(folder),
            "AG_UI": backend.url + backend.path,
            "REMOTE": remote.url,
        }
        stack = Stack(
            folder / "stack",
            gateways=1,
            workers=2,
            agents="served:agents",
            arguments=("--port", "0"),
            environment=environment,
        )
        stack.imports = IMPORTS
        stack.folder.mkdir()
        save(stack)
        await asyncio.to_thread(stack.start)
        try:
            yield World(stack, offices, models, backend, outside, Ledger(folder))
        finally:
            await asyncio.to_thread(stack.stop)


def save(stack: Stack) -> None:
    """Save the agents' file."""
    file = stack.folder / "served.py"
    source = "from tests.integration.worker.adapters.serving_all import agents as agents\n"
    file.write_text(f"{source}# {uuid.uuid4()}\n")


@dataclass(frozen=True)
class Told:
    """What a run came to."""

    state: str
    text: str
    effects: list[Any]
    """What was done for its prompt, each time."""
    heard: list[str]
    """The conversation that its model was sent last."""


class Asker:
    """One row: an agent that asks, and what it is answered."""

    def __init__(self, agent: str) -> None:
        """Ask with `agent`."""
        self.agent = agent

    async def ask(self, world: World, event: str) -> Any:  # noqa: ANN401  # for `answer`
        """Send the prompt, and return what `answer` needs to know."""
        raise NotImplementedError

    async def answer(self, world: World, event: str, asked: Any) -> Told:  # noqa: ANN401  # of `ask`
        """Answer, and return what became of it."""
        raise NotImplementedError

    def expected(self, event: str) -> Told:
        """Return what is to become of it."""
        raise NotImplementedError


class InWords(Asker):
    """An agent that asks over A2A, and is answered in words."""

    prompt, answers, told = "", "", ""
    told_after = f"You said {EARLY} early."
    """What is said to a word that was sent before the question, after the answer to that."""
    state_after = "TASK_STATE_COMPLETED"
    """What the task comes to then."""

    def heard(self, world: World, event: str) -> tuple[list[Any], list[str]]:
        """Return the effects, and what the model was sent."""
        del world, event
        return [], []

    async def ask(self, world: World, event: str) -> str:
        """Send the prompt, and return the task that waits."""
        task = await self._said(world, self.prompt.format(event))
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED", task
        return str(task["id"])

    async def answer(self, world: World, event: str, asked: str) -> Told:
        """Answer the task."""
        task = await self._said(world, self.answers.format(event), asked)
        return self._told(world, event, task)

    def _told(self, world: World, event: str, task: Json) -> Told:
        said = "".join(parts.text_of(one["parts"]) for one in task.get("artifacts", ()))
        return Told(task["status"]["state"], said, *self.heard(world, event))

    async def ask_after_a_word(
        self, world: World, event: str, sent: asyncio.Semaphore, release: asyncio.Event
    ) -> str:
        """Send the prompt and a word before its question; return the task that waits.

        `sent` is released when both are there, and they are worked on once `release` is set.
        """
        task = await self._said(world, self.prompt.format(event), at_once=True)
        await self._said(world, EARLY, task["id"], at_once=True)
        sent.release()
        await release.wait()
        url, state = f"/v1/agents/{self.agent}/tasks/{task['id']}", ""
        async with world.http as http, asyncio.timeout(300):
            while state != "TASK_STATE_INPUT_REQUIRED":
                await asyncio.sleep(0.1)
                state = (await http.get(url)).json()["status"]["state"]
        return str(task["id"])

    async def _said(
        self, world: World, words: str | Json, task: str = "", *, at_once: bool = False
    ) -> Json:
        part = {"text" if isinstance(words, str) else "data": words}
        message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [part]}
        body: Json = {"message": message | ({"taskId": task} if task else {})}
        body["configuration"] = {"returnImmediately": at_once}
        async with world.http as http:
            answer = await http.post(f"/v1/agents/{self.agent}/message:send", json=body)
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()["task"]
        return found

    def expected(self, event: str) -> Told:
        """Return what is to become of it."""
        return Told("TASK_STATE_COMPLETED", self.told.format(event), *self.done(event))

    def done(self, event: str) -> tuple[list[Any], list[str]]:
        """Return the effects that are to be, and what the model is to be sent."""
        del event
        return [], []


class Approval(InWords):
    """A framework's agent whose tool needs approval."""

    prompt, answers, told = "Refund {}.", "yes", "So be it."

    def heard(self, world: World, event: str) -> tuple[list[Any], list[str]]:
        """Return the refunds, and what the model was sent."""
        refunded = world.offices[self.agent].done("refunded")
        heard = world.heard(self.agent, self.prompt.format(event))
        return [each for each in refunded if each.startswith(f"{event}:")], heard

    def done(self, event: str) -> tuple[list[Any], list[str]]:
        """Return one refund, and the conversation up to its result."""
        return [f"{event}:5"], [
            f"user: Refund {event}.",
            f"assistant: refund({event},5)",
            f"tool: refunded {event}",
        ]


class Example(InWords):
    """One of the frameworks' examples of approvals."""

    told = "So be it."

    def __init__(self, agent: str, prompt: str, effect: str, answer: Json | str = "yes") -> None:
        """Send `prompt`, and give the `answer` after which there is the `effect`, once."""
        super().__init__(agent)
        self.prompt, self._effect, self._answer = prompt, effect, answer

    async def answer(self, world: World, event: str, asked: str) -> Told:
        """Answer the task."""
        return self._told(world, event, await self._said(world, self._answer, asked))

    def heard(self, world: World, event: str) -> tuple[list[Any], list[str]]:
        """Return its effect, as often as it happened."""
        effect = self._effect.format(event)
        return [each for each in world.ledger.lines() if each == effect], []

    def done(self, event: str) -> tuple[list[Any], list[str]]:
        """Return one effect."""
        return [self._effect.format(event)], []


class AskingExecutor(InWords):
    """The SDK's executor, which asks for a language."""

    prompt, answers, told = "klingon", "german", "Guten Tag encore "


class AskingOutside(InWords):
    """An A2A agent elsewhere."""

    prompt, answers, told = "ask {}", "fire {}", "Reply: fire {}"

    def heard(self, world: World, event: str) -> tuple[list[Any], list[str]]:
        """Return what it received."""
        return [], [each for each in world.outside.received if each.endswith(f" {event}")]

    def done(self, event: str) -> tuple[list[Any], list[str]]:
        """Return question and answer."""
        return [], [f"ask {event}", f"fire {event}"]


class AskingBackend(InWords):
    """An AG-UI agent elsewhere."""

    prompt, answers, told = "{}?", "yes, {}", "Done."
    told_after, state_after = "", "TASK_STATE_INPUT_REQUIRED"

    def heard(self, world: World, event: str) -> tuple[list[Any], list[str]]:
        """Return the answers that it received."""
        resumed = [one for each in world.backend.requests for one in each.get("resume") or ()]
        return [each for each in resumed if each["payload"] == f"yes, {event}"], []

    def done(self, event: str) -> tuple[list[Any], list[str]]:
        """Return one answer."""
        return [{"interruptId": "i1", "status": "resolved", "payload": f"yes, {event}"}], []


class ClientTool(Asker):
    """A model that calls a tool of its AG-UI client, which answers with the result."""

    async def ask(self, world: World, event: str) -> tuple[Json, Json]:
        """Send the prompt; return the input, and the call."""
        given = run_input(f"Paint {event}.", tools=[PAINT])
        events = await self._run(world, given)
        [called] = [each for each in events if each["type"] == "TOOL_CALL_START"]
        arguments = "".join(e["delta"] for e in events if e["type"] == "TOOL_CALL_ARGS")
        function = {"name": called["toolCallName"], "arguments": arguments}
        return given, {"id": called["toolCallId"], "type": "function", "function": function}

    async def answer(self, world: World, event: str, asked: tuple[Json, Json]) -> Told:
        """Send the result."""
        given, call = asked
        more = [
            {"id": str(uuid.uuid4()), "role": "assistant", "toolCalls": [call]},
            {"id": str(uuid.uuid4()), "role": "tool", "toolCallId": call["id"], "content": "wet"},
        ]
        again = {**given, "runId": str(uuid.uuid4()), "messages": [*given["messages"], *more]}
        events = await self._run(world, again)
        said = "".join(e["delta"] for e in events if e["type"] == "TEXT_MESSAGE_CONTENT")
        return Told(events[-1]["type"], said, [], world.heard(self.agent, f"Paint {event}."))

    async def _run(self, world: World, given: Json) -> list[Json]:
        async with world.http as http:
            headers = {"accept": "text/event-stream"}
            answer = await http.post(path(self.agent), json=given, headers=headers)
        assert answer.status_code == 200, answer.text
        found = (line.removeprefix("data: ") for line in answer.text.splitlines())
        return [json.loads(line) for line in found if line.startswith("{")]

    def expected(self, event: str) -> Told:
        """Return the model's answer to the result."""
        heard = [f"user: Paint {event}.", f"assistant: paint({event})", "tool: wet"]
        return Told("RUN_FINISHED", "So be it.", [], heard)


ROWS: Final[dict[str, Asker]] = {
    "langgraph": Approval("test_langgraph"),
    "pydantic-ai": Approval("test_pydantic_ai"),
    "pydantic-ai, client's tool": ClientTool("test_pydantic_ai"),
    "openai-agents": Approval("test_openai_agents"),
    "openai-agents, client's tool": ClientTool("test_openai_agents"),
    "adk": Approval("test_google_adk"),
    "adk, client's tool": ClientTool("test_google_adk"),
    "model endpoint, client's tool": ClientTool("test_openai"),
    "executor": AskingExecutor("translator"),
    "ag-ui": AskingBackend("backend"),
    "a2a": AskingOutside("outside"),
}


async def _killed(stack: Stack) -> None:
    pids = stack.pids("worker")
    for index in range(len(pids)):
        stack.kill("worker", index)
    for index, pid in enumerate(pids):
        await asyncio.to_thread(stack.until_restarted, "worker", index, pid)


async def _reloaded(stack: Stack) -> None:
    shown = len(stack.log())
    save(stack)
    await soon(lambda: "| reloaded " in stack.log()[shown:], "the agents are loaded again", 120)


async def _other_worker(stack: Stack) -> None:
    first, second = stack.pids("worker")
    freeze(first)
    stack.kill("worker", 1, signal.SIGCONT)
    assert second != first


async def _restarted(stack: Stack, ends: signal.Signals = signal.SIGTERM) -> None:
    pids = stack.pids()
    await asyncio.to_thread(stack.stop, ends)
    await asyncio.to_thread(until, lambda: not living(pids), "its processes have ended")
    await asyncio.to_thread(stack.start)


async def _power_lost(stack: Stack) -> None:
    await _restarted(stack, signal.SIGKILL)


async def _a_day(stack: Stack) -> None:
    (stack.folder / "a-day").touch()
    await _reloaded(stack)


EVENTS: Final[dict[str, Callable[[Stack], Awaitable[None]]]] = {
    "kill": _killed,
    "reload": _reloaded,
    "other-worker": _other_worker,
    "restart": _restarted,
    "power-loss": _power_lost,
    "a-day": _a_day,
}
"""What happens, by name. The clocks of the workers stay a day ahead."""


@pytest.fixture(scope="module", params=EVENTS)
def event(request: pytest.FixtureRequest, world: World) -> Iterator[str]:
    """What happens."""
    name: str = request.param
    if name == "other-worker":
        world.stack.kill("worker", 1, signal.SIGSTOP)
    yield name
    if name == "other-worker":
        world.stack.kill("worker", 0, signal.SIGCONT)


@module_fixture
async def answered(world: World, event: str) -> dict[str, Told | BaseException]:
    """Let all ask, the event happen, and answer all."""
    asked = await asyncio.gather(*(row.ask(world, event) for row in ROWS.values()))
    await EVENTS[event](world.stack)
    told = await asyncio.gather(
        *(row.answer(world, event, one) for row, one in zip(ROWS.values(), asked, strict=True)),
        return_exceptions=True,
    )
    return dict(zip(ROWS, told, strict=True))


@pytest.mark.parametrize("row", ROWS)
async def test_an_answer_is_the_answer(
    answered: dict[str, Told | BaseException], event: str, row: str
) -> None:
    told = answered[row]
    if isinstance(told, BaseException):
        raise told
    assert told == ROWS[row].expected(event)


DECISIONS: Final = ("langgraph", "pydantic-ai", "openai-agents", "adk", "ag-ui")
"""The rows that ask for a decision. The others' questions are part of a conversation."""


async def test_a_word_that_was_sent_before_the_question_decides_nothing(world: World) -> None:
    rows = [row for name in DECISIONS if isinstance(row := ROWS[name], InWords)]
    assert len(rows) == len(DECISIONS)
    sent, release = asyncio.Semaphore(0), asyncio.Event()
    for pid in world.stack.pids("worker"):
        freeze(pid)
    asking = [
        asyncio.create_task(row.ask_after_a_word(world, "early", sent, release)) for row in rows
    ]
    for _ in rows:
        await sent.acquire()
    for index in range(2):
        world.stack.kill("worker", index, signal.SIGCONT)
    release.set()
    asked = await asyncio.gather(*asking)
    effects = [row.heard(world, "early")[0] for row in rows]
    assert effects == [[]] * len(rows)
    told = await asyncio.gather(
        *(row.answer(world, "early", task) for row, task in zip(rows, asked, strict=True))
    )
    for name, row, one in zip(DECISIONS, rows, told, strict=True):
        expected = row.expected("early")
        assert (one.state, one.effects) == (row.state_after, expected.effects), name
        assert one.text == f"{expected.text}{row.told_after}", name


EXAMPLE_ROWS: Final = (
    Example("booking", "Book {}.", "booked {}", {"type": "accept"}),
    Example("weather", "Measure {}.", "measured Oakland {}"),
    Example("transfers", "Transfer {}.", "transferred {}"),
)


@pytest.mark.soak
@pytest.mark.timeout(sized(600, 1800))
async def test_the_frameworks_examples_are_answered_once_over_kills(world: World) -> None:
    """All workers are killed while agents begin to ask, and between question and answer."""
    assert {row.agent for row in EXAMPLE_ROWS} == set(EXAMPLES)
    expected = list[Told]()
    told = list[Told]()
    for number in range(sized(1, 20)):
        name = f"round-{number}"
        asking = [asyncio.create_task(row.ask(world, name)) for row in EXAMPLE_ROWS]
        await asyncio.sleep(sized(0.2, number * 0.05))
        await _killed(world.stack)
        asked = await asyncio.gather(*asking)
        await _killed(world.stack)
        answering = (
            row.answer(world, name, task) for row, task in zip(EXAMPLE_ROWS, asked, strict=True)
        )
        told += await asyncio.gather(*answering)
        expected += [row.expected(name) for row in EXAMPLE_ROWS]
    assert told == expected
