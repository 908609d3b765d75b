"""Agents elsewhere, delegated to by name: the official SDK's server and another Headrace."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace import DelegationRefused, RunContext, agent
from headrace.log import last_entry
from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace.model.task import CANCELED, FAILED
from headrace_worker.config import declared_in
from tests.integration.worker.conftest import Spawn, Working
from tests.support.delegation_logs import (
    answer,
    child_of,
    child_reports,
    children,
    log_of,
    relayed,
    task_of,
)
from tests.support.other_headrace import OtherHeadrace, another_headrace
from tests.support.scripted_executor import BINDINGS, ScriptedExecutor, outside_agent
from tests.support.sdk_server import sdk_server
from tests.support.servers import NatsProcess
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.waiting import eventually


@pytest.fixture
async def other(nats_server: NatsProcess) -> AsyncIterator[OtherHeadrace]:
    async with another_headrace(nats_server.url) as it:
        yield it


@agent()
async def mayor(ctx: RunContext) -> None:
    """Delegate to the outside agent."""
    result = await ctx.delegate("outside", ctx.prompt)
    if result.needs_input:
        result = await ctx.reply(result, "fire")
    await ctx.emit(f"Result: {result.text}")


@pytest.mark.parametrize("binding", BINDINGS)
async def test_an_agent_of_the_official_sdk_answers_over_every_binding(
    submitter: TaskSubmitter, working: Working, binding: str
) -> None:
    executor = ScriptedExecutor()
    async with (
        sdk_server(executor) as server,
        working(await outside_agent(server.url, binding=binding)),
        working(mayor),
    ):
        entries = await (await submitter.start("mayor", "all is well")).ended()
        [key] = children(entries).values()
        child = await log_of(submitter, key)
    assert answer(entries) == "Result: Reply: all is wellDone."
    assert executor.received == ["all is well"]
    assert task_of(child)["metadata"]["remote_task"]
    assert relayed(entries, key.task)[-1] == child[-1].last_generation
    assert "starting" in _said(entries)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_its_events_are_streamed_as_they_come(
    submitter: TaskSubmitter, working: Working, binding: str
) -> None:
    executor, seen = ScriptedExecutor(), list[str]()

    @agent()
    async def listening(ctx: RunContext) -> None:
        async with ctx.delegate_stream("outside", "slowly") as child:
            async for event in child:
                seen.extend(_texts(event))
                if "Reply: " in seen:
                    # Not before: it goes on because its first word has been received here.
                    executor.go_on.set()
            await ctx.emit((await child.result()).text)

    async with (
        sdk_server(executor) as server,
        working(await outside_agent(server.url, binding=binding), listening),
    ):
        entries = await (await submitter.start("listening")).ended()
    assert seen == ["Reply: ", "slowly"]
    assert answer(entries) == "Reply: slowlyDone."


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_cancel_of_the_parent_reaches_the_agent_elsewhere(
    submitter: TaskSubmitter, working: Working, binding: str
) -> None:
    executor = ScriptedExecutor()
    async with (
        sdk_server(executor) as server,
        working(await outside_agent(server.url, binding=binding), mayor),
    ):
        task = await submitter.start("mayor", "slowly")
        key = await child_of(task)
        await eventually(lambda: _has(Task(submitter.bus, key, "", ""), "Reply: "))
        await task.held()
        await task.ask("cancel")
        assert (await task.ended())[-1].stamp.state == CANCELED
        child = task_of(await log_of(submitter, key))
    assert child["status"]["state"] == CANCELED
    assert executor.canceled == [child["metadata"]["remote_task"]]


async def test_its_question_is_the_childs_and_the_answer_goes_to_the_same_task(
    submitter: TaskSubmitter, working: Working
) -> None:
    executor = ScriptedExecutor()
    async with sdk_server(executor) as server, working(await outside_agent(server.url), mayor):
        entries = await (await submitter.start("mayor", "ask")).ended()
        [key] = set(children(entries).values())
    assert executor.received == ["ask", "fire"]
    assert answer(entries) == "Result: Reply: fireDone."
    assert [one["task"] for one in child_reports(entries)].count(key.task) > 2


@pytest.mark.parametrize("binding", BINDINGS)
async def test_another_headrace_answers_and_is_canceled(
    submitter: TaskSubmitter, working: Working, other: OtherHeadrace, binding: str
) -> None:
    @agent()
    async def asking(ctx: RunContext) -> None:
        await ctx.emit((await ctx.delegate("patient", ctx.prompt)).text)

    async with working(await other.agent("patient", binding), asking):
        task = await submitter.start("asking", "x")
        await eventually(lambda: _asked(other, 1))
        other.fleet.runs[0].go_on.set()
        assert answer(await task.ended()) == "abc"
        task = await submitter.start("asking", "y")
        key = await child_of(task)
        await eventually(lambda: _has(Task(submitter.bus, key, "", ""), "ab"))
        await task.held()
        await task.ask("cancel")
        assert (await task.ended())[-1].stamp.state == CANCELED
        theirs = await last_entry(other.fleet.bus, other.fleet.runs[1].key)
    assert theirs is not None
    assert theirs.stamp.state == CANCELED


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_another_headrace_is_followed_by_cursor_and_its_words_come_once(
    submitter: TaskSubmitter, working: Working, other: OtherHeadrace, binding: str
) -> None:
    seen = list[str]()

    @agent()
    async def listening(ctx: RunContext) -> None:
        async with ctx.delegate_stream("patient", "x") as child:
            async for event in child:
                seen.extend(_texts(event))
                if seen == ["a", "b"]:
                    await other.proxy.cut()
                    other.fleet.runs[0].go_on.set()

    async with working(await other.agent("patient", binding), listening):
        entries = await (await submitter.start("listening")).ended()
        [key] = children(entries).values()
    assert seen == ["a", "b", "c"]
    assert len(other.fleet.runs) == 1
    generations = relayed(entries, key.task)
    assert generations == sorted(set(generations))


async def test_a_parent_that_is_run_again_meets_the_task_elsewhere(
    submitter: TaskSubmitter, working: Working, spawn: Spawn
) -> None:
    executor = ScriptedExecutor()
    async with sdk_server(executor) as server, working(await outside_agent(server.url)):
        target = f"{__name__}:mayor"
        first = await asyncio.to_thread(spawn, target)
        task = await submitter.start("mayor", "slowly")
        key = await child_of(task)
        await eventually(lambda: _has(Task(submitter.bus, key, "", ""), "Reply: "))
        await asyncio.to_thread(first.kill)
        await asyncio.to_thread(first.start)
        await eventually(lambda: _is_at_attempt(task, 2))
        executor.go_on.set()
        entries = await task.ended()
    assert answer(entries) == "Result: Reply: slowlyDone."
    assert (executor.received, executor.canceled) == (["slowly"], [])


async def test_an_outside_agent_of_headrace_yaml_is_delegated_to_by_its_name(
    submitter: TaskSubmitter, working: Working, tmp_path: Path
) -> None:
    async with sdk_server(ScriptedExecutor()) as server:
        file = tmp_path / "headrace.yaml"
        file.write_text(
            "agents:\n"
            "  outside: {type: a2a, url: '${OUTSIDE}', binding: GRPC}\n"
            f"  mayor: {{type: python, target: '{__name__}:mayor'}}\n"
        )
        agents = await asyncio.to_thread(lambda: declared_in(file, {"OUTSIDE": server.url}).agents)
        async with working(*agents):
            entries = await (await submitter.start("mayor", "fire")).ended()
    assert answer(entries) == "Result: Reply: fireDone."


async def test_an_agent_is_named_by_an_object_too_and_never_by_its_url(
    submitter: TaskSubmitter, working: Working
) -> None:
    refused = dict[str, str]()

    async with sdk_server(ScriptedExecutor()) as server:
        outside = await outside_agent(server.url)

        @agent()
        async def asking(ctx: RunContext) -> None:
            for wrong in (server.url, "", None, 7):
                try:
                    await ctx.delegate(wrong, "x")  # type: ignore[arg-type]  # the point
                except DelegationRefused as refusal:
                    refused[refusal.why] = str(refusal)
            await ctx.emit((await ctx.delegate(outside, "fire")).text)

        async with working(outside, asking):
            entries = await (await submitter.start("asking")).ended()
    assert answer(entries) == "Reply: fireDone."
    assert refused.keys() == {"agent_unknown", "bad_request"}


async def test_the_refusal_of_a_url_states_what_to_do(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def asking(ctx: RunContext) -> None:
        await ctx.delegate("https://outside.example", "x")

    async with working(asking):
        entries = await (await submitter.start("asking")).ended()
    assert entries[-1].stamp.state == FAILED
    text = task_of(entries)["status"]["message"]["parts"][0]["text"]
    assert "remote_agent" in text
    assert "headrace.yaml" in text


def _texts(event: Json) -> list[str]:
    """Return the texts of a chunk of the reply, if the event is one."""
    artifact = event.get("artifactUpdate", {}).get("artifact", {})
    return [part["text"] for part in artifact.get("parts", []) if part.get("text")]


def _said(entries: list[Entry]) -> str:
    statuses = [e.get("statusUpdate", {}) for entry in entries for e in entry.events]
    messages = [status.get("status", {}).get("message", {}) for status in statuses]
    return "".join(part.get("text", "") for text in messages for part in text.get("parts", []))


async def _has(task: Task, text: str) -> bool:
    if await last_entry(task.bus, task.key) is None:
        return False
    artifacts = (await task.found()).task.get("artifacts", [])
    return bool(artifacts) and artifacts[0]["parts"][0]["text"] == text


async def _asked(other: OtherHeadrace, times: int) -> bool:
    return len(other.fleet.runs) == times


async def _is_at_attempt(task: Task, attempt: int) -> bool:
    return (await task.last()).stamp.attempt >= attempt
