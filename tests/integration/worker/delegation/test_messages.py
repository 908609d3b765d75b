"""What agents ask each other with: files of any size, and whatever is no message."""

import asyncio
import math
from base64 import b64encode
from typing import Any

import httpx
import pytest

from headrace import DelegationRefused, InputRequired, Retry, Retryable, RunContext, agent
from headrace.model.errors import InvalidName
from headrace.model.messages import StartTask
from headrace.model.task import COMPLETED
from headrace.state_client import StateClient
from tests.integration.worker.conftest import Working
from tests.support.delegation_logs import answer, children, log_of, task_of
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import own_settings, running
from tests.support.task_submitter import TaskSubmitter

LARGE = 3_000_000
FILE = {
    "raw": b64encode(b"x" * LARGE).decode(),
    "filename": "x.bin",
    "mediaType": "application/x-made",
}


@agent()
async def weigher(ctx: RunContext) -> str:
    """Says how much the files of its message have."""
    files = [part for part in ctx.parts if "url" in part or "raw" in part]
    return " ".join([str(len(await ctx.content(part))) for part in files])


@agent()
async def sender(ctx: RunContext) -> str:
    """Sends a large file and a small one."""
    small = {"raw": b64encode(b"y").decode()}
    result = await ctx.delegate("weigher", {"parts": [{"text": "weigh"}, FILE, small]})
    return result.text


async def stored(submitter: TaskSubmitter) -> list[str]:
    """Return the files that the store has, each as ``tenant.agent.task.name``."""
    bucket = submitter.bus.streams.files
    info = await submitter.bus.js.stream_info(f"OBJ_{bucket}", subjects_filter=f"$O.{bucket}.C.>")
    return [chunks.removeprefix(f"$O.{bucket}.C.") for chunks in info.state.subjects or {}]


async def test_a_large_file_is_the_parents_in_the_store_and_linked_in_the_childs_log(
    submitter: TaskSubmitter, working: Working, names: dict[str, str]
) -> None:
    settings = own_settings(submitter.bus.settings.nats_url, **names)
    async with working(weigher, sender):
        parent = await submitter.start("sender")
        entries = await parent.ended()
        [key] = children(entries).values()
        child = await log_of(submitter, key)
        [file] = await stored(submitter)
        async with (
            running(settings) as gateway,
            httpx.AsyncClient(base_url=gateway, timeout=60, verify=NO_TLS) as http,
        ):
            shown = (await http.get(f"/v1/agents/weigher/tasks/{key.task}")).json()
            link = shown["history"][0]["parts"][1]["url"]
            content = (await http.get(link)).content
    assert answer(entries) == f"{LARGE} 1"
    text, large, small = task_of(child)["history"][0]["parts"]
    assert (text, small) == ({"text": "weigh"}, {"raw": b64encode(b"y").decode()})
    place = f"sender/tasks/{parent.key.task}/files/{file.rpartition('.')[2]}"
    assert large == {
        "url": f"headrace-file:{place}",
        "filename": "x.bin",
        "mediaType": "application/x-made",
    }
    assert link == f"{gateway}/v1/agents/{place}"
    assert content == b"x" * LARGE


async def test_a_parent_that_requests_again_stores_nothing_twice(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent(retry=Retry(backoff=0.0))
    async def insisting(ctx: RunContext) -> str:
        result = await ctx.delegate("weigher", {"parts": [FILE]})
        if ctx.attempt == 1:
            raise Retryable("once more")
        return result.text

    async with working(weigher, insisting):
        entries = await (await submitter.start("insisting")).ended()
        files = await stored(submitter)
    assert answer(entries) == str(LARGE)
    assert len(set(children(entries).values())) == 1
    assert len(files) == 1


async def test_files_of_a_question_that_is_refused_are_dropped(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def asking(ctx: RunContext) -> str:
        try:
            await ctx.delegate("nobody", {"parts": [FILE]})
        except DelegationRefused as refusal:
            return refusal.why
        return ""

    async with working(asking):
        entries = await (await submitter.start("asking")).ended()
        files = await stored(submitter)
    assert (answer(entries), files) == ("agent_unknown", [])


async def test_a_file_can_be_in_an_answer_too(submitter: TaskSubmitter, working: Working) -> None:
    @agent()
    async def asks_back(ctx: RunContext) -> None:
        if ctx.run == 1:
            await ctx.emit(InputRequired("Which file?"))
        else:
            await ctx.emit(str(len(await ctx.content(ctx.parts[0]))))

    @agent()
    async def asking(ctx: RunContext) -> str:
        result = await ctx.delegate("asks-back", "x")
        return (await ctx.reply(result, {"parts": [FILE]})).text

    async with working(asks_back, asking):
        entries = await (await submitter.start("asking")).ended()
    assert answer(entries) == str(LARGE)


NO_MESSAGES: dict[str, Any] = {
    "nothing": None,
    "a number": 7,
    "a list": [{"text": "x"}],
    "empty": {},
    "no parts": {"parts": []},
    "parts that are none": {"parts": "x"},
    "a part that is none": {"parts": ["x"]},
    "a part of nothing": {"parts": [{}]},
    "a part of two kinds": {"parts": [{"text": "x", "url": "y"}]},
    "a text that is none": {"parts": [{"text": 7}]},
    "bytes": {"parts": [{"raw": b"x"}]},
    "raw must be base64": {"parts": [{"raw": "?" * 200_000}]},
    "an object": {"parts": [{"data": object()}]},
    "metadata that is none": {"parts": [{"text": "x"}], "metadata": 7},
    "references that are none": {"parts": [{"text": "x"}], "referenceTaskIds": 7},
    "an id that is none": {"parts": [{"text": "x"}], "messageId": 7},
    "a text beyond all bounds": "x" * 20_000_000,
}


@pytest.mark.parametrize("message", NO_MESSAGES.values(), ids=NO_MESSAGES)
async def test_what_is_no_message_is_refused_and_the_asking_agent_goes_on(
    submitter: TaskSubmitter,
    working: Working,
    message: Any,  # noqa: ANN401  # the point
) -> None:
    @agent()
    async def clumsy(ctx: RunContext) -> str:
        try:
            await ctx.delegate("weigher", message)
        except DelegationRefused as refusal:
            return refusal.why
        return "not refused"

    async with working(weigher, clumsy):
        entries = await (await submitter.start("clumsy")).ended()
    assert (answer(entries), entries[-1].stamp.state) == ("bad_request", COMPLETED)


async def test_task_state_refuses_what_workers_in_other_languages_may_send(
    submitter: TaskSubmitter, working: Working
) -> None:
    refused = list[str]()

    @agent()
    async def asking(ctx: RunContext) -> None:
        query = StartTask(
            tenant="default",
            agent="weigher",
            parent=ctx.task,
            parent_agent="asking",
            run=1,
            attempt=1,
            name="n",
            message={"parts": [{"text": 7}]},
        )
        try:
            await StateClient(submitter.bus).start(query)
        except InvalidName as refusal:
            refused.append(refusal.rule)

    async with working(weigher, asking):
        await (await submitter.start("asking")).ended()
    assert refused == ["parts[0] text must be a string"]


async def test_one_run_delegates_a_limited_number_of_tasks(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def fanning_out(ctx: RunContext) -> str:
        requests = [ctx.delegate("weigher", f"{number}") for number in range(5)]
        ends = await asyncio.gather(*requests, return_exceptions=True)
        refused = [end for end in ends if isinstance(end, DelegationRefused)]
        return f"{len(refused)} {refused[0].why} {refused[0]}"

    async with working(weigher, fanning_out, delegation_children=3):
        entries = await (await submitter.start("fanning-out")).ended()
    assert len(children(entries)) == 3
    assert answer(entries) == (
        "2 too_many delegation to 'weigher' was refused: one run may start at most 3 tasks"
    )


async def test_a_number_that_json_does_not_have_is_named(
    submitter: TaskSubmitter, working: Working, caplog: pytest.LogCaptureFixture
) -> None:
    @agent()
    async def measuring(ctx: RunContext) -> str:
        parts = [{"text": "weigh"}, {"data": {"means": [1.5, math.nan]}}]
        return (await ctx.delegate("weighing", {"parts": parts})).text

    @agent(name="weighing")
    async def telling(ctx: RunContext) -> str:
        return str(ctx.parts[1]["data"])

    async with working(telling, measuring):
        parent = await submitter.start("measuring")
        entries = await parent.ended()
    assert answer(entries) == "{'means': [1.5, None]}"
    [warning] = [record.getMessage() for record in caplog.records if "nan" in record.getMessage()]
    assert warning == (
        f"task {parent.key.task}: to weighing, message.parts[1].data.means[1] is nan, which JSON"
        " does not have: null is sent"
    )
