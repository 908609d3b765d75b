"""Tasks that are to begin when others are over, whatever their worker is written in."""

import asyncio

import pytest

from headrace.model.events import WAIT_FOR
from headrace.model.task import CANCELED, COMPLETED, WORKING
from tests.contract.workers.conftest import Spawn
from tests.contract.workers.scripts import script, texts
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.waiting import eventually

WAITS = script({"text": "on "}, {"sleep": 600_000})


async def begun_at(task: Task) -> int:
    """Return where in their stream the task's WORKING is stored."""
    return next(e.sequence for e in await task.entries() if e.stamp.state == WORKING)


async def given_back(task: Task) -> bool:
    """Tell whether a run has been given back, and waits to be handed out again."""
    info = await task.bus.js.consumer_info(task.bus.streams.runs, task.key.agent)
    return bool(info.num_redelivered)


async def started_behind(submitter: TaskSubmitter, named: object, text: str = "at last") -> Task:
    """Begin a task that is to wait for those `named`."""
    message = script({"text": text})
    return await submitter.start("repeater", message=message, metadata={WAIT_FOR: named})


@pytest.mark.usefixtures("repeater")
async def test_a_task_begins_when_those_that_it_names_are_over(submitter: TaskSubmitter) -> None:
    first = await submitter.start("repeater", message=WAITS)
    await first.held()
    second = await started_behind(submitter, [first.key.task], "second")
    third = await started_behind(submitter, [first.key.task, second.key.task], "third")
    assert await eventually(lambda: given_back(third))
    assert [len(await task.entries()) for task in (second, third)] == [1, 1]
    assert await first.ask("cancel") is not None
    assert (await first.ended())[-1].stamp.state == CANCELED
    ends = [(await task.ended())[-1] for task in (second, third)]
    assert [end.stamp.state for end in ends] == [COMPLETED, COMPLETED]
    assert ends[0].sequence < await begun_at(third)
    assert texts((await third.found()).task) == ["third"]
    assert await eventually(third.is_off_the_queue)


@pytest.mark.usefixtures("repeater")
async def test_a_task_that_waits_for_its_user_is_in_nobodys_way(submitter: TaskSubmitter) -> None:
    asks = script({"inputRequired": {"prompt": "which?", "schema": None}})
    first = await submitter.start("repeater", message=asks)
    await first.ended()
    second = await started_behind(submitter, [first.key.task])
    assert (await second.ended())[-1].stamp.state == COMPLETED


@pytest.mark.usefixtures("repeater")
@pytest.mark.parametrize("named", [7, "x", [None, 7, {}, "no id"], ["0-" + "0" * 32]])
async def test_what_names_no_task_holds_nothing_up(submitter: TaskSubmitter, named: object) -> None:
    task = await started_behind(submitter, named)
    assert (await task.ended())[-1].stamp.state == COMPLETED


async def test_the_order_outlives_the_worker(
    submitter: TaskSubmitter, spawn: Spawn, language: str, other: str
) -> None:
    first = await submitter.start("repeater", message=script({"text": "on "}, {"dawdle": 600_000}))
    holder = await asyncio.to_thread(spawn, language)
    await first.held()
    second = await started_behind(submitter, [first.key.task])
    assert await eventually(lambda: given_back(second))
    holder.kill()
    await asyncio.to_thread(spawn, other)
    for task in (first, second):
        assert (await task.ended())[-1].stamp.state == COMPLETED
    assert (await first.entries())[-1].sequence < await begun_at(second)
