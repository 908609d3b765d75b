"""What runs in the background of a service."""

import asyncio
import logging

import pytest

from headrace.background import cancelled, check_regularly, keep_running
from headrace.model.errors import BusUnavailable


async def test_a_failed_loop_begins_anew_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun = 0

    async def twice_in_vain() -> None:
        nonlocal begun
        begun += 1
        if begun < 3:
            raise KeyError(begun)

    with caplog.at_level(logging.ERROR):
        await asyncio.wait_for(keep_running(twice_in_vain, "the work", pause=0.0), 60)
    assert begun == 3
    assert [record.getMessage() for record in caplog.records] == [
        "the work failed; restarting it"
    ] * 2
    assert "KeyError: 1" in caplog.text


async def test_a_check_that_nats_does_not_answer_is_repeated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    checked, is_repeated = 0, asyncio.Event()

    async def check() -> None:
        nonlocal checked
        checked += 1
        if checked == 1:
            raise BusUnavailable("no answer")
        is_repeated.set()

    with caplog.at_level(logging.INFO):
        task = asyncio.create_task(check_regularly(check, 0.001, "the queues"))
        await asyncio.wait_for(is_repeated.wait(), 60)
        await cancelled(task)
    assert "the queues will be checked later: no answer" in caplog.text


async def test_what_is_cancelled_does_not_begin_anew() -> None:
    at_work, begun = asyncio.Event(), 0

    async def for_ever() -> None:
        nonlocal begun
        begun += 1
        at_work.set()
        await asyncio.Event().wait()

    task = keep_running(for_ever, "the work", pause=0.0)
    await asyncio.wait_for(at_work.wait(), 60)
    task.cancel()
    await asyncio.wait([task], timeout=60)
    assert task.cancelled()
    assert begun == 1


async def test_a_task_that_is_cancelled_has_ended_whatever_comes_of_it() -> None:
    async def fails_at_its_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("not in order")

    for work in (fails_at_its_end(), asyncio.sleep(600)):
        task = asyncio.create_task(work)
        await asyncio.sleep(0)
        await asyncio.wait_for(cancelled(task), 60)
        assert task.done()


async def test_who_is_cancelled_while_a_task_ends_does_not_go_on() -> None:
    may_end, ended = asyncio.Event(), asyncio.Event()

    async def slow_to_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await may_end.wait()
            ended.set()

    task = asyncio.create_task(slow_to_end())
    await asyncio.sleep(0)
    ending = asyncio.create_task(cancelled(task))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(ending, 60)
    assert not task.done()
    may_end.set()
    await asyncio.wait_for(ended.wait(), 60)
