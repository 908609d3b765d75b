"""What runs add to a framework's session: each run's items once, whoever took it over."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from headrace.adapters.conversation.journal import Journal
from headrace.model.memory import MemoryChanged, MemoryScope
from headrace.sdk.context import RunContext
from headrace.sdk.direct_run import DirectRun
from headrace.sdk.errors import RunOver
from headrace.sdk.local_memory import LocalMemory


@pytest.fixture
def ctx() -> RunContext:
    return DirectRun("any", "hi").context


def journal(ctx: RunContext, run: int = 1, attempt: int = 1) -> Journal:
    return Journal(replace(ctx, run=run, attempt=attempt), ctx.memory, "any")


async def test_items_come_in_the_order_of_the_runs_that_added_them(ctx: RunContext) -> None:
    first, second = journal(ctx, 1), journal(ctx, 2)
    await first.add([1, 2])
    await second.add(["a"])
    await first.add([3])
    assert await second.items_and_own() == ([1, 2, 3, "a"], 1)


async def test_runs_that_begin_at_the_same_time_lose_nothing(ctx: RunContext) -> None:
    runs = [journal(ctx, run) for run in range(1, 9)]
    await asyncio.gather(*(each.add([number]) for number, each in enumerate(runs)))
    assert sorted(await runs[0].items()) == list(range(8))


async def test_the_items_of_a_run_stand_together_however_many(ctx: RunContext) -> None:
    first, second = journal(ctx, 1), journal(ctx, 2)
    await first.add(["call", "x" * 40_000])
    await second.add(["other"])
    await first.add(["result"])
    items = await second.items()
    assert [item[:6] for item in items] == ["call", "xxxxxx", "result", "other"]
    assert await second.pop() == "other"


async def test_a_run_reads_its_session_once(
    ctx: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, prefixes = LocalMemory.read, list[str]()

    async def counted(memory: LocalMemory, scope: MemoryScope, prefix: str) -> Any:  # noqa: ANN401
        prefixes.append(prefix)
        return await read(memory, scope, prefix)

    monkeypatch.setattr(LocalMemory, "read", counted)
    run = journal(ctx)
    read_first = await run.items()
    for number in range(9):
        await run.add([number])
    assert (prefixes, read_first) == (["any/"], [])
    assert await run.items() == list(range(9))


async def test_an_addition_to_what_was_changed_meanwhile_is_made_anew(ctx: RunContext) -> None:
    run, same = journal(ctx), journal(ctx)
    await run.add([1])
    await same.add([2])
    await run.add([3])
    assert await same.items() == [1, 2, 3]
    await same.clear()
    await run.add([4])
    assert await same.items() == [4]


async def test_an_attempt_that_takes_over_drops_what_the_one_before_did(ctx: RunContext) -> None:
    earlier = journal(ctx, 1)
    await earlier.add(["kept", "last"])
    dead, successor = journal(ctx, 2, 1), journal(ctx, 2, 2)
    assert await dead.pop() == "last"
    await dead.add(["x" * 40_000])
    await dead.add(["lost"])
    assert await successor.items() == ["kept", "last"]
    await successor.add(["done"])
    assert await earlier.items() == ["kept", "last", "done"]
    with pytest.raises(RunOver, match="another attempt has the run"):
        await dead.add(["late"])


async def test_what_is_removed_of_an_attempt_is_not_missing_in_the_next(ctx: RunContext) -> None:
    other = journal(ctx, 2)
    await journal(ctx, 1).add(["lost"])
    assert await other.pop() == "lost"
    await journal(ctx, 1, 2).add(["done"])
    assert await other.items() == ["done"]


async def test_the_last_item_is_removed_whoever_added_it(ctx: RunContext) -> None:
    first, second = journal(ctx, 1), journal(ctx, 2)
    await first.add([1, 2])
    await second.add([3])
    removed = [await second.pop() for _ in range(4)]
    await first.add([4])
    assert removed == [3, 2, 1, None]
    assert await second.items() == [4]


async def test_a_run_of_many_items_writes_values_of_bounded_size(ctx: RunContext) -> None:
    run = journal(ctx)
    items: list[Any] = ["x" * 9_000 + str(number) for number in range(12)]
    for item in items:
        await run.add([item])
    sizes = [len(value.data) for value in (await ctx.memory.read("any/")).values()]
    assert await run.items() == items
    assert (len(sizes), max(sizes) < 50_000) == (3, True)


async def test_a_cleared_journal_is_empty_for_all_runs(ctx: RunContext) -> None:
    first, second = journal(ctx, 1), journal(ctx, 2)
    await first.add([1])
    await second.clear()
    assert (await first.items(), await ctx.memory.keys()) == ([], [])


async def test_an_addition_can_expect_what_its_run_has_added(ctx: RunContext) -> None:
    await journal(ctx, 2).add([1])
    run = journal(ctx)
    await run.add(["a"], 0)
    with pytest.raises(MemoryChanged, match="the run has added 1 items, not 0"):
        await run.add(["b"], 0)
