"""A fleet under test: what its users ask of it, and that it behaves as the real one."""

import asyncio
import itertools
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from headrace import (
    Agents,
    Card,
    Data,
    Emission,
    File,
    InputRequired,
    Limits,
    Reject,
    Retry,
    Retryable,
    RunContext,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    agent,
)
from headrace.testing import TestFleet
from headrace_gateway.refusals import AgentUnknown, TaskBusy, TaskEnded


@pytest.fixture(autouse=True)
def _no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without servers: whoever opens a connection fails."""

    def refuse(*_: object) -> None:
        raise AssertionError("a test fleet opens no connection")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.socket.bind", refuse)


@agent()
async def shop(ctx: RunContext) -> AsyncIterator[Emission]:
    """Say how many there are."""
    yield Thinking("Let me see.", end=True)
    call = await ctx.tool_call("stock", {"of": ctx.prompt})
    yield ToolResult(call, 7)
    yield Usage(input_tokens=3, output_tokens=2, model="small")
    yield "There are 7 "
    yield f"{ctx.prompt}."


@agent()
async def barber(ctx: RunContext) -> AsyncIterator[Emission]:
    """Ask before cutting."""
    if ctx.run == 1:
        yield InputRequired("How short?")
        return
    yield f"Cut to {ctx.prompt}."


@agent()
async def slow(ctx: RunContext) -> AsyncIterator[Emission]:
    """Never end."""
    yield "begun"
    await asyncio.Event().wait()
    yield ctx.prompt


@agent()
async def approver(ctx: RunContext) -> AsyncIterator[Emission]:
    """Ask once for approval."""
    if ctx.run == 1:
        yield InputRequired("Sure?", interrupts=[{"id": "q", "reason": "confirmation"}])
    else:
        yield "Done."


@agent(follow_ups="reject")
async def deaf(_: RunContext) -> AsyncIterator[Emission]:
    """Never end, and listen to nobody."""
    yield "begun"
    await asyncio.Event().wait()


@agent()
async def numbering(_: RunContext) -> AsyncIterator[Emission]:
    """Give each call the same id, as some models do."""
    for number in (1, 2):
        yield ToolCall("look", {"n": number}, id="call_1")
        yield ToolResult("call_1", number)


async def test_each_call_has_its_own_result_also_if_its_id_recurs() -> None:
    async with TestFleet([numbering]) as fleet:
        answer = await fleet.send("numbering", "go")
    assert [(one.arguments, one.result) for one in answer.tool_calls] == [
        ({"n": 1}, 1),
        ({"n": 2}, 2),
    ]


async def test_an_answer_states_what_the_agent_did() -> None:
    async with TestFleet([shop]) as fleet:
        answer = await fleet.send("shop", "nails")
    assert (answer.text, answer.state) == ("There are 7 nails.", "completed")
    assert answer.thinking == "Let me see."
    assert [(one.name, one.arguments, one.result) for one in answer.tool_calls] == [
        ("stock", {"of": "nails"}, 7)
    ]
    assert answer.usage["tokens_used"] == 5
    assert answer.usage["model"] == "small"


async def test_an_answer_reaches_an_agent_that_requests_input() -> None:
    async with TestFleet([barber]) as fleet:
        waiting = await fleet.send("barber", "a haircut")
        assert (waiting.state, waiting.text) == ("input-required", "How short?")
        done = await waiting.reply("2 cm")
    assert (done.state, done.text, done.id) == ("completed", "Cut to 2 cm.", waiting.id)


async def test_an_answer_has_the_agents_questions_until_they_are_answered() -> None:
    async with TestFleet([approver]) as fleet:
        waiting = await fleet.send("approver", "go")
        done = await waiting.reply("yes")
    assert (waiting.interrupts, done.interrupts) == ([{"id": "q", "reason": "confirmation"}], [])


async def test_a_task_that_is_over_takes_no_message() -> None:
    async with TestFleet([shop]) as fleet:
        done = await fleet.send("shop", "nails")
        with pytest.raises(TaskEnded):
            await done.reply("and screws")


async def test_events_come_as_the_log_has_them() -> None:
    async with TestFleet([shop]) as fleet:
        found = [event async for event in fleet.stream("shop", "nails")]
    assert [event.generation for event in found] == list(range(1, len(found) + 1))
    assert "".join(event.text for event in found) == "There are 7 nails."
    assert found[0].state == "submitted"
    assert found[-1].state == "completed"
    assert [event.tool_call.name for event in found if event.tool_call] == ["stock"]


async def test_a_cancel_is_in_the_log_when_it_returns() -> None:
    async with TestFleet([slow]) as fleet:
        task = await fleet.start("slow", "please")
        canceled = await task.cancel()
        assert (canceled.state, (await task.now()).state) == ("canceled", "canceled")


async def test_a_cancel_between_two_events_ends_the_stream() -> None:
    async with TestFleet([slow]) as fleet:
        task = await fleet.start("slow", "please", stepped=True)
        states = list[str]()
        async for event in task.events():
            states += [event.state] if event.state else []
            if event.text == "begun":
                await task.cancel()
    assert states == ["submitted", "working", "canceled"]


async def test_an_agent_in_a_thread_answers_and_is_canceled_between_two_outputs() -> None:
    closed = threading.Event()

    @agent
    def ticker(ctx: RunContext) -> Iterator[Emission]:
        """Tick as often as it is told to, or without end."""
        try:
            for number in itertools.count() if ctx.prompt == "on" else range(int(ctx.prompt)):
                yield f"{number} "
                time.sleep(0.01)
        finally:
            closed.set()

    async with TestFleet([ticker]) as fleet:
        assert (await fleet.send("ticker", "3")).text == "0 1 2 "
        assert closed.is_set()
        closed.clear()
        task = await fleet.start("ticker", "on")
        assert (await task.cancel()).state == "canceled"
        assert await asyncio.to_thread(closed.wait, 60)


async def test_concurrency_bounds_the_threads_of_an_agent_without_async() -> None:
    at_once, most, lock = 0, 0, threading.Lock()
    two = threading.Barrier(2, timeout=60)

    @agent(limits=Limits(concurrency=2))
    def blocker(ctx: RunContext) -> str:
        """Block until there are two, and for a moment in which a third could come."""
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        two.wait()
        time.sleep(0.05)
        with lock:
            at_once -= 1
        return ctx.prompt

    async with TestFleet([blocker]) as fleet:
        answers = await asyncio.gather(*(fleet.send("blocker", str(n)) for n in range(8)))
    assert [answer.text for answer in answers] == [str(n) for n in range(8)]
    assert most == 2


async def test_a_message_to_a_busy_agent_waits_for_its_turn() -> None:
    release = asyncio.Event()

    @agent()
    async def patient(ctx: RunContext) -> AsyncIterator[Emission]:
        """Answer when told to."""
        await release.wait()
        yield f"{ctx.run}: {ctx.prompt} "

    async with TestFleet([patient]) as fleet:
        task = await fleet.start("patient", "one")
        await task.follow_up("two")
        release.set()
        assert (await task.result()).text.endswith(": two ")


async def test_an_agent_that_rejects_messages_while_at_work_does_so() -> None:
    async with TestFleet([deaf]) as fleet:
        task = await fleet.start("deaf", "one")
        with pytest.raises(TaskBusy):
            await task.follow_up("two")


async def test_agents_of_a_fleet_delegate_to_each_other() -> None:
    @agent()
    async def manager(ctx: RunContext) -> AsyncIterator[Emission]:
        """Have the shop asked."""
        result = await ctx.delegate("shop", ctx.prompt)
        yield f"The shop says: {result.text}"

    async with TestFleet([manager, shop]) as fleet:
        answer = await fleet.send("manager", "nails")
    assert answer.text == "The shop says: There are 7 nails."


async def test_what_an_agent_may_not_ask_for_is_refused_as_by_task_state() -> None:
    @agent()
    async def manager(ctx: RunContext) -> AsyncIterator[Emission]:
        """Ask nobody."""
        result = await ctx.delegate("nobody", "hello")
        yield result.text

    async with TestFleet([manager]) as fleet:
        answer = await fleet.send("manager", "nails")
    assert answer.state == "failed"
    assert "agent 'nobody' does not exist" in answer.status_text


async def test_earlier_tasks_of_a_conversation_are_known_to_the_next() -> None:
    @agent()
    async def historian(ctx: RunContext) -> AsyncIterator[Emission]:
        """Say what came before."""
        earlier = await ctx.context_history()
        status_text = [task["history"][0]["parts"][0]["text"] for task in earlier]
        yield " ".join(status_text)

    async with TestFleet([historian]) as fleet:
        first = await fleet.send("historian", "one")
        second = await fleet.send("historian", "two", context=first.task["contextId"])
    assert "one" in second.text
    assert "one" not in first.text


async def test_files_go_in_and_come_out_small_and_large() -> None:
    large = bytes(range(256)) * 1024

    @agent(card=Card(input_modes=["*/*"], output_modes=["*/*"]))
    async def copier(ctx: RunContext) -> AsyncIterator[Emission]:
        """Hand back what came."""
        for part in ctx.parts[1:]:
            yield File(part["filename"], await ctx.content(part), part["mediaType"])
        yield Data({"copied": True})

    async with TestFleet([copier]) as fleet:
        sent = [File("a.txt", b"a", "text/plain"), File("b.bin", large, "image/png")]
        answer = await fleet.send("copier", "copy", files=sent)
    assert [(one.name, one.media_type, one.content) for one in answer.files] == [
        ("a.txt", "text/plain", b"a"),
        ("b.bin", "image/png", large),
    ]
    assert answer.data == [{"copied": True}]


async def test_a_rejection_gives_the_reason() -> None:
    @agent()
    async def proud(_: RunContext) -> AsyncIterator[Emission]:
        """Decline."""
        yield Reject("not today")

    async with TestFleet([proud]) as fleet:
        answer = await fleet.send("proud", "please")
    assert (answer.state, answer.status_text) == ("rejected", "not today")


async def test_a_failed_agents_traceback_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @agent()
    async def clumsy(_: RunContext) -> AsyncIterator[Emission]:
        """Fall."""
        yield "begun"
        raise ZeroDivisionError("over the carpet")

    async with TestFleet([clumsy]) as fleet:
        answer = await fleet.send("clumsy", "walk")
    assert answer.state == "failed"
    logged = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert [str(one.exc_info[1]) for one in logged if one.exc_info] == ["over the carpet"]


async def test_a_killed_workers_run_goes_on_in_a_second_attempt() -> None:
    begun = list[int]()

    @agent()
    async def walker(ctx: RunContext) -> AsyncIterator[Emission]:
        """Walk five steps, and remember the last."""
        begun.append(ctx.attempt)
        for step in range(ctx.checkpoint_data or 0, 5):
            yield f"{step} "
            await ctx.checkpoint(step + 1)

    async with TestFleet([walker]) as fleet:
        texts = list[str]()
        async for event in fleet.stream("walker", "go"):
            texts.append(event.text)
            if event.text == "2 " and begun == [1]:
                await fleet.kill_worker()
    assert begun == [1, 2]
    assert "".join(texts) == "0 1 2 2 3 4 "


async def test_a_kill_leaves_nothing_behind_the_event_before_it() -> None:
    async with TestFleet([shop]) as fleet:
        found = list[tuple[str, str]]()
        killed = False
        async for event in fleet.stream("shop", "nails"):
            found.append((event.state, event.text))
            if event.text == "There are 7 " and not killed:
                killed = True
                await fleet.kill_worker()
    index = found.index(("", "There are 7 "))
    assert found[index + 1] == ("working", "")


async def test_a_stepped_log_gets_no_further_than_the_test() -> None:
    status_text = list[int]()

    @agent()
    async def counter(_: RunContext) -> AsyncIterator[Emission]:
        """Count without pausing."""
        for number in range(50):
            status_text.append(number)
            yield f"{number} "

    async with TestFleet([counter]) as fleet:
        ahead = list[int]()
        async for event in fleet.stream("counter", "go"):
            await asyncio.sleep(0.01)
            if event.text:
                ahead.append(len(status_text) - int(event.text))
    assert len(ahead) == 50
    assert max(ahead) < 5


async def test_a_run_that_kills_every_worker_is_given_up() -> None:
    async with TestFleet([shop]) as fleet:
        kills, state = 0, ""
        async for event in fleet.stream("shop", "nails"):
            state = event.state or state
            if event.thinking:
                kills += 1
                await fleet.kill_worker()
    assert (kills, state) == (3, "failed")


async def test_what_is_tried_again_later_is_tried_again_at_once() -> None:
    @agent(retry=Retry(backoff=3600))
    async def unlucky(ctx: RunContext) -> AsyncIterator[Emission]:
        """Succeed the third time."""
        if ctx.attempt < 3:
            raise Retryable("the model is overloaded")
        yield f"attempt {ctx.attempt}"

    async with TestFleet([unlucky]) as fleet:
        answer = await fleet.send("unlucky", "try")
    assert answer.text == "attempt 3"


async def test_an_agent_that_is_not_there_is_named() -> None:
    async with TestFleet([shop]) as fleet:
        with pytest.raises(AgentUnknown) as unknown:
            await fleet.send("shoe", "nails")
    assert str(unknown.value) == "agent 'shoe' does not exist; did you mean shop?"


async def test_a_run_without_an_end_ends_the_wait_for_it() -> None:
    async with TestFleet([slow], timeout=0.05) as fleet:
        with pytest.raises(TimeoutError):
            await fleet.send("slow", "please")


async def test_fleets_beside_each_other_know_nothing_of_each_other() -> None:
    async with TestFleet(Agents([shop])) as one, TestFleet([barber]) as other:
        with pytest.raises(AgentUnknown):
            await one.send("barber", "a haircut")
        assert (await other.send("barber", "a haircut")).state == "input-required"


async def test_settings_of_the_environment_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_NATS_URL", "nats://nowhere.invalid:4222")
    monkeypatch.setenv("HEADRACE_NATS_TOKEN", "secret")
    monkeypatch.setenv("HEADRACE_INLINE_BYTES", "0")
    async with TestFleet([shop]) as fleet:
        assert (await fleet.send("shop", "nails")).state == "completed"
