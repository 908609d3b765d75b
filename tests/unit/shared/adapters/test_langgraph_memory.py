"""What operators are told of a graph whose questions can't be answered everywhere."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiosqlite
import pytest


def asks(_: Any) -> Any:  # noqa: ANN401  # LangGraph's types
    from langgraph.types import interrupt

    return interrupt("Sure?")


def answers(_: Any) -> Any:  # noqa: ANN401
    return {}


def graph(node: Any, **compiled: Any) -> Any:  # noqa: ANN401
    from langgraph.graph import START, MessagesState, StateGraph

    built = StateGraph(MessagesState)
    built.add_node("node", node)
    built.add_edge(START, "node")
    return built.compile(**compiled)


def caution(compiled: Any) -> str:  # noqa: ANN401
    """Return the caution on the card of the graph's agent; empty if it has none."""
    from headrace.adapters import langgraph_agent

    served = langgraph_agent(compiled, name="desk", saver="graph")
    return "".join(map(str, served.card.cautions))


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


@pytest.mark.parametrize("has_saver", [False, True])
def test_a_graphs_state_is_in_the_fleet_unless_it_has_a_place(*, has_saver: bool) -> None:
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    from headrace.adapters import FleetSaver, FleetStore, langgraph_agent
    from headrace.adapters.langgraph.memory import in_fleet

    serde = JsonPlusSerializer()
    before = graph(asks, checkpointer=InMemorySaver(serde=serde) if has_saver else None)
    made, [note] = in_fleet(before)
    assert (type(made.checkpointer), type(made.store)) == (FleetSaver, FleetStore)
    assert not isinstance(before.checkpointer, FleetSaver)
    saver: Any = made.checkpointer
    assert (saver.serde is serde) == has_saver
    instead = " instead of its InMemorySaver" if has_saver else ""
    assert note.startswith(f"the graph's state is in the fleet{instead}; ")
    served = langgraph_agent(before, name="desk")
    assert (served.card.cautions, served.notes) == ([], (note,))


def test_a_graph_that_has_a_place_keeps_it() -> None:
    from langgraph.store.memory import InMemoryStore

    from headrace.adapters.langgraph.memory import in_fleet
    from tests.integration.worker.adapters.file_saver import FileSaver

    savers: list[Any] = [FileSaver.__new__(FileSaver), False]
    assert len(savers) == 2
    for saver in savers:
        before = graph(asks, checkpointer=saver, store=InMemoryStore())
        assert in_fleet(before) == (before, [])
