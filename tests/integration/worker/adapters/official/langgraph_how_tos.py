"""Graphs in the style of LangGraph's pages on people in the loop."""

from typing import Any, Literal, TypedDict

from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from headrace import Agent
from headrace.adapters import langgraph_agent


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


def booking(model_url: str, booked: list[str]) -> Agent:
    """Return an agent of the model at `model_url` that books if it may, and adds to `booked`."""

    @tool
    def book(hotel: str) -> str:
        """Book a hotel."""
        said = interrupt({"question": "Book it?", "action": "book", "args": {"hotel": hotel}})
        if said["type"] == "response":
            return str(said["args"])
        if said["type"] == "edit":
            hotel = said["args"]["hotel"]
        booked.append(hotel)
        return f"booked {hotel}"

    given: Any = {"model": "small", "base_url": model_url, "api_key": "k"}
    graph = create_agent(ChatOpenAI(**given), [book], checkpointer=InMemorySaver())
    return langgraph_agent(graph, name="booking")
