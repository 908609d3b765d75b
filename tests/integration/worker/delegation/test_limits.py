"""What keeps agents that ask agents from doing so for ever: depth, repeats, tokens."""

from collections.abc import AsyncIterator

import pytest

from headrace import DelegationRefused, Emission, RunContext, Usage, agent
from headrace.log import LogWriter
from headrace.model.entry import Stamp
from headrace.model.errors import StartRefused, TaskUnknown
from headrace.model.events import task_submitted
from headrace.model.messages import StartTask
from headrace.model.task import SUBMITTED, TaskKey
from headrace.state_client import StateClient
from tests.integration.worker.conftest import Working
from tests.support.delegation_logs import answer, log_of
from tests.support.task_submitter import Task, TaskSubmitter


@agent()
async def mirror(ctx: RunContext) -> str:
    """Asks itself, until that is refused."""
    try:
        return "m " + (await ctx.delegate("mirror", ctx.prompt)).text
    except DelegationRefused as refusal:
        return f"{refusal.why}: {refusal.reason}"


async def test_an_agent_occurs_so_often_in_a_chain(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(mirror):
        entries = await (await submitter.start("mirror", "x")).ended()
    assert answer(entries) == (
        "m m repeated: an agent may occur 3 times in a chain of delegations:"
        " mirror → mirror → mirror → mirror"
    )


async def test_a_chain_is_so_deep(submitter: TaskSubmitter, working: Working) -> None:
    def link(number: int) -> object:
        @agent(name=f"link-{number}")
        async def ask(ctx: RunContext) -> str:
            try:
                return "l " + (await ctx.delegate(f"link-{number + 1}", "x")).text
            except DelegationRefused as refusal:
                return f"{refusal.why}: {refusal.reason}"

        return ask

    async with working(*(link(number) for number in range(1, 11))):
        entries = await (await submitter.start("link-1", "x")).ended()
    output = answer(entries)
    assert output.startswith("l " * 8 + "too_deep: the delegation depth is limited to 8: ")
    assert output.endswith("link-9 → link-10")


async def test_tokens_are_inherited_and_counted(submitter: TaskSubmitter, working: Working) -> None:
    @agent()
    async def spender(ctx: RunContext) -> AsyncIterator[Emission]:
        yield Usage(input_tokens=30, output_tokens=10)
        yield f"{ctx.tokens_left} left"

    @agent()
    async def saver(ctx: RunContext) -> None:
        await ctx.emit(Usage(input_tokens=5))
        texts = [(await ctx.delegate("spender", f"{n}")).text for n in range(2)]
        try:
            await ctx.delegate("spender", "more")
        except DelegationRefused as refusal:
            texts.append(refusal.why)
        await ctx.emit("; ".join(texts))

    @agent()
    async def giver(ctx: RunContext) -> None:
        result = await ctx.delegate("saver", "x", budget=80)
        await ctx.emit(f"{ctx.tokens_left} {result.tokens}: {result.text}")

    async with working(spender, saver, giver):
        entries = await (await submitter.start("giver")).ended()
    assert answer(entries) == "None 85: 35 left; 0 left; budget"


@pytest.fixture
async def parent(submitter: TaskSubmitter, working: Working) -> AsyncIterator[Task]:
    """A task at work, of an agent that asks nobody by itself."""

    @agent()
    async def idle(ctx: RunContext) -> None:
        await ctx.auth_required("wait")

    async with working(idle, mirror):
        task = await submitter.start("idle")
        await task.held()
        yield task


def query(parent: TaskKey, /, **changes: object) -> StartTask:
    request = {
        "tenant": parent.tenant,
        "agent": "mirror",
        "parent": parent.task,
        "parent_agent": parent.agent,
        "run": 1,
        "attempt": 1,
        "name": "key:x",
        "message": {"parts": [{"text": "hello"}]},
    }
    return StartTask.model_validate(request | changes)


async def test_one_child_is_started_once(parent: Task) -> None:
    state = StateClient(parent.bus)
    first, second = await state.start(query(parent.key)), await state.start(query(parent.key))
    assert (first.task, first.log) == (second.task, second.log)
    assert (first.again, second.again) == (False, True)


async def test_a_child_belongs_to_its_parents_owner_whatever_is_requested(
    submitter: TaskSubmitter, parent: Task
) -> None:
    started = await StateClient(parent.bus).start(
        query(parent.key, message={"parts": [{"text": "x"}], "metadata": {"owner": "eve"}})
    )
    first = (await log_of(submitter, TaskKey("default", "mirror", started.task)))[0]
    assert first.stamp.owner == "anonymous"
    assert first.events[0]["task"]["contextId"] == parent.context


async def test_a_child_that_another_agent_began_under_the_parents_id_is_not_taken_for_its_own(
    submitter: TaskSubmitter, parent: Task
) -> None:
    """A hostile worker may write any log below its own agent's name, and ask for its children."""
    forged, state = TaskKey("default", "hostile", parent.key.task), StateClient(parent.bus)
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a thousand"}]}
    stamp = Stamp("abcdefgh", 1, "hostile", SUBMITTED, 1, owner=parent.owner)
    first = task_submitted(forged.task, parent.context, message)
    await LogWriter(submitter.bus, forged).append([first], stamp)
    await state.start(query(forged, message=message))
    with pytest.raises(StartRefused, match="belongs to another delegation"):
        await state.start(query(parent.key))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"parent": "0-" + "0" * 32}, TaskUnknown),
        ({"parent": "nonsense"}, TaskUnknown),
        ({"tenant": "other"}, TaskUnknown),
        ({"into": "0-" + "0" * 32}, TaskUnknown),
        ({"run": 7}, StartRefused),
    ],
)
async def test_who_does_not_work_on_the_parent_starts_nothing(
    parent: Task, changes: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await StateClient(parent.bus).start(query(parent.key, **changes))


async def test_a_parent_that_has_ended_starts_nothing(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def brief(_: RunContext) -> str:
        return "x"

    async with working(brief, mirror):
        task = await submitter.start("brief")
        await task.ended()
        with pytest.raises(StartRefused, match="is over"):
            await StateClient(task.bus).start(query(task.key))
