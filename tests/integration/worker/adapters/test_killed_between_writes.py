"""A worker dies between what a framework has stored and what the task's log says of it.

The next attempt finds a memory that is ahead of the log. It asks what has not been asked, answers
what has been answered, and does neither twice.
"""

from collections.abc import Awaitable, Callable
from itertools import count
from operator import add
from pathlib import Path
from typing import Annotated, Any, Final, TypedDict

import pytest

from headrace import Agent
from headrace.model.events import Json
from headrace.testing import TestFleet
from tests.integration.worker.adapters import test_google_adk as adk_suite
from tests.integration.worker.adapters import test_langgraph as langgraph_suite
from tests.integration.worker.adapters import test_openai_agents as openai_agents_suite
from tests.integration.worker.adapters import test_pydantic_ai as pydantic_ai_suite
from tests.integration.worker.adapters.approval_examples import EXAMPLES, Ledger
from tests.integration.worker.adapters.office import Office
from tests.integration.worker.adapters.test_answers_survive import (
    EXAMPLE_ROWS,
    FRAMEWORKS,
    model_says,
)
from tests.support.killing_fleet import StoreKiller
from tests.support.resuming_sizes import sized
from tests.support.soak import marks

SUITES: Final = {
    "test_langgraph": langgraph_suite,
    "test_pydantic_ai": pydantic_ai_suite,
    "test_openai_agents": openai_agents_suite,
    "test_google_adk": adk_suite,
}
EXAMPLE_ANSWERS: Final[dict[str, Json | str]] = {"booking": {"type": "accept"}}
NEAREST: Final = sized(1, 1_000)
"""How many of the messages before a run's end a worker is killed after, one at a time."""

SHOWN_BY = "integration/worker/adapters/test_killed_between_writes.py::test_an_agent_asks_and_acts"


class Talk(TypedDict, total=False):
    """The state of a graph that asks."""

    messages: Annotated[list[Any], add]
    said: Annotated[list[str], add]
    answer: str


type Node = Callable[[Talk], Talk | Awaitable[Talk]]


def one_after_the_other(_: Talk) -> Talk:
    """Ask two questions in one node."""
    from langgraph.types import interrupt

    return {"said": [f"{each}: {interrupt(each)}" for each in ("first", "second")]}


async def in_a_subgraph(_: Talk) -> Talk:
    """Ask two questions in one node of a graph that this node calls."""
    from langgraph.graph import START, StateGraph

    inner: Any = StateGraph(Talk)
    inner.add_node("both", one_after_the_other)
    inner.add_edge(START, "both")
    done = await inner.compile().ainvoke({"said": []})
    return {"said": done["said"]}


def asks(what: str) -> Callable[[Talk], Talk]:
    """Return a node that asks `what`."""
    from langgraph.types import interrupt

    return lambda _: {"said": [f"{what}: {interrupt(what)}"]}


def asking_graph(**nodes: Node) -> Agent:
    """Return an agent that begins, runs `nodes` in parallel, and tells what they have said."""
    from langgraph.graph import START, StateGraph

    from headrace.adapters import langgraph_agent

    graph: Any = StateGraph(Talk)
    graph.add_node("begin", lambda _: {"said": ["begun"]})
    graph.add_node("finish", lambda state: {"answer": ", ".join(sorted(state["said"]))})
    graph.add_edge(START, "begin")
    for name, node in nodes.items():
        graph.add_node(name, node)
        graph.add_edge("begin", name)
    graph.add_edge([*nodes], "finish")
    return langgraph_agent(graph.compile(), name="asker", output="answer")


GRAPHS: Final[dict[str, tuple[dict[str, Node], list[set[str]]]]] = {
    "in one node": ({"both": one_after_the_other}, [{"first"}, {"second"}]),
    "in a subgraph": ({"both": in_a_subgraph}, [{"first"}, {"second"}]),
    "in parallel": ({"one": asks("first"), "two": asks("second")}, [{"first", "second"}]),
}
"""Nodes that ask, and what the user is asked by one run after the other."""


@pytest.mark.parametrize("where", GRAPHS)
async def test_a_graph_asks_each_question_once_whatever_memory_was_written_last(where: str) -> None:
    nodes, questions = GRAPHS[where]
    async with TestFleet([asking_graph(**nodes)]) as fleet:
        killer = StoreKiller(fleet, lambda subject: ".k." in subject)
        for after in count(1):
            task = await fleet.start("asker", "Ask me.")
            told, is_killed = await killer.result(task.result(), after)
            for question in questions:
                assert told.state == "input-required", after
                assert {*told.text.splitlines()} == question, after
                told, was_killed = await killer.result(task.reply("yes"), after)
                is_killed |= was_killed
            assert told.state == "completed", after
            assert told.text == "begun, first: yes, second: yes", after
            if not is_killed:
                break
    assert after > 5  # a run of these graphs writes at least so often


async def test_an_answer_by_id_is_no_other_interrupts_whatever_memory_was_written_last() -> None:
    names = ["first", "second", "third"]
    agent = asking_graph(**{f"ask_{name}": asks(name) for name in names})
    async with TestFleet([agent]) as fleet:
        killer = StoreKiller(fleet, lambda subject: ".k." in subject)
        for after in count(1):
            task = await fleet.start("asker", "Ask me.")
            told, is_killed = await killer.result(task.result(), after)
            for place, name in enumerate(names):
                asked = {each["message"]: each["id"] for each in told.interrupts}
                assert asked.keys() == {*names[place:]}, after
                answer = [{"data": {asked[name]: place}}]
                told, was_killed = await killer.result(task.reply(answer), after)
                is_killed |= was_killed
            assert told.text == "begun, first: 0, second: 1, third: 2", after
            if not is_killed:
                break
    assert after > 5  # a run of this graph writes at least so often


class Trial:
    """An agent that asks before it does something, and what it has done."""

    def __init__(self, name: str, folder: Path) -> None:
        """Use the agent of an adapter's suite, or an example of its framework, in `folder`."""
        self.is_suite = name in SUITES
        self.model_of = name if self.is_suite else EXAMPLES[name][0]
        self._name, self._folder, self.agent = name, folder, "agent" if self.is_suite else name
        self._row = next((row for row in EXAMPLE_ROWS if row.agent == name), None)

    def build(self, url: str) -> Agent:
        """Return the agent, whose model is at `url`."""
        if self.is_suite:
            made: Agent = SUITES[self._name].build(url, Office(self._folder))
            return made
        return EXAMPLES[self._name][1](url, Ledger(self._folder))

    def prompt(self, name: str) -> str:
        """Return what begins the task `name`."""
        return f"Refund {name}." if self._row is None else self._row.prompt.format(name)

    @property
    def answer(self) -> Any:  # noqa: ANN401  # a message
        """What its question is answered."""
        answer = EXAMPLE_ANSWERS.get(self._name, "yes")
        return answer if isinstance(answer, str) else [{"data": answer}]

    def effects(self, name: str) -> int:
        """Return how often the task `name` has done it."""
        if self._row is None:
            return Office(self._folder).done("refunded").count(f"{name}:5")
        return Ledger(self._folder).lines().count(self._row.done(name)[0][0])


@pytest.mark.parametrize(
    "name", [*SUITES, *(pytest.param(name, marks=marks(shown_by=SHOWN_BY)) for name in EXAMPLES)]
)
@pytest.mark.timeout(sized(120, 600))
async def test_an_agent_asks_and_acts_whatever_its_worker_had_stored_last(
    name: str, tmp_path: Path
) -> None:
    trial = Trial(name, tmp_path)
    async with (
        FRAMEWORKS[trial.model_of](model_says) as model,
        TestFleet([trial.build(model.url)]) as fleet,
    ):
        killer = StoreKiller(fleet)

        async def talk(about: str, before_question: int, before_end: int) -> tuple[int, int]:
            """Return how many messages both runs have stored; 0 before an end: no kill."""
            task = await fleet.start(trial.agent, trial.prompt(about))
            told, _ = await killer.result(task.result(), before_question)
            asking = killer.count
            assert (told.state, trial.effects(about)) == ("input-required", 0), about
            told, was_killed = await killer.result(task.reply(trial.answer), before_end)
            assert (told.state, told.text) == ("completed", "So be it."), about
            # The worker may have died after the effect, and before its record.
            assert 1 <= trial.effects(about) <= 1 + was_killed, about
            return asking, killer.count

        asking, acting = await talk("undisturbed", 0, 0)
        for back in range(1, min(NEAREST, max(asking, acting) - 1) + 1):
            await talk(f"before-{back}", max(asking - back, 1), max(acting - back, 1))
