"""On which terms children wait: their parents' trace and class; what a full queue does to them."""

import pytest

from headrace import DelegationFailed, InputRequired, Retry, Retryable, RunContext, agent
from headrace.model.delegation import DELEGATION
from headrace.model.messages import RunRequest
from headrace.model.queues import RunQueue
from headrace.model.subjects import NORMAL
from headrace.model.task import REJECTED
from headrace.tasks.end import withdraw
from headrace.tasks.runs import RunQueues
from tests.integration.worker.conftest import Working
from tests.support.delegation_logs import answer, children, log_of
from tests.support.task_submitter import TaskSubmitter, fresh_names

TRACE = f"00-{'a' * 32}-{'b' * 16}-01"


@pytest.fixture
def names(request: pytest.FixtureRequest) -> dict[str, str]:
    """Prefixes of one test, whose queue has as many places as it asks for."""
    places: int | None = getattr(request, "param", None)
    return fresh_names() | ({"runs_max": str(places)} if places else {})


@agent()
async def leaf(ctx: RunContext) -> InputRequired | str:
    """Says which trace it is part of, once it has been asked twice."""
    return InputRequired(f"{ctx.traceparent}") if ctx.run == 1 else f"{ctx.traceparent}"


@agent()
async def branch(ctx: RunContext) -> str:
    """Says what its leaf says, and then answers it."""
    request = await ctx.delegate("leaf", "x")
    assert request.message is not None
    return f"{request.message['parts'][0]['text']} {(await ctx.reply(request, 'y')).text}"


@agent()
async def root(ctx: RunContext) -> str:
    """Says which trace it is part of, and what its branch says."""
    return f"{ctx.traceparent} {(await ctx.delegate('branch', 'x')).text}"


@pytest.mark.parametrize("is_in_input", [True, False])
async def test_the_trace_reaches_children_of_children_and_those_that_are_answered(
    submitter: TaskSubmitter, working: Working, *, is_in_input: bool
) -> None:
    metadata = {"headrace.traceparent": TRACE} if is_in_input else None
    async with working(root), working(branch), working(leaf):
        task = await submitter.start("root", metadata=metadata, publish=False)
        trace = None if is_in_input else TRACE
        run = RunRequest(log=task.log, context=task.context, owner="anonymous", traceparent=trace)
        await task.publish(1, run.encode())
        assert answer(await task.ended()) == " ".join([TRACE] * 3)


async def test_a_childs_input_keeps_its_terms_so_that_its_run_can_be_requested_again(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(root), working(branch), working(leaf):
        task = await submitter.start(
            "root", metadata={"headrace.traceparent": TRACE}, publish=False
        )
        await RunQueues(submitter.bus).open(RunQueue.of(task.key, "high"))
        await task.publish(1, priority="high")
        [middle] = children(await task.ended()).values()
        below = await log_of(submitter, middle)
        lowest = next(iter(children(below).values()))
        events = [event for entry in await log_of(submitter, lowest) for event in entry.events]
    held = [next(iter(event.values())).get("metadata") or {} for event in events]
    inputs = [one for one in held if DELEGATION in one]
    assert [one.get("headrace.priority") for one in inputs] == ["high", "high"]
    assert [one.get("headrace.traceparent") for one in inputs] == [TRACE, TRACE]


@pytest.mark.parametrize("names", [1], indirect=True)
async def test_a_child_beyond_the_queues_limit_is_rejected_and_its_parent_informed(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def asking(ctx: RunContext) -> str:
        try:
            return (await ctx.delegate("leaf", "x")).text
        except DelegationFailed as failure:
            return f"{failure.agent} {failure.state}: {failure.reason}"

    async with working(asking), working(leaf):
        entries = await (await submitter.start("asking")).ended()
    assert answer(entries) == (
        f"leaf {REJECTED}: the task was rejected: Rejected: the queue is full; try again later"
    )


@pytest.mark.parametrize("names", [2], indirect=True)
async def test_a_parent_may_try_again_when_the_queue_has_places(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def brief(_: RunContext) -> str:
        return "done"

    @agent(retry=Retry(attempts=2))
    async def patient(ctx: RunContext) -> str:
        try:
            return (await ctx.delegate("brief", "x")).text
        except DelegationFailed as failure:
            await withdraw(submitter.bus, submitter.bus.subjects.run(waiting.key, 1, NORMAL), 5.0)
            raise Retryable(after=0) from failure

    async with working(patient), working(brief):
        waiting = await submitter.start("nobody")
        entries = await (await submitter.start("patient")).ended()
    assert answer(entries) == "done"
    assert len(children(entries)) == 2
