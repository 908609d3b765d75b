"""Where a graph keeps its state between a question and the answer, and what is wrong with that."""

import inspect
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel import Pregel
from langgraph.types import interrupt

from headrace.model.agent_card import Caution

_REMEDY = "compile the graph with a checkpointer that all workers share, such as PostgresSaver"

NO_CHECKPOINTER = f"the graph asks its user, but has no checkpointer to resume from; {_REMEDY}"
CHANGED_GRAPH = (
    "the graph's state waits in a node that the graph no longer has; serve the graph that asked"
)

_IN_MEMORY = (":memory:", "")
"""Names of SQLite databases that only their connection has."""

_PARTS = ("func", "afunc", "coroutine", "steps", "_tools_by_name")
"""Attributes with which LangChain's runnables and tools hold others, and functions."""


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
    if not saver and _asks(graph):
        text = "the graph calls interrupt() and has no checkpointer: runs that ask their user fail"
        return Caution(text=text, remedy=_REMEDY)
    return None


def _lives_in_one_process(saver: object) -> bool:
    """Return whether a checkpointer is LangGraph's in memory, or has a SQLite database there."""
    if type(saver) is InMemorySaver:
        return type(saver.storage) is defaultdict  # its variants may write files
    connection = getattr(saver, "conn", None)
    if isinstance(connection, sqlite3.Connection):
        with suppress(sqlite3.Error):  # the connection is another thread's, or closed
            return not any(file for *_, file in connection.execute("PRAGMA database_list"))
    return _names_memory(getattr(connection, "_connector", None))


def _names_memory(connector: object) -> bool:
    """Return whether aiosqlite's function that connects names a database in memory.

    A connection that is not awaited yet has nothing else, and one that is belongs to a thread.
    """
    if not isinstance(connector, FunctionType):
        return False
    name = str(inspect.getclosurevars(connector).nonlocals.get("database", "-"))
    return name in _IN_MEMORY or name.startswith("file::memory:") or "mode=memory" in name


def _asks(graph: Pregel[Any, Any, Any, Any]) -> bool:
    """Return whether code of the graph's nodes, tools or subgraphs refers to `interrupt`."""
    waiting: list[Any] = [graph]
    seen = dict[int, Any]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen[id(each)] = each
        if isinstance(each, FunctionType):
            used = {name: each.__globals__.get(name) for name in _names_in(each.__code__)}
            if "interrupt" in used or interrupt in used.values():
                return True
            waiting += [other for other in used.values() if _is_beside(other, each)]
        waiting += _parts_of(each)
    return False


def _parts_of(value: Any) -> Iterable[Any]:  # noqa: ANN401  # a runnable, or what it consists of
    found: Iterable[Any]
    match value:
        case Pregel():
            found = [node.bound for node in value.nodes.values()]
        case partial():
            found = [value.func, *value.args]
        case MethodType():
            found = [value.__func__]
        case FunctionType():
            found = inspect.getclosurevars(value).nonlocals.values()
        case dict():
            found = value.values()
        case list() | tuple():
            found = value
        case _:
            found = [getattr(value, name, None) for name in _PARTS]
    return found


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the global names and attributes that a function and those within it use."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names_in(inner)


def _is_beside(other: object, function: FunctionType) -> bool:
    return isinstance(other, FunctionType) and other.__module__ == function.__module__
