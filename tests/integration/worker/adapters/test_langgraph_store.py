"""The store of the fleet: items by namespace and filter, for each owner."""

import asyncio
from typing import Any

import pytest
from langgraph.store.base import GetOp, PutOp

from headrace.adapters.langgraph.store import FleetStore
from headrace.jetstream.agent_memory import AgentMemory
from headrace.model.memory import MemoryScope
from headrace.model.task import mint_task_id
from headrace.sdk.errors import Misused
from headrace_worker.memory import AttemptMemory
from tests.support.in_run import in_run
from tests.support.task_submitter import TaskSubmitter


def attempt(submitter: TaskSubmitter, owner: str = "ann") -> AttemptMemory:
    scope = MemoryScope("default", "any", owner, "c", mint_task_id(0))
    return AttemptMemory(
        AgentMemory(submitter.bus), scope, "w", lambda: None, is_first=True, owner_seconds=None
    )


async def test_an_item_is_found_as_it_was_put_and_keeps_when_it_was_made(
    submitter: TaskSubmitter,
) -> None:
    store = FleetStore()
    with in_run(attempt(submitter)):
        assert await store.aget(("a", "b"), "k") is None
        await store.aput(("a", "b"), "k", {"n": 1, "text": "ä"})
        first = await store.aget(("a", "b"), "k")
        await store.aput(("a", "b"), "k", {"n": 2})
        second = await store.aget(("a", "b"), "k")
        assert first is not None
        assert second is not None
        assert (first.value, first.namespace, first.key) == ({"n": 1, "text": "ä"}, ("a", "b"), "k")
        assert (second.value, second.created_at) == ({"n": 2}, first.created_at)
        assert second.updated_at > first.updated_at
        await store.adelete(("a", "b"), "k")
        assert await store.aget(("a", "b"), "k") is None


async def test_names_may_be_long_and_of_any_characters(submitter: TaskSubmitter) -> None:
    store, space = FleetStore(), ("пользователи-этого-отдела", "a/b%2F", "_")
    with in_run(attempt(submitter)):
        for key in ("любимый-напиток-вечером", "a//b", "%", "_"):
            await store.aput(space, key, {"is": key})
            found = await store.aget(space, key)
            assert found is not None
            assert (found.namespace, found.key, found.value) == (space, key, {"is": key})
        assert await store.alist_namespaces() == [space]
        assert len(await store.asearch(space[:2])) == 4


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, ["c", "b", "a"]),
        ({"kind": "x"}, ["c", "a"]),
        ({"n": {"$gt": 1}}, ["c", "b"]),
        ({"n": {"$gte": 1, "$lt": 3}}, ["b", "a"]),
        ({"n": {"$ne": 2}, "kind": {"$eq": "x"}}, ["c", "a"]),
        ({"n": {"$lte": 1}}, ["a"]),
        ({"other": {"$gt": 1}}, []),
        ({"n": {"of": 1}}, []),
    ],
)
async def test_items_are_searched_by_namespace_and_filter(
    submitter: TaskSubmitter, wanted: dict[str, Any], found: list[str]
) -> None:
    store = FleetStore()
    with in_run(attempt(submitter)):
        for number, key in enumerate("abc", 1):
            value = {"n": number, "kind": "y" if key == "b" else "x"}
            await store.aput(("docs", *key), key, value)
        await store.aput(("docsy",), "no", {"n": 1})
        items = await store.asearch(("docs",), filter=wanted)
        page = await store.asearch(("docs",), filter=wanted, limit=1, offset=1)
    assert [item.key for item in items] == found
    assert [item.key for item in page] == found[1:2]


async def test_what_it_cannot_do_is_refused_with_the_remedy(submitter: TaskSubmitter) -> None:
    store = FleetStore()
    with in_run(attempt(submitter)):
        await store.aput(("a",), "k", {"n": 1})
        with pytest.raises(Misused, match="no vector index: search without a query"):
            await store.asearch(("a",), query="what?")
        with pytest.raises(ValueError, match=r"filter operator '\$in' is unknown; use one of \$eq"):
            await store.asearch(("a",), filter={"n": {"$in": [1]}})
        with pytest.raises(NotImplementedError, match="TTL"):
            await store.aput(("a",), "k", {"n": 1}, ttl=1)
        with pytest.raises(Misused, match="FleetStore's blocking methods would block the worker"):
            store.get(("a",), "k")


async def test_namespaces_are_listed(submitter: TaskSubmitter) -> None:
    store = FleetStore()
    with in_run(attempt(submitter)):
        for namespace in (("a", "x"), ("a", "y", "x"), ("b", "x"), ("a/b",)):
            await store.aput(namespace, "k/ä//", {"n": 1})
        every = await store.alist_namespaces()
        assert every == [("a", "x"), ("a", "y", "x"), ("a/b",), ("b", "x")]
        assert await store.alist_namespaces(prefix=("a",)) == every[:2]
        assert await store.alist_namespaces(suffix=("x",), limit=2, offset=1) == [
            every[1],
            every[3],
        ]
        assert await store.alist_namespaces(prefix=("*", "y")) == [every[1]]
        assert await store.alist_namespaces(max_depth=1) == [("a",), ("a/b",), ("b",)]
        assert await store.aget(("a/b",), "k/ä//") is not None


async def test_owners_do_not_see_each_others_items(submitter: TaskSubmitter) -> None:
    store = FleetStore()
    with in_run(attempt(submitter)):
        await store.aput(("a",), "k", {"n": 1})
    with in_run(attempt(submitter, "bob")):
        assert await store.aget(("a",), "k") is None
        assert await store.asearch(()) == []
    with in_run(attempt(submitter)):
        item = await asyncio.to_thread(store.get, ("a",), "k")
    assert item is not None
    assert item.value == {"n": 1}


async def test_operations_are_done_in_their_order(submitter: TaskSubmitter) -> None:
    ops: list[Any] = [PutOp(("a",), "k", {"n": 1}), GetOp(("a",), "k"), PutOp(("a",), "k", None)]
    with in_run(attempt(submitter)):
        done = await FleetStore().abatch([*ops, ops[1]])
    assert [getattr(one, "value", None) for one in done] == [None, {"n": 1}, None, None]
