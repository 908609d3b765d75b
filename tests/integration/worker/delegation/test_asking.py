"""One agent asks others: its answer, its progress, its errors, and what the child inherits."""

import asyncio
from collections.abc import AsyncIterator

from headrace import (
    DelegationFailed,
    DelegationRefused,
    Emission,
    Limits,
    Reject,
    RunContext,
    Status,
    agent,
)
from headrace.model.delegation import DELEGATION
from headrace.model.events import Json
from headrace.model.task import COMPLETED, FAILED
from headrace_worker.timing import Timing
from tests.integration.worker.conftest import Working
from tests.support.delegation_logs import answer, child_reports, children, log_of, relayed, state_of
from tests.support.task_submitter import Task, TaskSubmitter


@agent()
async def worker(ctx: RunContext) -> AsyncIterator[Emission]:
    """Does what it is told, in two words."""
    yield Status("working")
    yield f"done: {ctx.prompt}, "
    yield "truly"


@agent()
async def asking(ctx: RunContext) -> None:
    """Asks the worker."""
    result = await ctx.delegate("worker", ctx.prompt)
    await ctx.emit(f"It says: {result.text}")


async def test_an_agent_on_another_worker_answers(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(asking), working(worker):
        entries = await (await submitter.start("asking", "dig")).ended()
    assert answer(entries) == "It says: done: dig, truly"
    assert entries[-1].stamp.state == COMPLETED


async def test_a_child_has_its_parents_context_and_points_at_it(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(asking, worker):
        task = await submitter.start("asking", "dig")
        entries = await task.ended()
        [key] = children(entries).values()
        first = (await log_of(submitter, key))[0]
    begun = first.events[0]["task"]
    assert begun["contextId"] == task.context
    assert begun["history"][0]["referenceTaskIds"] == [task.key.task]
    assert first.stamp.owner == "anonymous"
    lineage = begun["metadata"][DELEGATION]
    assert (lineage["parent"], lineage["run"], lineage["path"]) == (task.key.task, 1, ["asking"])


async def test_the_childs_progress_is_in_the_parents_log(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(asking, worker):
        entries = await (await submitter.start("asking", "dig")).ended()
        [key] = children(entries).values()
        child = await log_of(submitter, key)
    generations = relayed(entries, key.task)
    assert generations[0] == 0
    assert generations[1:] == sorted(set(generations[1:]))
    assert generations[-1] == child[-1].last_generation
    assert child_reports(entries)[-1]["state"] == COMPLETED
    outputs = [
        part
        for entry in entries
        for event in entry.events
        for part in event.get("statusUpdate", {})
        .get("status", {})
        .get("message", {})
        .get("parts", [])
    ]
    assert "".join(p["text"] for p in outputs) == "workingdone: dig, truly"
    assert {p["metadata"]["agui_subagent_run_id"] for p in outputs} == {key.task}


async def test_the_output_of_a_child_can_be_kept_out_of_the_parents_log(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def quiet(ctx: RunContext) -> None:
        await ctx.emit((await ctx.delegate("worker", "dig", relay=False)).text)

    async with working(quiet, worker):
        entries = await (await submitter.start("quiet")).ended()
    assert [one.get("state") for one in child_reports(entries)] == [None, COMPLETED]
    assert "working" not in str([entry.lines for entry in entries])


async def test_a_stream_has_the_childs_events_and_then_its_result(
    submitter: TaskSubmitter, working: Working
) -> None:
    seen: list[Json] = []

    @agent()
    async def streaming(ctx: RunContext) -> None:
        async with ctx.delegate_stream("worker", "dig") as child:
            seen.extend([event async for event in child])
            await ctx.emit((await child.result()).text)

    async with working(streaming, worker):
        entries = await (await submitter.start("streaming")).ended()
        [key] = children(entries).values()
        child_log = await log_of(submitter, key)
    assert answer(entries) == "done: dig, truly"
    assert seen == [event for entry in child_log for event in entry.events]


async def test_a_stream_that_is_asked_again_after_its_end_stays_there(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def refusing(ctx: RunContext) -> None:
        await ctx.emit(Reject(f"no {ctx.prompt}"))

    seen: list[object] = []

    @agent(limits=Limits(timeout=10.0))
    async def insistent(ctx: RunContext) -> None:
        async with ctx.delegate_stream("worker", "dig") as child:
            seen.append(len([event async for event in child]) > 0)
            seen.append([event async for event in child])
        seen.append([event async for event in child])
        refused = ctx.delegate_stream("refusing", "dig")
        for _ in range(2):
            try:
                async for _event in refused:
                    pass
            except DelegationFailed as failure:
                seen.append(str(failure))

    async with working(insistent, worker, refusing):
        entries = await (await submitter.start("insistent")).ended()
    assert entries[-1].stamp.state == COMPLETED
    assert seen[:3] == [True, [], []]
    assert len(seen) == 5
    assert seen[3] == seen[4]
    assert "no dig" in str(seen[3])


async def test_a_timeout_around_one_event_loses_none_and_leaves_the_child_at_work(
    submitter: TaskSubmitter, working: Working
) -> None:
    may_go_on = asyncio.Event()
    texts: list[str] = []

    @agent()
    async def slow(_: RunContext) -> AsyncIterator[Emission]:
        yield Status("working")
        await may_go_on.wait()
        yield "truly"

    @agent()
    async def impatient(ctx: RunContext) -> None:
        timeouts = 0
        async with ctx.delegate_stream("slow", "dig") as child:
            while timeouts < 2:
                try:
                    async with asyncio.timeout(0.2):
                        texts.append(str(await anext(child)))
                except TimeoutError:
                    timeouts += 1
            may_go_on.set()
            texts.extend([str(event) async for event in child])
            await ctx.emit((await child.result()).text)

    async with working(impatient, slow):
        entries = await (await submitter.start("impatient")).ended()
        [key] = children(entries).values()
        child_log = await log_of(submitter, key)
    assert answer(entries) == "truly"
    assert texts == [str(event) for entry in child_log for event in entry.events]


async def test_children_run_in_parallel(submitter: TaskSubmitter, working: Working) -> None:
    meeting: set[str] = set()
    met = asyncio.Event()

    @agent()
    async def meeter(ctx: RunContext) -> str:
        meeting.add(ctx.prompt)
        if len(meeting) == 3:
            met.set()
        async with asyncio.timeout(60):
            await met.wait()
        return ctx.prompt

    @agent()
    async def gathering(ctx: RunContext) -> None:
        results = await asyncio.gather(*(ctx.delegate("meeter", name) for name in "abc"))
        async with asyncio.TaskGroup() as group:
            more = group.create_task(ctx.delegate("meeter", "d"))
        await ctx.emit("".join(result.text for result in [*results, more.result()]))

    async with working(gathering), working(meeter):
        entries = await (await submitter.start("gathering")).ended()
    assert answer(entries) == "abcd"


async def test_the_same_question_sent_twice_is_two_children_and_one_under_one_key(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def twice(ctx: RunContext) -> None:
        await asyncio.gather(ctx.delegate("worker", "x"), ctx.delegate("worker", "x"))
        await asyncio.gather(*(ctx.delegate("worker", "x", key="k") for _ in range(3)))

    async with working(twice, worker):
        entries = await (await submitter.start("twice")).ended()
    assert len(children(entries)) == 3


async def test_a_child_that_fails_is_an_error_that_names_it(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def failing(_: RunContext) -> None:
        raise ValueError("a secret")

    @agent()
    async def refusing(_: RunContext) -> AsyncIterator[Emission]:
        yield Reject("not today")

    @agent()
    async def catching(ctx: RunContext) -> None:
        for name in ("failing", "refusing"):
            try:
                await ctx.delegate(name, "x")
            except DelegationFailed as failure:
                await ctx.emit(f"{failure.agent}: {failure.state}: {failure.reason}; ")

    async with working(failing, refusing, catching):
        entries = await (await submitter.start("catching")).ended()
    output = answer(entries)
    assert "failing: TASK_STATE_FAILED: the task failed: The agent failed (error " in output
    assert "refusing: TASK_STATE_REJECTED: the task was rejected: not today" in output
    assert "secret" not in output


async def test_an_uncaught_error_of_a_child_fails_the_parent_and_names_the_child(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def refusing(_: RunContext) -> AsyncIterator[Emission]:
        yield Reject("not today")

    @agent()
    async def grouping(ctx: RunContext) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.delegate("refusing", "x"))

    async with working(refusing, grouping):
        entries = await (await submitter.start("grouping")).ended()
    status = entries[-1].events[-1]["statusUpdate"]["status"]
    assert status["state"] == FAILED
    failure = "delegation to 'refusing' failed: the task was rejected: not today"
    assert failure in status["message"]["parts"][0]["text"]


async def test_an_unknown_agent_is_refused(submitter: TaskSubmitter, working: Working) -> None:
    @agent()
    async def lost(ctx: RunContext) -> None:
        for name in ("nobody", "not a name"):
            try:
                await ctx.delegate(name, "x")
            except DelegationRefused as refusal:
                await ctx.emit(f"{refusal.why} ")

    async with working(lost):
        entries = await (await submitter.start("lost")).ended()
    assert answer(entries) == "agent_unknown agent_unknown "


async def test_a_child_ends_by_its_deadline(submitter: TaskSubmitter, working: Working) -> None:

    @agent()
    async def slow(_: RunContext) -> None:
        await asyncio.sleep(60)

    @agent()
    async def hasty(ctx: RunContext) -> None:
        try:
            await ctx.delegate("slow", "x", timeout=0.5)
        except DelegationFailed as failure:
            await ctx.emit(failure.reason)

    async with working(hasty, slow, timing=Timing(child_lateness=60.0)):
        entries = await (await submitter.start("hasty")).ended()
        [key] = children(entries).values()
    assert answer(entries) == "the task failed: The run did not end before its deadline"
    assert await state_of(submitter, key) == FAILED


async def test_a_child_without_a_worker_is_canceled_after_its_deadline(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def gone(_: RunContext) -> None:
        """Is announced and leaves."""

    @agent()
    async def hasty(ctx: RunContext) -> None:
        try:
            await ctx.delegate("gone", "x", timeout=0.5)
        except DelegationFailed as failure:
            await ctx.emit(failure.reason)

    async with working(gone):
        pass
    async with working(hasty):
        entries = await (await submitter.start("hasty")).ended()
        [key] = children(entries).values()
    assert answer(entries) == "the task did not end in time"
    assert await state_of(submitter, key) == "TASK_STATE_CANCELED"
    assert await Task(submitter.bus, key, "", "").runs_waiting() == 0
