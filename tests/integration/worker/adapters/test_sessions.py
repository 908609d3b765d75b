"""Sessions of frameworks in the fleet's memory, as agents use them that call the framework."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

import pytest

from headrace import Agent
from headrace.model.task import COMPLETED
from tests.integration.worker.adapters.behaviour import lines
from tests.integration.worker.adapters.gemini_wire import gemini_model
from tests.integration.worker.adapters.session_agents import notes
from tests.integration.worker.adapters.wire import (
    Model,
    ModelMessage,
    ModelOutput,
    Script,
    calls,
    chat_model,
    replies,
)
from tests.integration.worker.conftest import Spawn, Working
from tests.support.log_reading import answer, folded, state
from tests.support.task_submitter import TaskSubmitter
from tests.support.worker_process import WorkerProcess

pytestmark = pytest.mark.usefixtures("task_state")

EXAMPLES: Final[dict[str, tuple[Callable[..., AbstractAsyncContextManager[Model]], str]]] = {
    "agents_session": (chat_model, "agents"),
    "adk_session": (gemini_model, "google.adk.runners"),
    "pydantic_history": (chat_model, "pydantic_ai.models.openai"),
}
"""The model server of each, and what it imports."""

BOB, BOB_AGAIN, BOB_ANEW = (calls((f"c{n}", "look_up", {"word": "bob"})) for n in range(3))
ASKED = ["assistant: look_up(bob)", "tool: bob is a word"]


@pytest.fixture(params=EXAMPLES)
def name(request: pytest.FixtureRequest) -> str:
    """Name of an example."""
    found: str = request.param
    return found


@pytest.fixture
def serve(name: str) -> Callable[[Script], AbstractAsyncContextManager[Model]]:
    """How to serve the example's model."""
    return EXAMPLES[name][0]


@pytest.fixture
def kill(name: str, spawn: Spawn, tmp_path: Path) -> Callable[[Model], WorkerProcess]:
    """How to start a worker process that serves the example."""

    def start(model: Model) -> WorkerProcess:
        target = "tests.integration.worker.adapters.serving:agents"
        adapter = "tests.integration.worker.adapters.session_agents"
        given = {"adapter": adapter, "model": model.url, "office": tmp_path, "example": name}
        return spawn(target, imports=[adapter, EXAMPLES[name][1]], **given)

    return start


async def test_a_worker_that_takes_over_finds_each_turn_once(  # fixtures
    submitter: TaskSubmitter,
    working: Working,
    name: str,
    serve: Callable[[Script], AbstractAsyncContextManager[Model]],
    kill: Callable[[Model], WorkerProcess],
) -> None:
    script = [
        *(BOB, replies("Known.")),
        *(BOB_AGAIN, replies("I ", hangs=True)),
        *(BOB_ANEW, replies("Known again.")),
        replies("Twice."),
    ]
    async with serve(script) as model:
        with kill(model) as worker:
            first = await folded(await submitter.start("notes", "Bob?", context="shared"))
            second = await submitter.start("notes", "Bob again?", context="shared")
            await model.until_received(4)
            worker.kill()
        async with working(notes(name, model.url)):
            done = await folded(second)
            third = await folded(await submitter.start("notes", "How often?", context="shared"))
    assert (state(first), answer(first)) == ("COMPLETED", "Known.")
    assert (answer(done), answer(third)) == ("Known again.", "Twice.")
    before = ["user: Bob?", *ASKED, "assistant: Known.", "user: Bob again?"]
    assert lines(model.conversations[4]) == before
    assert lines(model.conversations[6]) == [
        *before,
        *ASKED,
        *("assistant: Known again.", "user: How often?"),
    ]


async def test_turns_at_the_same_time_are_all_remembered(
    submitter: TaskSubmitter,
    working: Working,
    name: str,
    serve: Callable[[Script], AbstractAsyncContextManager[Model]],
) -> None:
    def script(received: list[ModelMessage]) -> ModelOutput:
        return replies(f"About {received[-1].text}.")

    async with serve(script) as model, working(notes(name, model.url)):
        tasks = [await submitter.start("notes", word, context="shared") for word in "abc"]
        done = [answer(task) for task in await asyncio.gather(*map(folded, tasks))]
        await folded(await submitter.start("notes", "And?", context="shared"))
    received = lines(model.conversations[3])
    assert done == ["About a.", "About b.", "About c."]
    assert sorted(received[:-1]) == [
        *(f"assistant: About {word}." for word in "abc"),
        *(f"user: {word}" for word in "abc"),
    ]
    assert received[-1] == "user: And?"


async def test_owners_and_tenants_with_one_name_for_a_conversation_are_strangers(
    submitter: TaskSubmitter,
    working: Working,
    name: str,
    serve: Callable[[Script], AbstractAsyncContextManager[Model]],
) -> None:
    async with (
        serve([replies("Noted."), *[replies("Unknown.")] * 2, replies("1234.")]) as model,
        working(notes(name, model.url)),
    ):
        await told(submitter, "It is 1234.", "ada")
        for owner, tenant in (("eve", "default"), ("ada", "other"), ("ada", "default")):
            await told(submitter, "What is it?", owner, tenant)
    _, *strangers, own = map(lines, model.conversations)
    assert strangers == [["user: What is it?"]] * 2
    assert own == ["user: It is 1234.", "assistant: Noted.", "user: What is it?"]


async def told(submitter: TaskSubmitter, text: str, owner: str, tenant: str = "default") -> None:
    """Say something in the conversation "same" of that owner, and wait for the answer."""
    task = await submitter.start("notes", text, context="same", owner=owner, tenant=tenant)
    assert (await folded(task))["status"]["state"] == COMPLETED


def test_each_example_is_an_agent() -> None:
    assert all(isinstance(notes(name, "http://127.0.0.1:1"), Agent) for name in EXAMPLES)
