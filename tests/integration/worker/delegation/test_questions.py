"""Children that need their user: what the parent sees, and how the answer comes to the child."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from headrace import Emission, InputRequired, Retry, Retryable, RunContext, agent
from headrace.log import LogWriter
from headrace.model.entry import Stamp
from headrace.model.errors import TaskUnknown
from headrace.model.events import Draft, task_submitted
from headrace.model.messages import StartTask
from headrace.model.task import AUTH_REQUIRED, COMPLETED, INPUT_REQUIRED, SUBMITTED, TaskKey
from headrace.state_client import StateClient
from headrace.tasks.continue_ import QueuedInput, queue_input
from headrace_worker.appender import Appender
from tests.integration.worker.conftest import Working
from tests.integration.worker.test_follow_ups import answers, asked, hand_in
from tests.support.delegation_logs import answer, children, ends, log_of, state_of
from tests.support.task_submitter import TIMEOUT, TaskSubmitter, user_message
from tests.support.waiting import eventually


@agent()
async def booker(ctx: RunContext) -> AsyncIterator[Emission]:
    """Books a table once it knows for how many."""
    if ctx.run == 1:
        yield InputRequired("For how many?", {"type": "integer"})
    else:
        yield f"booked for {ctx.prompt}"


async def test_an_agent_may_answer_a_child_itself(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def host(ctx: RunContext) -> str:
        request = await ctx.delegate("booker", "a table")
        assert request.needs_input
        return (await ctx.reply(request, "four")).text

    async with working(host), working(booker):
        entries = await (await submitter.start("host")).ended()
        [key, *_] = children(entries).values()
        states = [entry.stamp.state for entry in await log_of(submitter, key)]
    assert answer(entries) == "booked for four"
    assert INPUT_REQUIRED in states
    assert states[-1] == COMPLETED


async def test_an_agent_may_have_its_user_answer(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def host(ctx: RunContext) -> AsyncIterator[Emission]:
        request = await (ctx.delegate("booker", "a table") if ctx.run == 1 else ctx.reply())
        yield request.ask_user() if request.needs_input else request.text

    async with working(host), working(booker):
        task = await submitter.start("host")
        entries = await task.ended()
        [key] = children(entries).values()
        question = entries[-1].events[-1]["statusUpdate"]["status"]
        assert question["state"] == INPUT_REQUIRED
        assert question["message"]["parts"] == [{"text": "For how many?"}]
        assert question["message"]["metadata"]["headrace.inputSchema"] == {"type": "integer"}
        assert await state_of(submitter, key) == INPUT_REQUIRED
        await task.follow_up("six")
        assert await ends(submitter, task.key) == COMPLETED
        assert answer(await task.entries()) == "booked for six"


@pytest.mark.parametrize("prompt", ["And?", ""])
@pytest.mark.parametrize("meanwhile", ["", "three"])
async def test_an_answer_that_is_sent_before_its_question_is_passed_on_too(
    submitter: TaskSubmitter,
    working: Working,
    monkeypatch: pytest.MonkeyPatch,
    prompt: str,
    meanwhile: str,
) -> None:
    expected = f"one two {meanwhile}".strip()
    begun, may_ask = asyncio.Event(), asyncio.Event()

    @agent()
    async def curious(ctx: RunContext) -> AsyncIterator[Emission]:
        users = [m["parts"] for m in await ctx.history() if m["role"] == "ROLE_USER"]
        said = " ".join(parts[0]["text"] for parts in users[1:])
        if said == "one":
            begun.set()
            await may_ask.wait()
        yield said if said == expected else InputRequired(prompt)

    @agent()
    async def host(ctx: RunContext) -> AsyncIterator[Emission]:
        request = await (ctx.delegate("curious", "x") if ctx.run == 1 else ctx.reply())
        yield request.ask_user() if request.needs_input else request.text

    async with working(host), working(curious):
        task = await submitter.start("host")
        await task.ended()
        close = Appender.close

        async def close_behind_another(
            appender: Appender,
            last: Sequence[Draft],
            state: str,
            **options: Callable[[], bool] | None,
        ) -> None:
            if state == SUBMITTED:
                monkeypatch.setattr(Appender, "close", close)
                late = QueuedInput("late", task.context, user_message(meanwhile), None)
                await queue_input(submitter.bus, task.key, await task.last(), late, TIMEOUT)
            await close(appender, last, state, **options)

        if meanwhile:
            monkeypatch.setattr(Appender, "close", close_behind_another)
        await task.follow_up("one")
        await begun.wait()
        await hand_in(task, "two")
        may_ask.set()
        assert await ends(submitter, task.key) == COMPLETED
        assert answer(await task.entries()) == expected


async def test_a_childs_decision_is_not_made_by_a_message_that_was_sent_before_it(
    submitter: TaskSubmitter, working: Working
) -> None:
    may_ask = asyncio.Event()
    interrupts = [{"id": each, "reason": "confirm", "message": "Sure?"} for each in ("a", "b")]

    @agent()
    async def careful(ctx: RunContext) -> AsyncIterator[Emission]:
        if ctx.run == 1:
            await may_ask.wait()
            yield InputRequired("Sure?", None, interrupts)
        else:
            yield f"told {ctx.prompt}"

    @agent()
    async def host(ctx: RunContext) -> AsyncIterator[Emission]:
        if ctx.prompt == "yes":
            yield "as you said"
            return
        child = await (ctx.delegate("careful", "x") if ctx.run == 1 else ctx.reply())
        yield child.ask_user() if child.needs_input else child.text

    async with working(host), working(careful):
        task = await submitter.start("host")
        await task.held()
        await hand_in(task, "yes")
        may_ask.set()
        await asked(task)
        await task.follow_up("no")
        assert await ends(submitter, task.key) == COMPLETED
    assert answers(await task.entries()) == ["told no", "as you said"]


async def test_a_child_that_waits_is_canceled_with_a_parent_that_does_not(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def not_waiting(ctx: RunContext) -> str:
        return (await ctx.delegate("booker", "a table")).state

    async with working(not_waiting), working(booker):
        entries = await (await submitter.start("not-waiting")).ended()
        [key] = children(entries).values()
        assert await ends(submitter, key) == "TASK_STATE_CANCELED"
    assert answer(entries) == INPUT_REQUIRED


async def test_credentials_that_a_child_needs_are_requested_from_its_parents_user(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def vault(ctx: RunContext) -> str:
        output = await ctx.auth_required("The password, please")
        return f"opened with {output['parts'][0]['text']}"

    @agent()
    async def asking(ctx: RunContext) -> str:
        return (await ctx.delegate("vault", "open")).text

    async with working(asking), working(vault):
        task = await submitter.start("asking")

        async def asked() -> bool:
            return (await task.last()).stamp.state == AUTH_REQUIRED

        await eventually(asked)
        await hand_in(task, "sesame")
        entries = await task.ended()
    assert answer(entries) == "opened with sesame"


async def test_several_questions_of_one_child_are_answered_in_turn_also_by_a_second_attempt(
    submitter: TaskSubmitter, working: Working
) -> None:
    answered: list[str] = []

    @agent()
    async def curious(ctx: RunContext) -> AsyncIterator[Emission]:
        if ctx.run > 1:
            answered.append(ctx.prompt)
        if len(answered) < 2:
            yield InputRequired(f"question {len(answered) + 1}")
        else:
            yield " and ".join(answered)

    @agent(retry=Retry(backoff=0.1))
    async def patient(ctx: RunContext) -> str:
        child = await ctx.delegate("curious", "x", key="it")
        for word in ("one", "two"):
            child = await ctx.reply(child, word)
        if ctx.attempt == 1:
            raise Retryable
        return child.text

    async with working(patient), working(curious):
        entries = await (await submitter.start("patient")).ended()
    assert answer(entries) == "one and two"
    assert answered == ["one", "two"]


async def test_a_worker_cannot_answer_other_agents_children_by_a_log_with_their_parents_id(
    submitter: TaskSubmitter, working: Working
) -> None:
    """A hostile worker may write any log below its own agent's name."""

    @agent()
    async def host(ctx: RunContext) -> AsyncIterator[Emission]:
        yield (await ctx.delegate("booker", "a table")).ask_user()

    async with working(host), working(booker):
        parent = await submitter.start("host")
        [child] = children(await parent.ended()).values()
        forged = TaskKey("default", "hostile", parent.key.task)
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a thousand"}]}
        stamp = Stamp("abcdefgh", 1, "hostile", SUBMITTED, 1, owner=parent.owner)
        first = task_submitted(forged.task, parent.context, message)
        await LogWriter(submitter.bus, forged).append([first], stamp)
        query = StartTask(
            tenant="default",
            agent=child.agent,
            into=child.task,
            parent=forged.task,
            parent_agent=forged.agent,
            run=1,
            attempt=1,
            name="n",
            message=message,
        )
        with pytest.raises(TaskUnknown):
            await StateClient(submitter.bus).start(query)
        assert await state_of(submitter, child) == INPUT_REQUIRED
