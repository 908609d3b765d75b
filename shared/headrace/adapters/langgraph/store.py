"""A LangGraph store in the fleet: what graphs remember of a user, across conversations."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from operator import eq, ge, gt, le, lt, ne
from typing import Any
from urllib.parse import unquote

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from headrace.adapters.langgraph.run_memory import blocking, run_memory
from headrace.model import json_text
from headrace.model.memory import prefix_of
from headrace.sdk.errors import Misused
from headrace.sdk.memory import Memory

_ROOT = "langgraph-store"

_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": eq,
    "$ne": ne,
    "$gt": gt,
    "$gte": ge,
    "$lt": lt,
    "$lte": le,
}

type Namespace = tuple[str, ...]


class FleetStore(BaseStore):
    """Keeps a graph's items in the memory of the task's owner.

    ``graph = builder.compile(store=FleetStore())``

    Each owner has items of their own, which last until they are deleted, or for
    ``HEADRACE_OWNER_MEMORY_SECONDS`` after their last change. Items are found by namespace and
    filter: there is no vector index. Methods raise `Misused` outside of a run.
    """

    __slots__ = ()

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do some operations, in their order, and return their results.

        Raises:
            Misused: A search has a `query`.
        """
        memory = run_memory(self)
        owners = Memory(memory, memory.scope).of_owner
        return [await _do(owners, op) for op in ops]

    batch = blocking(abatch)


async def _do(memory: Memory, op: Op) -> Result:
    match op:
        case GetOp():
            held = await memory.load(_key(op.namespace, op.key))
            return None if held is None else Item(**_fields(op.namespace, op.key, held))
        case PutOp():
            await _put(memory, op)
            return None
        case SearchOp():
            return await _search(memory, op)
        case ListNamespacesOp():
            return await _namespaces(memory, op)


async def _put(memory: Memory, op: PutOp) -> None:
    key = _key(op.namespace, op.key)
    if op.value is None:
        await memory.delete(key)
        return
    now, value = datetime.now(UTC).isoformat(), dict(op.value)

    def replace(held: dict[str, Any] | None) -> dict[str, Any]:
        created = now if held is None else held["created_at"]
        return {"value": value, "created_at": created, "updated_at": now}

    await memory.update(key, replace)


async def _search(memory: Memory, op: SearchOp) -> list[SearchItem]:
    if op.query is not None:
        raise Misused(
            "FleetStore has no vector index: search without a query, by namespace and filter, or"
            " compile the graph with a store that has one"
        )
    stored = await memory.read(_prefix(op.namespace_prefix))
    items = [
        SearchItem(**_fields(*_names(key), json_text.decode(one.data)))
        for key, one in stored.items()
    ]
    found = [item for item in items if _matches(item.value, op.filter or {})]
    found.sort(key=lambda item: item.updated_at, reverse=True)
    return found[op.offset : op.offset + op.limit]


async def _namespaces(memory: Memory, op: ListNamespacesOp) -> list[Namespace]:
    keys = await memory.keys(_prefix(()))
    every = {_names(key)[0] for key in keys}
    found = {
        one[: op.max_depth]
        for one in every
        if all(_fits(one, condition) for condition in op.match_conditions or ())
    }
    return sorted(found)[op.offset : op.offset + op.limit]


def _fits(namespace: Namespace, condition: MatchCondition) -> bool:
    path = condition.path
    if len(path) > len(namespace):
        return False
    is_prefix = condition.match_type == "prefix"
    part = namespace[: len(path)] if is_prefix else namespace[len(namespace) - len(path) :]
    return all(wanted in {"*", label} for wanted, label in zip(path, part, strict=True))


def _matches(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(_is_as(value.get(name), condition) for name, condition in wanted.items())


def _is_as(value: Any, condition: Any) -> bool:  # noqa: ANN401  # any JSON
    """Return whether a field's value is as a filter wants it.

    Raises:
        ValueError: The filter has an unknown operator.
    """
    if not isinstance(condition, dict) or not any(str(name).startswith("$") for name in condition):
        return bool(value == condition)
    if unknown := condition.keys() - _OPERATORS.keys():
        known = ", ".join(_OPERATORS)
        raise ValueError(f"filter operator {min(unknown)!r} is unknown; use one of {known}")
    try:
        return all(_OPERATORS[name](value, operand) for name, operand in condition.items())
    except TypeError:
        return False  # a missing field, or one of another type


def _prefix(namespace: Namespace) -> str:
    return prefix_of(_ROOT, *namespace)


def _key(namespace: Namespace, key: str) -> str:
    """Return the memory's key of an item. An empty segment divides its namespace from its key."""
    return f"{_prefix(namespace)}/{key}"


def _names(key: str) -> tuple[Namespace, str]:
    """Return the namespace and the key of an item, which `_key` has joined."""
    labels, _, name = key.removeprefix(f"{_ROOT}/").partition("//")
    return tuple(unquote(label) for label in labels.split("/")), name


def _fields(namespace: Namespace, key: str, held: Mapping[str, Any]) -> dict[str, Any]:
    return {"namespace": namespace, "key": key, **held}
