"""An outside agent that does not do as A2A says."""

import time

import pytest

from headrace import Retry
from tests.integration.worker.conftest import Working
from tests.support.log_reading import answer, folded, state
from tests.support.scripted_agent import Json, ScriptedAgent, at, serving
from tests.support.scripted_executor import outside_agent
from tests.support.task_submitter import TaskSubmitter


async def test_an_agent_whose_streams_end_at_once_is_not_polled_without_pause(
    submitter: TaskSubmitter, working: Working
) -> None:
    working_still = [at("WORKING")]
    scripted = ScriptedAgent(*[working_still] * 6, [at("COMPLETED")])
    async with serving(scripted) as url:
        agent = await outside_agent(url, binding="JSONRPC", poll=0.2)
        async with working(agent):
            begun = time.monotonic()
            done = await folded(await submitter.start("outside", "x"))
    assert state(done) == "COMPLETED"
    assert len(scripted.asked) == 7
    # Six pauses, less what the clocks differ by.
    assert time.monotonic() - begun > 1.0


@pytest.mark.parametrize(
    "answer",
    [
        ["no JSON"],
        ["[]"],
        [{"what": 7}],
        [{}],
        [{"artifactUpdate": {"taskId": "odd", "contextId": "c", "artifact": {"parts": [{}]}}}],
        [at("WORKING"), {"artifactUpdate": {"taskId": "odd", "artifact": {"artifactId": "a"}}}],
        [at("WORKING"), {"statusUpdate": {"taskId": "odd", "status": {"state": "NONSENSE"}}}],
        [at("COMPLETED"), at("WORKING"), at("FAILED")],
        [at("WORKING"), {"statusUpdate": {"taskId": "odd", "metadata": {"headrace.child": 7}}}],
    ],
    ids=str,
)
async def test_whatever_it_sends_the_task_ends_and_the_worker_goes_on(
    submitter: TaskSubmitter, working: Working, answer: list[Json | str]
) -> None:
    scripted = ScriptedAgent(answer, [at("COMPLETED")])
    async with serving(scripted) as url:
        agent = await outside_agent(url, binding="JSONRPC", retry=Retry(attempts=2, backoff=0.0))
        async with working(agent):
            done = await folded(await submitter.start("outside", "x"))
            again = await folded(await submitter.start("outside", "y"))
    assert state(done) in {"COMPLETED", "FAILED", "REJECTED"}
    assert state(again) == "COMPLETED"


@pytest.mark.parametrize("character", ["\u0085", "\u2028", "\u2029"])
async def test_characters_that_end_lines_elsewhere_end_no_event(
    submitter: TaskSubmitter, working: Working, character: str
) -> None:
    text = f"a{character}b"
    artifact = {"artifactId": "a", "parts": [{"text": text}]}
    update = {"taskId": "odd", "contextId": "c", "artifact": artifact}
    scripted = ScriptedAgent([at("WORKING"), {"artifactUpdate": update}, at("COMPLETED")])
    async with serving(scripted) as url, working(await outside_agent(url, binding="JSONRPC")):
        done = await folded(await submitter.start("outside", "x"))
    assert (state(done), answer(done), len(scripted.asked)) == ("COMPLETED", text, 1)


@pytest.mark.parametrize("url", ["headrace-file:a/tasks/b/files/0", " HEADRACE-FILE:x"])
async def test_a_link_to_a_file_of_ours_is_malformed(
    submitter: TaskSubmitter, working: Working, url: str
) -> None:
    artifact = {"artifactId": "a", "parts": [{"url": url}]}
    update = {"taskId": "odd", "contextId": "c", "artifact": artifact}
    scripted = ScriptedAgent([at("WORKING"), {"artifactUpdate": update}, at("COMPLETED")])
    async with serving(scripted) as place, working(await outside_agent(place, binding="JSONRPC")):
        done = await folded(await submitter.start("outside", "x"))
    assert state(done) == "FAILED"
    assert "artifacts" not in done
