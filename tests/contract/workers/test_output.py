"""What an agent says becomes the same events, whatever its worker is written in."""

import asyncio
from pathlib import Path

import orjson
import pytest

from headrace.model import events
from headrace.model.events import Json
from headrace.model.task import COMPLETED, FAILED, INPUT_REQUIRED, REJECTED, WORKING
from tests.contract.workers.conftest import Worker
from tests.contract.workers.scripts import (
    metadata,
    said_parts,
    script,
    shape,
    statuses,
    texts,
)
from tests.support.task_submitter import TaskSubmitter
from tests.support.waiting import eventually, until

EVERYTHING: list[dict[str, Json]] = orjson.loads(
    Path(__file__).with_name("everything.json").read_bytes()
)
"""What an agent can say, in one run, and the parts that each thing becomes; ids are their kinds."""

STEPS = [each["says"] for each in EVERYTHING]


async def test_a_task_is_worked_on_and_leaves_the_queue(
    submitter: TaskSubmitter, repeater: Worker
) -> None:
    task = await submitter.start("repeater", message=script({"text": "hi"}))
    entries = await task.ended()
    assert [entry.stamp.writer for entry in entries[1:]] == [entries[-1].stamp.writer] * (
        len(entries) - 1
    )
    first = entries[1]
    assert first.stamp.state == WORKING
    assert (first.stamp.run, first.stamp.attempt) == (1, 1)
    began = first.events[0]["statusUpdate"]
    assert began["metadata"][events.ATTEMPT] == 1
    assert began["metadata"][events.WORKER] == repeater.id
    assert entries[-1].stamp.state == COMPLETED
    generations = [
        metadata(event)[events.GENERATION] for entry in entries for event in entry.events
    ]
    assert generations == list(range(1, len(generations) + 1))
    assert texts((await task.found()).task) == ["hi"]
    assert await eventually(task.is_off_the_queue)


@pytest.mark.usefixtures("repeater")
async def test_every_output_becomes_the_parts_that_the_contract_names(
    submitter: TaskSubmitter,
) -> None:
    task = await submitter.start("repeater", message=script(*STEPS))
    entries = await task.ended()
    expected = [part for each in EVERYTHING for part in each["parts"]]
    assert shape(said_parts(entries)) == expected
    folded = (await task.found()).task
    assert texts(folded) == ["Two and a half. Still the same block.", "", "", "A second block."]
    assert folded["status"]["message"]["parts"] == [{"text": "bye"}]


@pytest.mark.usefixtures("repeater")
async def test_the_first_chunk_of_an_artifact_is_never_an_append(submitter: TaskSubmitter) -> None:
    task = await submitter.start("repeater", message=script(*STEPS))
    seen: set[str] = set()
    for event in await task.events():
        if (update := event.get("artifactUpdate")) is not None:
            artifact = update["artifact"]["artifactId"]
            assert update.get("append", False) is (artifact in seen)
            seen.add(artifact)
    assert len(seen) == 4


@pytest.mark.usefixtures("repeater")
async def test_thousands_of_pieces_arrive_in_order(submitter: TaskSubmitter) -> None:
    task = await submitter.start(
        "repeater", message=script(*({"text": f"{n} "} for n in range(3000)))
    )
    entries = await task.ended()
    assert texts((await task.found()).task) == ["".join(f"{n} " for n in range(3000))]
    assert entries[-1].last_generation >= 3002


async def test_a_run_that_needs_input_goes_on_with_the_answer(
    submitter: TaskSubmitter, repeater: Worker
) -> None:
    assert repeater.is_running
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    asks = {"inputRequired": {"prompt": "Where?", "schema": schema}}
    task = await submitter.start("repeater", message=script(asks))
    entries = await task.ended()
    assert entries[-1].stamp.state == INPUT_REQUIRED
    waiting = statuses(entries)[-1]["message"]
    assert waiting["parts"] == [{"text": "Where?"}]
    assert waiting["metadata"] == {events.INPUT_SCHEMA: schema}
    run = await task.follow_up("Bern")
    await task.reaches(run + 1)
    assert (await task.ended())[-1].stamp.state == COMPLETED
    assert texts((await task.found()).task) == ["Bern"]


@pytest.mark.usefixtures("repeater")
async def test_a_rejected_task_gives_the_reason(submitter: TaskSubmitter) -> None:
    task = await submitter.start("repeater", message=script({"reject": "not today"}))
    entries = await task.ended()
    assert entries[-1].stamp.state == REJECTED
    assert statuses(entries)[-1]["message"]["parts"] == [
        {"text": "not today", "metadata": {"agui_event_type": "error"}}
    ]


async def test_an_agent_that_breaks_shows_an_id_and_nothing_else(
    submitter: TaskSubmitter, repeater: Worker
) -> None:
    task = await submitter.start("repeater", message=script({"text": "so far"}, {"fail": "s3cret"}))
    entries = await task.ended()
    assert entries[-1].stamp.state == FAILED
    [part] = statuses(entries)[-1]["message"]["parts"]
    error = part["text"].removeprefix("The agent failed (error ").removesuffix(")")
    assert len(error) == 8
    # The worker logs the error once the end is stored, which the client may see earlier.
    await asyncio.to_thread(until, lambda: error in repeater.output(), "the log has the error")
    assert "s3cret" in repeater.output()
    assert "s3cret" not in str([entry.lines for entry in entries[1:]])


@pytest.mark.usefixtures("repeater")
@pytest.mark.parametrize("step", [{"nonsense": True}, {"complete": 42}, {"reject": None}])
async def test_output_that_is_none_fails_the_task_with_a_reason(
    submitter: TaskSubmitter, step: Json
) -> None:
    task = await submitter.start("repeater", message=script(step))
    entries = await task.ended()
    assert entries[-1].stamp.state == FAILED
    assert "malformed" in statuses(entries)[-1]["message"]["parts"][0]["text"]
