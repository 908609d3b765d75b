"""What the demo agents leave in the log, event by event."""

from base64 import b64decode
from datetime import datetime

import pytest

from headrace.demo import MAX_COUNT, assistant, counter, echo
from headrace.model import parts
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.task import COMPLETED, REJECTED, SUBMITTED, WORKING
from tests.integration.worker.conftest import Working
from tests.support.task_submitter import Task, TaskSubmitter


def state_of(event: Json) -> str:
    status: Json = (event.get("statusUpdate") or event.get("task", {})).get("status", {})
    return str(status.get("state"))


def said_in(event: Json) -> list[Json]:
    found: list[Json] = (
        event.get("statusUpdate", {}).get("status", {}).get("message", {}).get("parts", [])
    )
    return found


def artifact_in(event: Json) -> Json:
    found: Json = event["artifactUpdate"]["artifact"]
    return found


async def folded(task: Task) -> Json:
    fold = TaskFold()
    for entry in await task.ended():
        fold.apply_entry(entry)
    return fold.task()


async def test_echo_answers_with_the_messages_text(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(echo):
        task = await submitter.start("echo", "Hello, log!")
        submitted, began, answer, completed = await task.events()
    assert state_of(submitted) == SUBMITTED
    assert state_of(began) == WORKING
    assert state_of(completed) == COMPLETED
    [part] = artifact_in(answer)["parts"]
    assert part["text"] == "Hello, log!"
    assert part["metadata"] == {
        "agui_event_type": "content_block",
        "agui_block_type": "text",
        "agui_block_id": artifact_in(answer)["artifactId"],
        "agui_block_index": 0,
    }
    assert "append" not in answer["artifactUpdate"]


async def test_generations_count_every_event_from_one(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(assistant):
        task = await submitter.start("assistant", "Count with me")
        entries = await task.ended()
    carried = [
        next(iter(event.values()))["metadata"]["headrace.generation"]
        for entry in entries
        for event in entry.events
    ]
    assert carried == list(range(1, len(carried) + 1))
    assert [entry.generation for entry in entries[1:]] == [
        entry.last_generation + 1 for entry in entries[:-1]
    ]


async def test_working_states_attempt_and_worker_before_the_agent_emits(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(echo) as worker:
        task = await submitter.start("echo", "x")
        entries = await task.ended()
    began = entries[1]
    assert len(began.events) == 1
    assert began.events[0]["statusUpdate"]["metadata"] == {
        "headrace.attempt": 1,
        "headrace.worker": worker.id,
        "headrace.generation": 2,
    }
    assert {(e.stamp.run, e.stamp.attempt, e.stamp.log) for e in entries[1:]} == {(1, 1, task.log)}
    assert len({entry.stamp.writer for entry in entries[1:]}) == 1


async def test_the_output_of_a_quick_agent_and_its_end_are_one_append(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(echo):
        task = await submitter.start("echo", "x")
        assert [len(entry.events) for entry in await task.ended()] == [1, 1, 2]


async def test_the_assistant_shows_every_kind_of_output(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(assistant):
        task = await submitter.start("assistant", "three small words")
        spoken = (await task.events())[2:-1]
    thoughts = [p for e in spoken for p in said_in(e) if parts.is_thinking(p)]
    assert len(thoughts) > 1
    assert len({parts.block_id(p) for p in thoughts}) == 1
    assert [parts.is_block_end(p) for p in thoughts] == [False] * (len(thoughts) - 1) + [True]
    ids = {e["statusUpdate"]["status"]["message"]["messageId"] for e in spoken if said_in(e)}
    assert len(ids) == 3  # reasoning, tool call, tool result: each a message
    [call] = [c for e in spoken for p in said_in(e) if (c := parts.tool_call(p))]
    [result] = [r for e in spoken for p in said_in(e) if (r := parts.tool_result(p))]
    assert (call.name, call.arguments) == ("count_words", {"text": "three small words"})
    assert (result.id, result.content, result.is_error) == (call.id, {"words": 3}, False)


async def test_the_assistants_answer_is_streamed_and_its_file_comes_with_it(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(assistant):
        task = await submitter.start("assistant", "three small words")
        updates = [e["artifactUpdate"] for e in await task.events() if "artifactUpdate" in e]
        artifacts = (await folded(task))["artifacts"]
    text = [u for u in updates if "text" in u["artifact"]["parts"][0]]
    assert len(text) > 2
    assert [u.get("append", False) for u in text] == [False] + [True] * (len(text) - 1)
    answer, file = artifacts
    assert parts.text_of(answer["parts"]) == "You said 3 words: three small words"
    [part] = file["parts"]
    assert (part["filename"], part["mediaType"]) == ("summary.md", "text/markdown")
    assert b"three small words" in b64decode(part["raw"])


async def test_the_counter_streams_each_number_on_one_artifact(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(counter):
        task = await submitter.start("counter", "700 0")
        events = await task.events()
    chunks = [artifact_in(e)["parts"][0]["text"] for e in events if "artifactUpdate" in e]
    assert chunks == [f"{n} " for n in range(1, 701)]
    assert len({artifact_in(e)["artifactId"] for e in events if "artifactUpdate" in e}) == 1
    assert state_of(events[-1]) == COMPLETED


async def test_the_counter_waits_between_numbers(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(counter):
        task = await submitter.start("counter", "3 40")
        entries = await task.ended()
    begun, ended = (datetime.fromisoformat(entry.time) for entry in (entries[0], entries[-1]))
    assert (ended - begun).total_seconds() >= 0.075


@pytest.mark.parametrize(
    "order",
    ["", "ten", "0", "-1", "1.5", "3 x", "3 4 5 6", f"{MAX_COUNT + 1}", "1 60001", "٣"],
)
async def test_the_counter_rejects_what_is_not_a_number_with_its_rule(
    order: str, submitter: TaskSubmitter, working: Working
) -> None:
    async with working(counter):
        task = await submitter.start("counter", order)
        *_, last = await task.events()
    assert state_of(last) == REJECTED
    assert "N [delay_ms]" in said_in(last)[0]["text"]


async def test_no_two_tasks_share_a_blocks_id(submitter: TaskSubmitter, working: Working) -> None:
    async with working(echo):
        tasks = [await submitter.start("echo", "x") for _ in range(3)]
        ids = {artifact_in(e)["artifactId"] for t in tasks for e in (await t.events())[2:3]}
    assert len(ids) == 3
