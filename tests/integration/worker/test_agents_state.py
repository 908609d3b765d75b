"""The shared state of a real run: what the client sent, what the agent says, what attempts keep."""

from collections.abc import AsyncIterator
from typing import Any

from headrace import (
    Emission,
    InputRequired,
    Retry,
    Retryable,
    RunContext,
    State,
    StateDelta,
    Usage,
    agent,
)
from headrace.model import events, parts
from headrace.model.entry import Entry
from headrace.model.events import Json
from tests.integration.worker.conftest import Working
from tests.support.task_submitter import TaskSubmitter

AGUI: Json = {"headrace.agui": {"state": {"n": 1}}}


def signals(entries: list[Entry]) -> list[tuple[str, Any]]:
    received: list[tuple[str, Any]] = []
    for event in (event for entry in entries for event in entry.events):
        message = event.get("statusUpdate", {}).get("status", {}).get("message", {})
        output = message.get("parts", []) if message.get("role") == "ROLE_AGENT" else []
        received += [(parts.event_type(part), part.get("data")) for part in output]
    return received


async def test_the_clients_state_is_the_runs_to_begin_with(
    submitter: TaskSubmitter, working: Working
) -> None:
    seen: list[Any] = []
    fits = [{"op": "replace", "path": "/n", "value": 2}]

    @agent()
    async def patching(ctx: RunContext) -> AsyncIterator[Emission]:
        seen.append(ctx.state)
        yield StateDelta(fits)
        await ctx.emit(StateDelta([{"op": "remove", "path": "/nowhere"}]))
        seen.append(ctx.state)

    async with working(patching):
        task = await submitter.start("patching", "x", metadata=AGUI)
        received = signals(await task.ended())
    assert seen == [{"n": 1}, {"n": 2}]
    assert received == [("state_delta", fits), ("state_snapshot", {"n": 2})]


async def test_an_attempt_begins_with_the_state_that_was_saved(
    submitter: TaskSubmitter, working: Working
) -> None:
    seen: list[Any] = []

    @agent(retry=Retry(backoff=0.1))
    async def saving(ctx: RunContext) -> AsyncIterator[Emission]:
        seen.append(ctx.state)
        if ctx.attempt == 1:
            yield StateDelta([{"op": "add", "path": "/saved", "value": True}])
            await ctx.checkpoint(1)
            yield State({"lost": True})
            raise Retryable
        if ctx.attempt == 2:
            yield StateDelta([{"op": "add", "path": "/lost", "value": True}])
            raise Retryable

    async with working(saving):
        task = await submitter.start("saving", "x", metadata=AGUI)
        await task.ended()
    assert seen == [{"n": 1}, {"n": 1, "saved": True}, {"n": 1, "saved": True}]


async def test_a_question_keeps_its_interrupts_beside_what_was_used(
    submitter: TaskSubmitter, working: Working
) -> None:
    interrupts = [{"id": "i-1", "reason": "confirmation"}]

    @agent()
    async def asking(ctx: RunContext) -> AsyncIterator[Emission]:
        await ctx.emit(Usage("m", input_tokens=3))
        yield InputRequired("Sure?", interrupts=interrupts)

    async with working(asking):
        task = await submitter.start("asking", "x")
        last = (await task.ended())[-1].events[-1]["statusUpdate"]
    assert last["metadata"]["headrace.interrupts"] == interrupts
    assert last["metadata"]["tokens_used"] == 3
    assert events.GENERATION in last["metadata"]
