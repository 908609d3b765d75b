"""A run that waits for another gives its place to others, and gets one back in turn."""

import asyncio

from headrace import Agent, Limits, RunContext, agent
from headrace.model.task import COMPLETED
from tests.integration.worker.conftest import Working
from tests.support.delegation_logs import answer
from tests.support.task_submitter import TaskSubmitter


def chain(length: int) -> list[Agent]:
    """Return agents of which each asks the next one; the last says how deep it is."""

    def link(number: int) -> Agent:
        @agent(name=f"link-{number}", limits=Limits(concurrency=1))
        async def ask(ctx: RunContext) -> str:
            if number == length:
                return f"{number}"
            below = await ctx.delegate(f"link-{number + 1}", ctx.prompt)
            return f"{number} {below.text}"

        return ask

    return [link(number) for number in range(1, length + 1)]


async def test_a_chain_of_five_ends_on_workers_with_one_place_each(
    submitter: TaskSubmitter, working: Working
) -> None:
    one, two, three, four, five = chain(5)
    async with (
        working(one, concurrency=1),
        working(two, concurrency=1),
        working(three, concurrency=1),
        working(four, concurrency=1),
        working(five, concurrency=1),
    ):
        entries = await (await submitter.start("link-1")).ended()
    assert answer(entries) == "1 2 3 4 5"


async def test_a_chain_of_five_ends_on_one_worker_with_one_place(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(*chain(5), concurrency=1):
        entries = await (await submitter.start("link-1")).ended()
    assert answer(entries) == "1 2 3 4 5"


async def test_several_chains_on_one_place_all_end_and_no_two_work_at_a_time(
    submitter: TaskSubmitter, working: Working
) -> None:
    at_work, most = 0, 0

    @agent()
    async def leaf(_: RunContext) -> str:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0.02)
        at_work -= 1
        return "x"

    @agent()
    async def branch(ctx: RunContext) -> str:
        nonlocal at_work, most
        results = await asyncio.gather(*(ctx.delegate("leaf", f"{n}") for n in range(3)))
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0.02)
        at_work -= 1
        return "".join(result.text for result in results)

    async with working(leaf, branch, concurrency=1):
        tasks = [await submitter.start("branch") for _ in range(3)]
        logs = [await task.ended() for task in tasks]
    assert [answer(log) for log in logs] == ["xxx"] * 3
    assert most == 1


async def test_a_stream_gives_its_place_away_until_it_ends(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def leaf(ctx: RunContext) -> None:
        for word in ("one ", "two ", "three"):
            await ctx.emit(word)

    @agent()
    async def streaming(ctx: RunContext) -> None:
        async with ctx.delegate_stream("leaf", "x") as child:
            count = len([event async for event in child])
        await ctx.emit("heard" if count > 3 else "nothing")

    async with working(leaf, streaming, concurrency=1):
        entries = await (await submitter.start("streaming")).ended()
    assert entries[-1].stamp.state == COMPLETED
    assert answer(entries) == "heard"
