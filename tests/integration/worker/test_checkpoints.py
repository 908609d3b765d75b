"""What an agent saves with its output, the next attempt finds; what came after is discarded."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from headrace import Emission, File, Retry, Retryable, RunContext, Text, Thinking, agent
from headrace.model import events
from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.task import COMPLETED, FAILED
from headrace.sdk.agent import Agent
from tests.integration.worker.conftest import Working
from tests.support.plain_client_view import as_a_plain_client_sees
from tests.support.task_submitter import TaskSubmitter


async def ended(submitter: TaskSubmitter, working: Working, served: Agent) -> list[Entry]:
    async with working(served):
        task = await submitter.start(served.name, "x")
        return await task.ended()


def folded(entries: list[Entry]) -> Json:
    fold = TaskFold()
    for entry in entries:
        fold.apply_entry(entry)
    return fold.task()


async def test_the_next_attempt_finds_the_checkpoint_and_goes_on_from_there(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(retry=Retry(backoff=0.1))
    async def counting(ctx: RunContext) -> AsyncIterator[Emission]:
        done = (ctx.checkpoint_data or {"done": 0})["done"]
        for number in range(done + 1, 7):
            yield f"{number} "
            if number % 2 == 0:
                await ctx.checkpoint({"done": number, "word": "Zähler 🔢"})
            if number == 5 and ctx.attempt == 1:
                yield "never to be seen"
                await asyncio.sleep(0.1)
                raise Retryable

    entries = await ended(submitter, working, counting)
    saved = [entry for entry in entries if entry.stamp.checkpoint is not None]
    taken = next(e for e in entries if e.stamp.attempt == 2).events[0]["statusUpdate"]
    assert taken["metadata"][events.DISCARDED_AFTER] == saved[1].last_generation
    task = folded(entries)
    assert task["status"]["state"] == COMPLETED
    texts = ["".join(p["text"] for p in a["parts"]) for a in task["artifacts"]]
    assert texts == ["1 2 ", "3 4 ", "5 6 "]
    assert list(as_a_plain_client_sees(entries).values()) == texts


async def test_ids_and_indices_go_on_behind_a_checkpoint(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(retry=Retry(backoff=0.1))
    async def twice(ctx: RunContext) -> AsyncIterator[Emission]:
        if ctx.attempt == 1:
            yield Thinking("hm")
            yield "one"
            yield File("a", b"x")
            await ctx.checkpoint(1)
            raise Retryable
        yield Thinking("hm, hm")
        yield "two"
        yield File("b", b"y")

    task = folded(await ended(submitter, working, twice))
    artifacts = task["artifacts"]
    assert len({a["artifactId"] for a in artifacts}) == 4
    thoughts = [m for m in task["history"] if m["role"] == "ROLE_AGENT"]
    assert len({m["messageId"] for m in thoughts}) == 2
    indices = [
        part["metadata"]["agui_block_index"]
        for holder in [*thoughts, *artifacts]
        for part in holder["parts"][:1]
        if "agui_block_index" in part.get("metadata", {})
    ]
    assert sorted(indices) == [0, 1, 2, 3]


async def test_a_checkpoint_ends_labelled_blocks_and_their_labels_can_be_used_again(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def labelling(ctx: RunContext) -> AsyncIterator[Emission]:
        yield Text("a", "left")
        yield Text("b", "right")
        await ctx.checkpoint(None)
        yield Text("c", "left")

    task = folded(await ended(submitter, working, labelling))
    assert [a["parts"][0]["text"] for a in task["artifacts"]] == ["a", "b", "c"]


async def test_a_checkpoint_before_any_output_is_kept(
    submitter: TaskSubmitter, working: Working
) -> None:
    found: list[Any] = []

    @agent(retry=Retry(backoff=0.1))
    async def early(ctx: RunContext) -> None:
        found.append(ctx.checkpoint_data)
        if ctx.attempt == 1:
            await ctx.checkpoint([1, "two"])
            raise Retryable

    entries = await ended(submitter, working, early)
    assert found == [None, [1, "two"]]
    assert folded(entries)["status"]["state"] == COMPLETED


@pytest.mark.parametrize(
    ("saved", "reason"),
    [("x" * 8191, "exceeds the limit of 8192"), ({1, 2}, "is not JSON")],
)
async def test_what_can_not_be_saved_fails_the_task_with_a_reason(
    saved: object, reason: str, submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def saving(ctx: RunContext) -> None:
        await ctx.checkpoint(saved)

    status = folded(await ended(submitter, working, saving))["status"]
    assert status["state"] == FAILED
    assert reason in status["message"]["parts"][0]["text"]


async def test_8_kb_in_any_script_can_be_saved(submitter: TaskSubmitter, working: Working) -> None:
    text, found = "ü" * 4095, []

    @agent(retry=Retry(backoff=0.1))
    async def full(ctx: RunContext) -> None:
        found.append(ctx.checkpoint_data)
        if ctx.attempt == 1:
            await ctx.checkpoint(text)
            raise Retryable

    await ended(submitter, working, full)
    assert found == [None, text]
