"""Tasks are forked in a test fleet, by the gateway's own code."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from headrace import Emission, InputRequired, Retry, RunContext, agent
from headrace.model.entry import Entry
from headrace.model.fork import ForkOf
from headrace.model.task import COMPLETED
from headrace.testing import TestFleet
from headrace.testing.task import FleetTask, TaskResult
from headrace_gateway.refusals import Malformed

calls: list[str] = []


@agent(retry=Retry(attempts=1))
async def barber(ctx: RunContext) -> AsyncIterator[Emission]:
    """Ask before cutting."""
    if ctx.run == 1:
        yield InputRequired("How short?")
        return
    before = len((await ctx.load_task())["history"])
    yield f"Cut to {ctx.prompt}, after {before} messages."


@agent(retry=Retry(attempts=1))
async def baker(ctx: RunContext) -> AsyncIterator[Emission]:
    """Bake in two steps, the first of which is not repeated."""
    if ctx.checkpoint_data is None:
        calls.append("knead")
        yield "Kneaded. "
        await ctx.checkpoint({"dough": "ready"})
    calls.append("bake")
    yield "Baked."


@agent(retry=Retry(attempts=1))
async def smith(ctx: RunContext) -> AsyncIterator[Emission]:
    """Forge in steps, one of which has much to say."""
    for name, times in (("heat", 1), ("hammer", 20_000), ("quench", 1)):
        yield f"{len(await ctx.step(name, forged, name, times))} "


def forged(how: str, times: int) -> str:
    calls.append(how)
    return how * times


@pytest.fixture
async def fleet() -> AsyncIterator[TestFleet]:
    calls.clear()
    async with TestFleet([barber, baker, smith]) as fleet:
        yield fleet


def source_of(result: TaskResult) -> ForkOf:
    fork = ForkOf.of(result.task["metadata"])
    assert fork is not None
    return fork


async def asked(fleet: TestFleet) -> FleetTask:
    return (await fleet.send("barber", "a cut")).handle


async def test_a_question_is_answered_differently_in_a_fork(fleet: TestFleet) -> None:
    task = await asked(fleet)
    first = await task.reply("3 cm")
    fork = await task.fork(3, "5 cm")
    second = await fork.result()
    assert (first.text, second.text) == (
        "Cut to 3 cm, after 3 messages.",
        "Cut to 5 cm, after 3 messages.",
    )
    assert (second.state, fork.id != task.id, fork.context != task.context) == (
        "completed",
        True,
        True,
    )
    assert (await task.now()).task == first.task


async def test_a_fork_at_a_question_waits_for_its_answer(fleet: TestFleet) -> None:
    task = await asked(fleet)
    fork = await task.fork()
    assert (await fork.now()).state == "input-required"
    assert (await fork.reply("6 cm")).text == "Cut to 6 cm, after 3 messages."
    assert (await task.now()).state == "input-required"


async def test_a_fork_of_a_task_that_is_over_waits_for_its_user(fleet: TestFleet) -> None:
    task = await asked(fleet)
    await task.reply("3 cm")
    fork = await task.fork()
    waiting = await fork.now()
    assert (waiting.state, source_of(waiting).state) == ("input-required", COMPLETED)
    assert (await fork.reply("2 cm")).text.endswith("Cut to 2 cm, after 4 messages.")


async def test_a_fork_goes_on_from_the_checkpoint_before_its_generation(fleet: TestFleet) -> None:
    task = (await fleet.send("baker", "bread")).handle
    assert calls == ["knead", "bake"]
    head = (await task.now()).task["metadata"]["headrace.generation"]
    fork = await task.fork(head - 1)
    baked = await fork.result()
    source = source_of(baked)
    assert (baked.state, baked.text, calls) == (
        "completed",
        "Kneaded. Baked.",
        ["knead", "bake", "bake"],
    )
    assert source.generation < source.requested == head - 1


async def test_a_fork_at_an_input_runs_it_again(fleet: TestFleet) -> None:
    task = (await fleet.send("baker", "bread")).handle
    fork = await task.fork(1)
    baked = await fork.result()
    assert (baked.text, calls) == ("Kneaded. Baked.", ["knead", "bake", "knead", "bake"])


async def test_a_fork_can_be_forked(fleet: TestFleet) -> None:
    task = await asked(fleet)
    fork = await (await task.fork()).fork(None, "1 cm")
    done = await fork.result()
    assert done.text == "Cut to 1 cm, after 3 messages."
    assert [one.task for one in source_of(done).chain()][1:] == [task.id]


async def test_the_source_may_be_gone_once_it_is_forked(fleet: TestFleet) -> None:
    task = await asked(fleet)
    fork = await task.fork()
    await task.cancel()
    assert (await fork.reply("4 cm")).state == "completed"


@pytest.mark.parametrize("generation", [-1, 0, 4, 10**18])
async def test_a_generation_that_the_task_has_not_is_refused(
    fleet: TestFleet, generation: int
) -> None:
    task = await asked(fleet)
    with pytest.raises(Malformed, match="from 1 to 3"):
        await task.fork(generation)


async def test_a_fork_goes_on_after_the_steps_before_it(fleet: TestFleet) -> None:
    task = (await fleet.send("smith", "a nail")).handle
    done = [event.generation async for event in task.events() if event.step is not None]
    fork = await task.fork(done[1])
    assert (await fork.result()).text == (await task.now()).text == "4 120000 6 "
    assert calls == ["heat", "hammer", "quench", "quench"]


@agent()
async def talker(ctx: RunContext) -> AsyncIterator[Emission]:
    """Ask for more, as often as it is spoken to."""
    yield f"I heard {ctx.prompt}, and {len(await ctx.load_events())} events."
    yield InputRequired("And then?")


async def log_of(task: FleetTask) -> list[Entry]:
    entries = list[Entry]()
    async with await task._fleet.gateway.feeds.open(task.key) as feed:
        reader = feed.reader(0)
        while reader.is_behind:
            entries += [block.entry for block in await reader.read()]
    return entries


async def test_forks_of_forks_with_follow_ups_grow_by_what_is_said_in_them() -> None:
    depth, width = 10, 2
    async with TestFleet([talker], timeout=60) as fleet:
        task, sizes, counts = (await fleet.send("talker", "zero")).handle, list[int](), list[int]()
        for number in range(depth):
            forks = [await task.fork(None, f"fork {number:03}") for _ in range(width)]
            await asyncio.gather(*(fork.result() for fork in forks))
            await asyncio.gather(*(fork.reply(f"more {number:03}") for fork in forks))
            logs = await asyncio.gather(*map(log_of, forks))
            sizes += [sum(len(line) for entry in log for line in entry.lines) for log in logs]
            counts += [log[-1].last_generation for log in logs]
            task = forks[-1]
        history = (await task.now()).task["history"]
    # Each fork has its source's events, and as many of its own as the first one has.
    grown = [counts[at + width] - counts[at] for at in range(len(counts) - width)]
    assert set(grown) == {counts[width] - counts[0]}
    assert len(history) <= 6 * (depth + 1)
    # So do the bytes: a turn takes as many at any depth.
    steps = [sizes[at + width] - sizes[at] for at in range(len(sizes) - width)]
    assert max(steps) < 2 * min(steps)
