"""Agents that wait, in a test fleet: a test makes the call, lets time pass, or kills the worker."""

import asyncio
from itertools import pairwise

import pytest

from headrace import FleetRequired, RunContext, Subject, TaskEnd, Webhook, agent
from headrace.model.errors import HeadraceError
from headrace.model.sleep import sleep_of
from headrace.model.wait import awaited_task
from headrace.testing import TestFleet


@agent
async def clerk(ctx: RunContext) -> str:
    """Waits for a payment for a day."""
    await ctx.emit(f"{await ctx.webhook('paid')}\n")
    try:
        event = await ctx.wait(Webhook("paid"), timeout=86_400)
    except TimeoutError:
        return "nothing came"
    return f"{event.source.source}: {event.json()['amount']}"


async def test_calls_reach_their_own_tasks_once_over_a_kill() -> None:
    async with asyncio.timeout(30), TestFleet([clerk]) as fleet:
        first, second = await fleet.start("clerk", "a"), await fleet.start("clerk", "b")
        await second.call_webhook("paid", {"amount": 2})
        assert (await second.result()).text.endswith("\nwebhook/paid: 2")
        await first.call_webhook("paid", '{"amount": 1}')
        await fleet.kill_worker()
        result = await first.result()
        assert result.text.startswith("http://fleet.test/v1/waits/")
        assert result.text.endswith("\nwebhook/paid: 1")
        with pytest.raises(HeadraceError, match="run has ended"):
            await first.call_webhook("paid", {"amount": 3})


async def test_a_wait_times_out_as_the_test_lets_time_pass() -> None:
    async with asyncio.timeout(30), TestFleet([clerk]) as fleet:
        task = await fleet.start("clerk", "a")
        async for event in task.events():
            if sleep_of(event.json) is not None:
                break
        await fleet.advance(86_300)
        assert (await task.now()).state == "working"
        await fleet.advance(200)
        assert (await task.result()).text.endswith("\nnothing came")


@agent
async def mumbler(ctx: RunContext) -> str:
    """Waits for what can't be waited for."""
    match ctx.prompt:
        case "nothing":
            await ctx.wait()
        case "text":
            await ctx.wait("paid")  # type: ignore[arg-type]
        case "unnamed":
            await ctx.webhook("")
        case "step":
            await ctx.step("pay", ctx.webhook, "paid")
        case "never":
            await ctx.wait(Webhook("paid"), timeout=0)
    return "done"


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("nothing", 'ctx.wait needs a source: write ctx.wait(Webhook("paid"))'),
        ("text", "ctx.wait can't wait for str"),
        ("unnamed", "a webhook's name must be text of 1 to 100 characters"),
        ("step", "get the URL before the step, and pass it as an argument"),
        ("never", "The agent failed"),
    ],
)
async def test_what_can_t_be_waited_for_is_named(what: str, why: str) -> None:
    async with asyncio.timeout(30), TestFleet([mumbler]) as fleet:
        result = await fleet.send("mumbler", what)
    assert result.state == "failed"
    assert why in result.text


async def test_an_agent_that_is_called_as_a_function_needs_a_fleet_to_wait() -> None:
    with pytest.raises(FleetRequired, match="waits for an event"):
        await waiting("hi")


@agent
async def waiting(ctx: RunContext) -> str:
    """Waits."""
    return (await ctx.wait(Webhook("paid"))).text


@agent
async def reader(ctx: RunContext) -> str:
    """Waits for a task's end."""
    task = ctx.task if ctx.prompt == "itself" else ctx.prompt
    end = (await ctx.wait(TaskEnd(task))).json()
    return f"{end['status']['state']}: {end['artifacts'][0]['parts'][0]['text']}"


async def test_an_agent_waits_for_another_task_s_end() -> None:
    async with asyncio.timeout(30), TestFleet([clerk, reader]) as fleet:
        task = await fleet.start("clerk", "a")
        waiting = await fleet.start("reader", task.id)
        await task.call_webhook("paid", {"amount": 3})
        await task.result()
        assert (await waiting.result()).text.startswith("TASK_STATE_COMPLETED: http://fleet.test")
        assert (await fleet.send("reader", task.id)).text.startswith("TASK_STATE_COMPLETED")
        itself = await fleet.send("reader", "itself")
        assert "a task can't wait for its own end (test_waits.py:" in itself.text
        unknown = await fleet.send("reader", f"0-{'0' * 32}")
        assert "the task's owner has no task 0-0000" in unknown.text


@agent
async def follower(ctx: RunContext) -> str:
    """Waits for the end of the task that a call names."""
    ctx.log.info("%s", await ctx.webhook("whom"))
    called = await ctx.wait(Webhook("whom"))
    end = (await ctx.wait(TaskEnd(called.text))).json()
    return f"after {end['status']['state']}"


@pytest.mark.parametrize("size", [2, 3])
async def test_tasks_do_not_wait_for_each_other_s_ends_in_a_circle(size: int) -> None:
    async with asyncio.timeout(30), TestFleet([follower]) as fleet:
        tasks = [await fleet.start("follower", "a") for _ in range(size)]
        for task, next_ in pairwise(tasks):
            await task.call_webhook("whom", next_.id)
            async for event in task.events():
                if awaited_task(event.json) == next_.id:
                    break
        await tasks[-1].call_webhook("whom", tasks[0].id)
        refused = await tasks[-1].result()
        assert refused.state == "failed"
        rule = f"task '{tasks[0].id}' can't be waited for: it waits for the end of this one"
        assert f"ctx.wait: {rule} (test_waits.py:" in refused.text
        ends = [(await task.result()).text for task in tasks[:-1]]
        assert ends[-1] == "after TASK_STATE_FAILED"
        assert ends[:-1] == ["after TASK_STATE_COMPLETED"] * (size - 2)


@agent
async def listener(ctx: RunContext) -> str:
    """Waits for an order."""
    paid = Subject("orders.*", "ORDERS", {"body.order": ctx.prompt, "body.total": {"min": 5}})
    event = await ctx.wait(paid)
    return f"{event.json()['total']} on {event.headers['subject']} {event.headers['of']}"


async def test_a_published_event_reaches_the_agents_that_it_matches() -> None:
    async with asyncio.timeout(30), TestFleet([listener]) as fleet:
        first, second = [await fleet.start("listener", name) for name in "ab"]
        for task in (first, second):
            async for event in task.events():
                if sleep_of(event.json) is not None:
                    break
        for total in (4, 6, 7):
            await fleet.publish("orders.paid", {"order": "a", "total": total}, {"of": "ann"})
        await fleet.publish("bills.paid", {"order": "b", "total": 9})
        assert (await first.result()).text == "6 on orders.paid ann"
        assert (await second.now()).state == "working"


async def test_a_fork_of_a_waiting_task_waits_for_a_call_of_its_own() -> None:
    async with asyncio.timeout(30), TestFleet([clerk]) as fleet:
        task = await fleet.start("clerk", "a")
        async for event in task.events():
            if sleep_of(event.json) is not None:
                break
        fork = await task.fork()
        await fork.call_webhook("paid", {"amount": 2})
        forked = await fork.result()
        assert forked.text.endswith("\nwebhook/paid: 2")
        assert (await task.now()).state == "working"
        await task.call_webhook("paid", {"amount": 1})
        result = await task.result()
        assert result.text.endswith("\nwebhook/paid: 1")
        assert result.text.split()[0] != forked.text.split()[0]
