"""A message that a gateway queues over its holder's head: nothing is fenced, nothing is lost."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace import Emission, InputRequired, RunContext, agent
from headrace.model.task import AUTH_REQUIRED, COMPLETED
from headrace_gateway.refusals import TaskBusy
from headrace_gateway.tasks import queued_append
from headrace_worker.timing import Timing
from tests.integration.worker.conftest import Spawn, Working
from tests.integration.worker.test_follow_ups import (
    answers,
    by_id,
    check_one_run_at_a_time,
    folded,
    hand_in,
    inputs,
    repeater,
    whole,
)
from tests.support.task_submitter import Task, TaskSubmitter, open_submitter

AGENTS = "tests.support.blocking_agents:agents"


@pytest.fixture
def nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have gateways take every holder for one that does not answer."""

    async def ask(*_: object) -> None:
        return None

    monkeypatch.setattr(queued_append, "ask_holder", ask)


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 50])
async def test_a_blocked_agent_finishes_its_first_attempt_and_every_message_is_answered(
    submitter: TaskSubmitter, spawn: Spawn, tmp_path: Path, turns: int
) -> None:
    may_end = tmp_path / "may_end"
    await asyncio.to_thread(spawn, AGENTS)
    async with open_submitter(submitter.bus.settings) as other:
        first = f"{turns} {may_end}"
        task = await submitter.start("blocking", first)
        elsewhere = Task(other.bus, task.key, task.log, task.context)
        await task.held()
        for number, gateway in enumerate((task, elsewhere, task)):
            assert await hand_in(gateway, f"m{number}")
        may_end.touch()
        entries = await whole(task, 4)
    assert inputs(entries) == answers(entries) == [first, "m0", "m1", "m2"]
    assert {entry.stamp.attempt for entry in entries} == {0, 1}
    assert entries[-1].stamp.state == COMPLETED
    check_one_run_at_a_time(entries)


async def test_a_blocked_holder_that_is_killed_loses_no_message(
    submitter: TaskSubmitter, spawn: Spawn, tmp_path: Path
) -> None:
    may_end = tmp_path / "may_end"
    workers = await asyncio.gather(*(asyncio.to_thread(spawn, AGENTS) for _ in range(2)))
    task = await submitter.start("blocking", f"3 {may_end}")
    holder = by_id(workers, (await task.held()).worker)
    handing = [asyncio.ensure_future(hand_in(task, f"m{number}")) for number in range(3)]
    await asyncio.wait(handing, return_when=asyncio.FIRST_COMPLETED)
    holder.kill()
    assert all(await asyncio.gather(*handing))
    may_end.touch()
    entries = await whole(task, 4)
    assert (
        sorted(inputs(entries))
        == sorted(answers(entries))
        == sorted([f"3 {may_end}", "m0", "m1", "m2"])
    )
    assert max(entry.stamp.attempt for entry in entries) == 2
    check_one_run_at_a_time(entries)


async def test_an_agent_that_takes_none_refuses_also_while_it_blocks(
    submitter: TaskSubmitter, working: Working
) -> None:
    may_end = asyncio.Event()
    blocked = Timing(accept_input=-1.0)
    async with working(repeater(may_end, follow_ups="reject"), timing=blocked):
        task = await submitter.start("repeater", "one")
        await task.held()
        with pytest.raises(TaskBusy):
            await hand_in(task, "two")
        may_end.set()
        assert inputs(await whole(task, 1)) == ["one"]


@pytest.mark.usefixtures("nobody_asks")
async def test_messages_race_the_holders_own_appends_and_its_ends(
    submitter: TaskSubmitter, working: Working
) -> None:
    """Whatever the order, each accepted message is a run, each run one attempt.

    The first run lasts until a message was accepted: a slow gateway must not come too late for it.
    """
    accepted = asyncio.Event()

    @agent()
    async def talker(ctx: RunContext) -> AsyncIterator[Emission]:
        for number in range(30):
            yield f"{number},"
            await asyncio.sleep(0.002)
            if number == 15:
                await ctx.checkpoint({"at": number})
        await asyncio.wait_for(accepted.wait(), 60)
        if ctx.run % 2:
            yield InputRequired("More?")

    async with working(talker), open_submitter(submitter.bus.settings) as other:
        task = await submitter.start("talker", "0")
        elsewhere = Task(other.bus, task.key, task.log, task.context)
        await task.reaches(2)
        taken: list[str] = []

        async def gateway(at: Task, texts: list[str]) -> None:
            for text in texts:
                try:
                    if await hand_in(at, text):
                        taken.append(text)
                        accepted.set()
                except TaskBusy:
                    continue

        await asyncio.gather(
            gateway(task, [f"a{n}" for n in range(10)]),
            gateway(elsewhere, [f"b{n}" for n in range(10)]),
        )

        entries = await task.ended()
        while len(inputs(entries)) < 1 + len(taken):
            entries = await task.ended()
            await asyncio.sleep(0.05)
    assert taken
    assert sorted(inputs(entries)[1:]) == sorted(taken)
    assert {entry.stamp.attempt for entry in entries} == {0, 1}
    check_one_run_at_a_time(entries)
    output = "".join(f"{number}," for number in range(30))
    texts = ["".join(p["text"] for p in a["parts"]) for a in folded(entries)["artifacts"]]
    # The checkpoint ends a block.
    assert "".join(texts) == output * len(inputs(entries))


@pytest.mark.usefixtures("nobody_asks")
async def test_a_silent_agent_that_is_steered_gets_the_message(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(follow_ups="steer")
    async def steered(ctx: RunContext) -> AsyncIterator[Emission]:
        message = await anext(ctx.inbox)
        yield message["parts"][0]["text"]

    async with working(steered):
        task = await submitter.start("steered", "go")
        await task.held()
        await hand_in(task, "left")
        entries = await whole(task, 1)
    assert answers(entries) == ["left"]
    assert {entry.stamp.attempt for entry in entries} == {0, 1}


@pytest.mark.usefixtures("nobody_asks")
async def test_a_silent_agent_is_stopped_by_an_interrupting_message(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(follow_ups="interrupt")
    async def obedient(ctx: RunContext) -> AsyncIterator[Emission]:
        yield ctx.prompt
        await asyncio.sleep(600 if ctx.run == 1 else 0)

    async with working(obedient):
        task = await submitter.start("obedient", "one")
        await task.held()
        await hand_in(task, "two")
        entries = await whole(task, 2)
    assert answers(entries) == ["one", "two"]
    assert {entry.stamp.attempt for entry in entries} == {0, 1}


@pytest.mark.usefixtures("nobody_asks")
async def test_who_waits_for_credentials_gets_them(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def guarded(ctx: RunContext) -> AsyncIterator[Emission]:
        answer = await ctx.auth_required("A token, please")
        yield answer["parts"][0]["text"]

    async with working(guarded):
        task = await submitter.start("guarded", "go")
        await task.reaches(3)
        assert (await task.last()).stamp.state == AUTH_REQUIRED
        await hand_in(task, "secret")
        entries = await whole(task, 1)
    assert answers(entries) == ["secret"]
    assert {entry.stamp.attempt for entry in entries} == {0, 1}
