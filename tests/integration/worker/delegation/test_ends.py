"""Whatever ends a parent ends its children, and their own logs say so before or soon after."""

import asyncio
from collections.abc import AsyncIterator

from headrace import DelegationFailed, Emission, Limits, Retry, Retryable, RunContext, agent
from headrace.model import events
from headrace.model.task import CANCELED, COMPLETED, FAILED, TaskKey
from headrace_task_state.main import TaskState
from headrace_worker.timing import Timing
from tests.integration.worker.conftest import Working
from tests.integration.worker.test_cancelling import cancel
from tests.support.delegation_logs import (
    answer,
    attempts,
    child_of,
    child_reports,
    children,
    ends,
    log_of,
    state_of,
)
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.waiting import eventually


@agent()
async def endless(_: RunContext) -> AsyncIterator[Emission]:
    """Begins, and never ends by itself."""
    yield "begun"
    await asyncio.sleep(600)


@agent()
async def middle(ctx: RunContext) -> None:
    """Asks two who never end."""
    await asyncio.gather(ctx.delegate("endless", "x"), ctx.delegate("endless", "y"))


@agent()
async def top(ctx: RunContext) -> None:
    """Asks one who asks two."""
    await ctx.delegate("middle", "x")


async def at_work(submitter: TaskSubmitter, key: TaskKey) -> bool:
    return any(entry.last_generation > 2 for entry in await log_of(submitter, key))


async def grandchildren(submitter: TaskSubmitter, task: Task) -> list[TaskKey]:
    """Return the two at the bottom, at work."""
    child = Task(submitter.bus, await child_of(task), "", "")

    async def both() -> list[TaskKey] | None:
        known = list(children(await child.entries()).values())
        return (
            known if len(known) == 2 and all([await at_work(submitter, k) for k in known]) else None
        )

    return await eventually(both)


async def test_a_cancel_reaches_all_descendants_before_it_is_confirmed(
    submitter: TaskSubmitter, working: Working
) -> None:
    # However long the others take, here they are waited for.
    slow = Timing(child_confirmation=60.0)
    async with (
        working(top, timing=slow),
        working(middle, timing=slow),
        working(endless, timing=slow),
    ):
        task = await submitter.start("top")
        below = [await child_of(task), *(await grandchildren(submitter, task))]
        assert await cancel(task) == CANCELED
        assert [await state_of(submitter, key) for key in below] == [CANCELED] * 3
        writers = [(await log_of(submitter, key))[-1].stamp.writer for key in below]
    assert all(writer.startswith("worker-") for writer in writers)
    assert child_reports(await task.entries())[-1]["state"] == CANCELED


async def test_an_agent_that_fails_takes_its_children_with_it(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def failing(ctx: RunContext) -> None:
        asking = asyncio.create_task(ctx.delegate("endless", "x"))
        await asyncio.sleep(0)
        async for _event in ctx.delegate_stream("endless", "y"):
            if "artifactUpdate" in _event:
                break
        asking.add_done_callback(lambda done: done.cancelled() or done.exception())
        raise ValueError("enough")

    async with working(failing, endless):
        task = await submitter.start("failing")
        entries = await task.ended()
        keys = list(children(entries).values())
        assert [await ends(submitter, key) for key in keys] == [CANCELED] * 2
    assert entries[-1].stamp.state == FAILED


async def test_an_agent_that_is_out_of_time_takes_its_children_with_it(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(limits=Limits(timeout=4.0))
    async def slow(ctx: RunContext) -> None:
        await ctx.delegate("endless", "x")

    async with working(slow, endless):
        task = await submitter.start("slow")
        entries = await task.ended()
        assert await ends(submitter, await child_of(task)) in {CANCELED, FAILED}
    assert entries[-1].stamp.state == FAILED


async def test_who_answers_without_waiting_for_a_child_leaves_none_behind(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def racing(ctx: RunContext) -> str:
        questions = [asyncio.ensure_future(ctx.delegate(a, "x")) for a in ("quick", "endless")]
        done, left = await asyncio.wait(questions, return_when=asyncio.FIRST_COMPLETED)
        for one in left:
            one.cancel()
        await asyncio.wait(left)
        return next(iter(done)).result().text

    @agent()
    async def quick(_: RunContext) -> str:
        return "first"

    async with working(racing, quick, endless):
        entries = await (await submitter.start("racing")).ended()
        loser = next(key for key in children(entries).values() if key.agent == "endless")
        assert await ends(submitter, loser) == CANCELED
    assert answer(entries) == "first"


async def test_a_child_whose_stream_was_left_early_is_given_up_once_and_fails_for_who_asks_again(
    submitter: TaskSubmitter, working: Working
) -> None:
    failures = list[str]()

    @agent()
    async def leaving(ctx: RunContext) -> str:
        async with ctx.delegate_stream("endless", "x") as child:
            async for event in child:
                if "artifactUpdate" in event:
                    break
        try:
            await child.result()
        except DelegationFailed as failure:
            failures.append(str(failure))
        return "went on"

    async with working(leaving, endless):
        entries = await (await submitter.start("leaving")).ended()
        [key] = children(entries).values()
        assert await ends(submitter, key) == CANCELED
    assert answer(entries) == "went on"
    assert len(failures) == 1
    assert [one for one in child_reports(entries) if "givenUp" in one] == [
        {"task": key.task, "generation": 3, "givenUp": True}
    ]


async def test_a_child_that_was_given_up_has_failed_although_nobody_confirms_its_end(
    submitter: TaskSubmitter, working: Working, task_state: TaskState
) -> None:
    failures = list[str]()

    @agent()
    async def leaving(ctx: RunContext) -> str:
        async with ctx.delegate_stream("endless", "x") as child:
            async for event in child:
                if "artifactUpdate" in event:
                    break
            await task_state.stop()
        try:
            await child.result()
        except DelegationFailed as failure:
            failures.append(str(failure))
        return "went on"

    async with working(leaving, endless):
        entries = await (await submitter.start("leaving")).ended()
    assert answer(entries) == "went on"
    assert failures == [
        "delegation to 'endless' failed: the task was canceled: its caller stopped waiting for it"
    ]


async def test_a_delegation_that_was_given_up_is_made_again(
    submitter: TaskSubmitter, working: Working
) -> None:
    begun = asyncio.Event()

    @agent()
    async def flaky(_: RunContext) -> str:
        if not begun.is_set():
            begun.set()
            await asyncio.sleep(600)
        return "well"

    @agent()
    async def asking(ctx: RunContext) -> str:
        question = asyncio.ensure_future(ctx.delegate("flaky", "x", key="k"))
        await begun.wait()
        question.cancel()
        await asyncio.wait([question])
        return (await ctx.delegate("flaky", "x", key="k")).text

    async with working(asking, flaky):
        entries = await (await submitter.start("asking")).ended()
        states = [await ends(submitter, key) for key in children(entries).values()]
    assert answer(entries) == "well"
    assert states == [CANCELED, COMPLETED]


async def test_a_retry_delegates_again_only_to_the_child_that_failed(
    submitter: TaskSubmitter, working: Working
) -> None:
    runs: list[str] = []

    @agent()
    async def worker(ctx: RunContext) -> str:
        runs.append(ctx.prompt)
        if ctx.prompt == "bad" and runs.count("bad") == 1:
            raise ValueError
        return ctx.prompt

    @agent(retry=Retry(backoff=0.1))
    async def retrying(ctx: RunContext) -> str:
        good = await ctx.delegate("worker", "good")
        try:
            bad = await ctx.delegate("worker", "bad")
        except DelegationFailed as failure:
            raise Retryable("once more") from failure
        return good.text + bad.text

    async with working(retrying, worker):
        entries = await (await submitter.start("retrying")).ended()
    assert attempts(entries) == [1, 2]
    assert answer(entries) == "goodbad"
    assert runs == ["good", "bad", "bad"]


async def test_a_child_is_canceled_if_its_parent_is_ended_without_its_worker(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(endless):
        async with working(top, middle):
            task = await submitter.start("top")
            below = await grandchildren(submitter, task)
            key = await child_of(task)
            over = Task(
                submitter.bus, key, (await log_of(submitter, key))[0].stamp.log, task.context
            )
            draft = events.status_update(key.task, task.context, CANCELED)
            await over.append(draft, CANCELED, writer="gateway-test", run=1)
        assert [await ends(submitter, key) for key in below] == [CANCELED] * 2
