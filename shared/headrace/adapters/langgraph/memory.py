"""Where a graph keeps its state between a question and the answer, and what is wrong with that."""

import inspect
import sqlite3
from collections import defaultdict
from contextlib import suppress
from types import FunctionType
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel import Pregel

from headrace.adapters.langgraph.saver import FleetSaver
from headrace.adapters.langgraph.store import FleetStore
from headrace.model.agent_card import Caution

_REMEDY = 'use the fleet\'s (saver="fleet"), or one that all workers share, such as PostgresSaver'

NO_CHECKPOINTER = f"the graph asks its user, but has no checkpointer to resume from; {_REMEDY}"
CHANGED_GRAPH = (
    "the graph's state waits in a node that the graph no longer has; serve the graph that asked"
)

_IN_MEMORY = (":memory:", "")
"""Names of SQLite databases that only their connection has."""


def in_fleet(graph: Pregel[Any, Any, Any, Any]) -> tuple[Pregel[Any, Any, Any, Any], list[str]]:
    """Return the graph with its state in the fleet, if it has no place for it, and a note of that.

    An `InMemorySaver` is no such place: it is gone with its process. A graph that was compiled with
    ``checkpointer=False`` stays without.
    """
    changes, notes = dict[str, Any](), list[str]()
    saver = graph.checkpointer
    if saver is None or _is_in_memory(saver):
        serde = saver.serde if isinstance(saver, InMemorySaver) else None
        changes["checkpointer"] = FleetSaver(serde=serde)
        instead = "" if saver is None else f" instead of its {type(saver).__name__}"
        notes.append(
            f'the graph\'s state is in the fleet{instead}; saver="graph" leaves it as it is'
        )
    if graph.store is None:
        changes["store"] = FleetStore()
    return graph.copy(changes) if changes else graph, notes


def missing_state(saver: object) -> str:
    """Return why a question can't be answered whose state `saver` does not have."""
    name = type(saver).__name__
    if _lives_in_one_process(saver):
        return (
            f"the graph's state is lost here: {name} keeps it in one process, and another worker "
            f"asked, or this one has restarted since; {_REMEDY}"
        )
    return (
        f"the checkpointer {name} does not have the graph's state; have all workers share one "
        "database, and keep its threads for as long as tasks wait"
    )


def caution_about(graph: Pregel[Any, Any, Any, Any]) -> Caution | None:
    """Return what operators should know about the memory of a graph; None: it lasts."""
    saver = graph.checkpointer
    if _lives_in_one_process(saver):
        text = (
            f"{type(saver).__name__} keeps the graph's state in one process: a question can't be "
            "answered through another worker, or after a reload or a restart"
        )
        return Caution(text=text, remedy=_REMEDY)
    return None


def _lives_in_one_process(saver: object) -> bool:
    """Return whether a checkpointer is LangGraph's in memory, or has a SQLite database there."""
    if type(saver) is InMemorySaver:
        return _is_in_memory(saver)
    connection = getattr(saver, "conn", None)
    if isinstance(connection, sqlite3.Connection):
        with suppress(sqlite3.Error):  # the connection is another thread's, or closed
            return not any(file for *_, file in connection.execute("PRAGMA database_list"))
    return _names_memory(getattr(connection, "_connector", None))


def _is_in_memory(saver: object) -> bool:
    # Its variants may write files.
    return type(saver) is InMemorySaver and type(saver.storage) is defaultdict


def _names_memory(connector: object) -> bool:
    """Return whether aiosqlite's function that connects names a database in memory.

    A connection that is not awaited yet has nothing else, and one that is belongs to a thread.
    """
    if not isinstance(connector, FunctionType):
        return False
    name = str(inspect.getclosurevars(connector).nonlocals.get("database", "-"))
    return name in _IN_MEMORY or name.startswith("file::memory:") or "mode=memory" in name
