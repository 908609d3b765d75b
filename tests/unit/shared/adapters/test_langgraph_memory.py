"""What operators are told of a graph whose questions can't be answered everywhere."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiosqlite
import pytest


def asks(_: Any) -> Any:  # noqa: ANN401  # LangGraph's types
    from langgraph.types import interrupt

    return interrupt("Sure?")


def asks_through_another(state: Any) -> Any:  # noqa: ANN401
    return asks(state)


async def asks_in_a_closure(state: Any) -> Any:  # noqa: ANN401
    def inner() -> Any:  # noqa: ANN401
        return asks(state)

    return inner()


class Answerer:
    """A node that is a method."""

    def asks(self, state: Any) -> Any:  # noqa: ANN401
        return asks(state)


def answers(_: Any) -> Any:  # noqa: ANN401
    return {}


def asks_with_arguments(_: Any, state: Any) -> Any:  # noqa: ANN401
    return asks(state)


def graph(node: Any, **compiled: Any) -> Any:  # noqa: ANN401
    from langgraph.graph import START, MessagesState, StateGraph

    built = StateGraph(MessagesState)
    built.add_node("node", node)
    built.add_edge(START, "node")
    return built.compile(**compiled)


def caution(compiled: Any) -> str:  # noqa: ANN401
    """Return the caution on the card of the graph's agent; empty if it has none."""
    from headrace.adapters import langgraph_agent

    return "".join(map(str, langgraph_agent(compiled, name="desk").card.cautions))


def middleware() -> Any:  # noqa: ANN401
    from langchain.agents import create_agent
    from langchain.agents.middleware import HumanInTheLoopMiddleware
    from langchain_core.language_models.fake_chat_models import FakeListChatModel

    review: Any = HumanInTheLoopMiddleware({"refund": True})
    return create_agent(FakeListChatModel(responses=[""]), middleware=[review])


def tools() -> Any:  # noqa: ANN401
    from langchain_core.tools import tool
    from langgraph.prebuilt import ToolNode

    @tool
    def refund(order: str) -> str:
        """Refund."""
        return str(asks(order))

    return graph(ToolNode([refund]))


@pytest.mark.parametrize(
    "build",
    [
        partial(graph, asks),
        partial(graph, asks_through_another),
        partial(graph, asks_in_a_closure),
        partial(graph, Answerer().asks),
        partial(graph, partial(asks_with_arguments, 1)),
        lambda: graph(graph(asks)),
        middleware,
        tools,
    ],
    ids=["node", "function", "closure", "method", "partial", "subgraph", "middleware", "tool"],
)
def test_a_graph_that_asks_without_a_checkpointer_is_named(build: Any) -> None:  # noqa: ANN401
    said = caution(build())
    assert said.startswith("the graph calls interrupt() and has no checkpointer")
    assert "compile the graph with a checkpointer that all workers share" in said


def test_a_saver_in_one_process_is_named() -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    said = caution(graph(answers, checkpointer=InMemorySaver()))
    assert said.startswith("InMemorySaver keeps the graph's state in one process")


@contextmanager
def connected(connect: Any, place: str) -> Iterator[Any]:  # noqa: ANN401
    """Yield a connection; one of aiosqlite is not awaited, and has nothing to close."""
    connection = connect(place, uri=place.startswith("file:"), check_same_thread=False)
    yield connection
    if isinstance(connection, sqlite3.Connection):
        connection.close()


def saver_in(connection: Any) -> Any:  # noqa: ANN401
    """Return a saver that has what LangGraph's for SQLite have."""
    from langgraph.checkpoint.base import BaseCheckpointSaver

    class SqliteSaver(BaseCheckpointSaver[int]):
        def __init__(self) -> None:
            super().__init__()
            self.conn = connection

    return SqliteSaver()


@pytest.mark.parametrize("connect", [sqlite3.connect, aiosqlite.connect], ids=["sync", "async"])
@pytest.mark.parametrize("place", [":memory:", "", "file::memory:", "file:m?mode=memory"])
def test_a_sqlite_database_in_memory_is_named(connect: Any, place: str) -> None:  # noqa: ANN401
    with connected(connect, place) as connection:
        said = caution(graph(answers, checkpointer=saver_in(connection)))
    assert said.startswith("SqliteSaver keeps the graph's state in one process")


@pytest.mark.parametrize("connect", [sqlite3.connect, aiosqlite.connect], ids=["sync", "async"])
def test_a_sqlite_database_in_a_file_is_not_named(connect: Any, tmp_path: Path) -> None:  # noqa: ANN401
    with connected(connect, str(tmp_path / "graph.db")) as connection:
        assert caution(graph(answers, checkpointer=saver_in(connection))) == ""


def test_a_saver_of_files_and_a_graph_that_never_asks_are_not_named() -> None:
    from tests.integration.worker.adapters.file_saver import FileSaver

    assert caution(graph(answers)) == ""
    assert caution(graph(asks, checkpointer=FileSaver.__new__(FileSaver))) == ""
