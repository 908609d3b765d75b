"""What LangGraph's pages on people in the loop show, served unchanged."""

from typing import Any, Literal, TypedDict

import httpx
import pytest
from a2a.types import TaskState
from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from headrace import Agent
from headrace_worker.adapters import langgraph_agent
from tests.integration.worker.adapters.official.users import (
    AgUiUser,
    RecordedRun,
    a2a_user,
    state,
    words,
)
from tests.integration.worker.adapters.wire import calls, chat_model, says
from tests.integration.worker.conftest import Working

ASKS, DONE = TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_COMPLETED


class Draft(TypedDict, total=False):
    """What a person looks at."""

    summary: str
    status: str


def approving() -> Agent:
    """Return a graph that goes one way or the other, as a person decides."""

    def approve(_: Draft) -> Command[Literal["proceed", "cancel"]]:
        said = interrupt({"question": "Approve this?", "details": "$500"})
        return Command(goto="proceed" if said in {True, "yes"} else "cancel")

    def proceed(_: Draft) -> Draft:
        return {"status": "approved"}

    def cancel(_: Draft) -> Draft:
        return {"status": "rejected"}

    graph: Any = StateGraph(Draft)
    for node in (approve, proceed, cancel):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "approve")
    graph.add_edge("proceed", END)
    graph.add_edge("cancel", END)
    made = graph.compile(checkpointer=InMemorySaver())
    return langgraph_agent(made, name="approving", input_of=lambda _: {}, output="status")


def editing() -> Agent:
    """Return a graph that has a person edit a part of its state."""

    def draft(_: Draft) -> Draft:
        return {"summary": "The cat sat."}

    def review(held: Draft) -> Draft:
        told = {"task": "Review it.", "summary": held["summary"]}
        return {"summary": interrupt(told)["summary"]}

    graph: Any = StateGraph(Draft)
    graph.add_node("draft", draft)
    graph.add_node("review", review)
    graph.add_edge(START, "draft")
    graph.add_edge("draft", "review")
    graph.add_edge("review", END)
    made = graph.compile(checkpointer=InMemorySaver())
    options: Any = {"output": "summary", "state_keys": ["summary"]}
    return langgraph_agent(made, name="editing", input_of=lambda _: {}, **options)


def validating() -> Agent:
    """Return a graph that asks until the answer is valid."""

    def age(_: MessagesState) -> Any:  # noqa: ANN401  # an update
        question = "How old are you?"
        while True:
            said = interrupt(question)
            if str(said).isdecimal():
                return {"messages": [AIMessage(f"You are {said}.")]}
            question = f"{said!r} is no age. How old are you?"

    graph: Any = StateGraph(MessagesState)
    graph.add_node("age", age)
    graph.add_edge(START, "age")
    graph.add_edge("age", END)
    return langgraph_agent(graph.compile(checkpointer=InMemorySaver()), name="validating")


def waiting() -> Agent:
    """Return a graph that waits for what a person says, between two other steps."""

    def before(_: MessagesState) -> Any:  # noqa: ANN401  # an update
        return {"messages": [AIMessage("First. ")]}

    def ask(_: MessagesState) -> Any:  # noqa: ANN401  # an update
        return {"messages": [AIMessage(f"You said {interrupt('Your feedback?')}. ")]}

    def after(_: MessagesState) -> Any:  # noqa: ANN401  # an update
        return {"messages": [AIMessage("Last.")]}

    graph: Any = StateGraph(MessagesState)
    for node in (before, ask, after):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "before")
    graph.add_edge("before", "ask")
    graph.add_edge("ask", "after")
    graph.add_edge("after", END)
    return langgraph_agent(graph.compile(checkpointer=InMemorySaver()), name="waiting")


@pytest.mark.parametrize(("said", "told"), [("yes", "approved"), ("no", "rejected")])
async def test_approve_or_reject(
    http: httpx.AsyncClient, working: Working, said: str, told: str
) -> None:
    async with working(approving()), a2a_user(http, "approving") as user:
        asked = await user.says("Send it.")
        done = await user.says(said)
    assert (state(asked), words(asked)) == (ASKS, ["Approve this?"])
    assert (state(done), words(done)[-1]) == (DONE, told)


async def test_approve_or_reject_by_ag_ui(
    http: httpx.AsyncClient, working: Working, runs: list[RecordedRun]
) -> None:
    user = AgUiUser(http, "approving", runs)
    async with working(approving()):
        [asked] = (await user.says("Send it."))["interrupts"]
        done = await user.resumes({asked["id"]: True})
    assert asked["metadata"]["value"]["details"] == "$500"
    assert (done["type"], user.last["content"]) == ("success", "approved")


async def test_edit_the_state(
    http: httpx.AsyncClient, working: Working, runs: list[RecordedRun]
) -> None:
    user = AgUiUser(http, "editing", runs)
    async with working(editing()):
        [asked] = (await user.says("Sum it up."))["interrupts"]
        assert user.state == {"summary": "The cat sat."}
        await user.resumes({asked["id"]: {"summary": "The cat sat down."}})
    assert user.state == {"summary": "The cat sat down."}
    assert user.last["content"] == "The cat sat down."


async def test_validate_what_a_person_says(http: httpx.AsyncClient, working: Working) -> None:
    async with working(validating()), a2a_user(http, "validating") as user:
        asked = await user.says("Hello.")
        again = await user.says("old")
        once_more = await user.says("very old")
        done = await user.says("42")
    assert [state(told) for told in (asked, again, once_more, done)] == [ASKS, ASKS, ASKS, DONE]
    assert words(asked)[-1] == "How old are you?"
    assert words(again)[-1] == "'old' is no age. How old are you?"
    assert words(once_more)[-1] == "'very old' is no age. How old are you?"
    assert words(done)[-1] == "You are 42."


async def test_wait_for_what_a_person_says(http: httpx.AsyncClient, working: Working) -> None:
    async with working(waiting()), a2a_user(http, "waiting") as user:
        asked = await user.says("Begin.")
        done = await user.says("fine")
    assert words(asked) == ["First. ", "Your feedback?"]
    assert (state(done), words(done)[-2:]) == (DONE, ["You said fine. ", "Last."])


@pytest.mark.parametrize(
    ("answer", "booked", "told"),
    [
        ({"type": "accept"}, ["Ritz"], "booked Ritz"),
        ({"type": "edit", "args": {"hotel": "Savoy"}}, ["Savoy"], "booked Savoy"),
        ({"type": "response", "args": "Not that one."}, [], "Not that one."),
    ],
    ids=["accepted", "edited", "answered"],
)
async def test_review_a_tool_call(  # noqa: PLR0917  # fixtures
    http: httpx.AsyncClient,
    working: Working,
    runs: list[RecordedRun],
    answer: dict[str, Any],
    booked: list[str],
    told: str,
) -> None:
    booking: list[str] = []

    @tool
    def book(hotel: str) -> str:
        """Book a hotel."""
        said = interrupt({"question": "Book it?", "action": "book", "args": {"hotel": hotel}})
        if said["type"] == "response":
            return str(said["args"])
        if said["type"] == "edit":
            hotel = said["args"]["hotel"]
        booking.append(hotel)
        return f"booked {hotel}"

    script = [calls(("b1", "book", {"hotel": "Ritz"})), says("There you are.")]
    async with chat_model(script) as model:
        given: Any = {"model": "small", "base_url": model.url, "api_key": "k"}
        graph = create_agent(ChatOpenAI(**given), [book], checkpointer=InMemorySaver())
        user = AgUiUser(http, "booking", runs)
        async with working(langgraph_agent(graph, name="booking")):
            [asked] = (await user.says("Book the Ritz."))["interrupts"]
            await user.resumes({asked["id"]: answer})
    assert asked["metadata"]["value"]["args"] == {"hotel": "Ritz"}
    assert user.last["content"] == "There you are."
    assert (booking, model.heard[1][-1].text) == (booked, told)
