"""Whatever requests a run of a pinned task requests it from workers of its version.

The only queue with a worker is that of the version: a run that is requested elsewhere never begins.
"""

import asyncio
from collections.abc import AsyncIterator

from headrace import Agent, EndedTask, InputRequired, Retry, Retryable, RunContext, agent
from headrace.tasks.dead_letters import LetterFilter, Letters, retry
from headrace.testing import FleetTask, TestFleet

VERSION = "2.1"


def tailor(cleaned: list[str] | None = None, release: asyncio.Event | None = None) -> Agent:
    async def clean_up(ended: EndedTask) -> None:
        if cleaned is not None:
            cleaned.append(ended.task["id"])

    @agent(version=VERSION, pinned=True, clean_up=clean_up)
    async def tailor(ctx: RunContext) -> AsyncIterator[str | InputRequired]:
        """Ask for a length, and cut."""
        if ctx.prompt == "delegate":
            yield (await ctx.delegate("tailor", "cut 1 cm")).text
        elif ctx.prompt.startswith("cut"):
            yield ctx.prompt.replace("cut", "Cut")
        elif ctx.prompt == "slowly":
            yield "Slowly"
            if release is not None:
                await release.wait()
            yield "."
        else:
            yield InputRequired("How long?")

    return tailor


async def version_of(task: FleetTask) -> str | None:
    return (await task._fleet.gateway.found(task.key)).version


async def test_an_answer_goes_to_the_version_that_requested_input() -> None:
    async with TestFleet([tailor()]) as fleet:
        task = await fleet.start("tailor", "hello")
        await task.result()
        assert (await task.reply("cut 3 cm")).text == "Cut 3 cm"
        assert await version_of(task) == VERSION


async def test_a_message_to_a_busy_agent_goes_to_its_version() -> None:
    release = asyncio.Event()
    async with TestFleet([tailor(release=release)]) as fleet:
        task = await fleet.start("tailor", "slowly")
        await task.follow_up("cut 4 cm")
        release.set()
        assert (await task.result()).text.endswith("Cut 4 cm")


async def test_a_takeover_goes_to_the_version() -> None:
    async with TestFleet([tailor()]) as fleet:
        task = await fleet.start("tailor", "slowly", stepped=True)
        killed = False
        async for event in task.events():
            if event.text == "Slowly" and not killed:
                killed = True
                await fleet.kill_worker()
        assert (await task.result()).text == "Slowly."


async def test_a_fork_and_a_child_go_to_the_version() -> None:
    async with TestFleet([tailor()]) as fleet:
        task = await fleet.start("tailor", "hello")
        await task.result()
        fork = await task.fork(3, "cut 5 cm")
        assert (await fork.result()).text == "Cut 5 cm"
        again = await task.fork(1)
        assert (await again.result()).state == "input-required"
        assert [await version_of(one) for one in (fork, again)] == [VERSION] * 2
        assert (await fleet.send("tailor", "delegate")).text == "Cut 1 cm"


async def test_the_clean_up_of_a_canceled_task_goes_to_its_version() -> None:
    cleaned: list[str] = []
    async with TestFleet([tailor(cleaned)]) as fleet:
        task = await fleet.start("tailor", "hello")
        await task.result()
        await task.cancel()
        async with asyncio.timeout(30):
            while not cleaned:  # noqa: ASYNC110  # the worker cleans up later
                await asyncio.sleep(0.01)
    assert cleaned == [task.id]


async def test_the_retry_of_a_dead_letter_goes_to_its_version() -> None:
    tries = list[int]()

    @agent(version=VERSION, pinned=True, retry=Retry(attempts=1))
    async def flaky(ctx: RunContext) -> AsyncIterator[str]:
        tries.append(ctx.attempt)
        if len(tries) == 1:
            raise Retryable("not now")
        yield "Now."

    async with TestFleet([flaky]) as fleet:
        failed = await fleet.send("flaky", "hello")
        assert failed.state == "failed"
        [letter] = [one async for one in Letters(fleet._bus).find(LetterFilter())]
        again = await retry(fleet._bus, letter)
        async with asyncio.timeout(30):
            while len(tries) == 1:  # noqa: ASYNC110  # the worker begins it later
                await asyncio.sleep(0.01)
        assert again.task not in (None, failed.id)
