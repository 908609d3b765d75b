"""What an agent finds in its context, and what it tells of its expense."""

from collections.abc import AsyncIterator
from typing import Any

from nats.aio.msg import Msg
from prometheus_client import REGISTRY

from headrace import Emission, InputRequired, Limits, RunContext, Usage, agent
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.messages import ListTasks, RunRequest, TasksFound
from headrace.model.task import COMPLETED
from tests.integration.worker.conftest import Working
from tests.support.task_submitter import TaskSubmitter

AGUI = {"runId": "r", "state": {"n": 1}, "tools": [{"name": "f"}], "forwardedProps": {"p": 2}}


async def test_reported_usage_stands_in_the_last_status_and_in_the_task(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def costly(_: RunContext) -> AsyncIterator[Emission]:
        yield Usage("small", "maker", 10, 5)
        yield "done"
        yield Usage("large", "maker", 100, 7)

    async with working(costly):
        task = await submitter.start("costly")
        entries = await task.ended()
    events = entries[-1].events[-1]["statusUpdate"]["metadata"]
    assert (events["tokens_used"], events["model"]) == (122, "large")
    assert 0 <= events["execution_time"] < 60
    fold = TaskFold()
    for entry in entries:
        fold.apply_entry(entry)
    assert fold.task()["metadata"]["tokens_used"] == 122
    assert fold.task()["status"]["state"] == COMPLETED
    assert (_tokens("costly", "input"), _tokens("costly", "output")) == (110, 12)


def _tokens(of: str, kind: str) -> float | None:
    labels = {"agent": of, "version": "1.0.0", "kind": kind}
    return REGISTRY.get_sample_value("headrace_tokens_total", labels)


async def test_an_agent_that_reports_no_usage_has_none(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def free(_: RunContext) -> str:
        return "x"

    async with working(free):
        task = await submitter.start("free")
        last = (await task.events())[-1]["statusUpdate"]["metadata"]
    assert set(last) == {"headrace.generation"}


async def test_a_run_has_its_caller_its_origin_and_what_its_client_sent(
    submitter: TaskSubmitter, working: Working
) -> None:
    got: list[Any] = []

    @agent(limits=Limits(timeout=30))
    async def curious(ctx: RunContext) -> None:
        got.extend([ctx.tenant, ctx.owner, ctx.context, ctx.traceparent, ctx.agui, ctx.deadline])

    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    async with working(curious):
        metadata = {"headrace.agui": AGUI}
        task = await submitter.start("curious", "x", metadata=metadata, publish=False)
        run = RunRequest(log=task.log, context=task.context, owner="ada", traceparent=trace)
        await task.publish(1, run.encode())
        await task.ended()
    assert got[:5] == ["default", "ada", task.context, trace, AGUI]
    assert got[5] is not None


async def test_the_trace_context_comes_with_the_input_however_the_run_was_requested(
    submitter: TaskSubmitter, working: Working
) -> None:
    got: list[str | None] = []

    @agent()
    async def traced(ctx: RunContext) -> None:
        got.append(ctx.traceparent)

    trace = f"00-{'c' * 32}-{'d' * 16}-01"
    async with working(traced):
        await (await submitter.start("traced", metadata={"headrace.traceparent": trace})).ended()
        await (await submitter.start("traced")).ended()
    assert got == [trace, None]


async def test_an_answer_comes_with_the_history_of_its_task(
    submitter: TaskSubmitter, working: Working
) -> None:
    received: list[str] = []

    @agent()
    async def asking(ctx: RunContext) -> AsyncIterator[Emission]:
        if ctx.run == 1:
            yield InputRequired("Who are you?")
            return
        received.extend(message["parts"][0]["text"] for message in await ctx.history())

    async with working(asking):
        task = await submitter.start("asking", "hi")
        await task.ended()
        run = await task.follow_up("Ada")
        await task.reaches(run + 2)
    assert received == ["hi", "Who are you?", "Ada"]


async def test_the_conversation_s_other_tasks_come_in_order_and_are_the_owner_s(
    submitter: TaskSubmitter, working: Working
) -> None:
    requests: list[ListTasks] = []
    found: list[str] = []

    async def list_tasks(msg: Msg) -> None:
        query = ListTasks.decode(msg.subject, msg.data)
        requests.append(query)
        names = ["own", "second"] if not query.page_token else ["first"]
        tasks: list[Json] = [{"id": task.key.task if n == "own" else n} for n in names]
        token = "" if query.page_token else "more"
        answer = TasksFound(tasks=tasks, next_page_token=token, page_size=100, total_size=3)
        await msg.respond(answer.encode())

    @agent()
    async def recalling(ctx: RunContext) -> None:
        found.extend(other["id"] for other in await ctx.context_history())

    subject = submitter.bus.subjects.state("list")
    subscription = await submitter.bus.subscribe(subject, list_tasks)
    async with working(recalling):
        task = await submitter.start("recalling", publish=False)
        await task.publish(1)
        await task.ended()
    await submitter.bus.unsubscribe(subscription)
    assert found == ["first", "second"]
    assert {(q.tenant, q.owner, q.context) for q in requests} == {
        ("default", "anonymous", task.context)
    }
