"""What OpenAI-compatible servers send beside, or instead of, what the API's description says."""

import asyncio
import threading
from typing import Any

import pytest

from headrace import Agent, Retry, tool
from headrace.model.events import Json
from tests.integration.worker.conftest import Working
from tests.support.chat_stub import ChatStub, Reply, call, chat_stub, chunk, deltas, usage
from tests.support.log_reading import (
    answer,
    folded,
    results,
    state,
    thoughts,
    words,
)
from tests.support.task_submitter import TaskSubmitter


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def model(stub: ChatStub, **more: object) -> Agent:
    from headrace.adapters import openai_agent

    given = {
        "tools": [add],
        "memory": "task",
        "retry": Retry(backoff=0.0),
        "request_retries": 0,
        **more,
    }
    return openai_agent(name="model", model="small", base_url=stub.url, api_key="k", **given)  # type: ignore[arg-type]


def signed(index: int, name: str, signature: str) -> Json:
    """Return a tool call as Google's endpoint signs it."""
    output = call(index, id=name, name="add", arguments='{"a":1}')
    output["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": signature}}
    return output


async def test_what_a_model_emitted_is_replayed_with_every_field_and_clients_see_none(
    submitter: TaskSubmitter, working: Working
) -> None:
    detail = {"type": "reasoning.text", "index": 0, "text": "Ad", "format": "x"}
    first = deltas(
        {"role": "assistant", "reasoning_content": "Let me "},
        {"reasoning_content": "add.", "reasoning_details": [detail]},
        {"reasoning_details": [{"index": 0, "text": "d.", "signature": "S"}], "custom": 7},
        {"content": "I add."},
        signed(0, "c1", "sig-1"),
        finish="tool_calls",
    )
    async with (
        chat_stub(Reply(first), Reply(deltas({"content": "Two."}))) as stub,
        working(model(stub, show_thinking=False)),
    ):
        task = await submitter.start("model", "1 + 1?")
        done = await folded(task)
    assert thoughts(done) == ""
    output = stub.requests[1]["messages"][1]
    assert output == {
        "role": "assistant",
        "content": "I add.",
        "reasoning_content": "Let me add.",
        "reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": "Add.", "format": "x", "signature": "S"}
        ],
        "custom": 7,
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "add", "arguments": '{"a":1}'},
                "extra_content": {"google": {"thought_signature": "sig-1"}},
            }
        ],
    }
    entries = await task.entries()
    assert entries
    for entry in entries:
        assert not any(b"sig-1" in line or b"Let me" in line for line in entry.lines)


async def test_a_large_response_survives_into_the_next_run_and_on_another_worker(
    submitter: TaskSubmitter, working: Working
) -> None:
    signature = "s" * 50_000
    paint = {"name": "paint", "description": "", "parameters": {"type": "object"}}
    output = call(0, id="p1", name="paint", arguments="{}")
    output["tool_calls"][0]["extra_content"] = {"signature": signature}
    agui: Json = {"tools": [paint]}
    result = {
        "data": {"tool_call_id": "p1", "content": "wet", "error": ""},
        "metadata": {"agui_event_type": "tool_call", "agui_is_error": False},
    }
    replies = Reply(deltas(output, finish="tool_calls")), Reply(deltas({"content": "Done."}))
    async with chat_stub(*replies) as stub:
        async with working(model(stub)):
            task = await submitter.start("model", "x", metadata={"headrace.agui": agui})
            await task.ended()
        async with working(model(stub)):
            message = {"messageId": "r", "role": "ROLE_USER", "parts": [result]}
            run = await task.follow_up_with(message, {"headrace.agui": agui})
            await task.reaches(run + 2)
            done = await folded(task)
    assert answer(done) == "Done."
    [called] = stub.requests[1]["messages"][1]["tool_calls"]
    assert called["extra_content"] == {"signature": signature}


async def test_usage_that_is_repeated_in_each_chunk_counts_once(
    submitter: TaskSubmitter, working: Working
) -> None:
    used = usage(11, 1)["usage"]
    counting = [
        {**chunk({"content": "a"}), "usage": used},
        {**chunk({"content": "b"}, "stop"), "usage": {**used, "completion_tokens": 2}},
        usage(11, 2),
    ]
    async with chat_stub(Reply(counting)) as stub, working(model(stub)):
        done = await folded(await submitter.start("model", "x"))
    assert done["metadata"]["tokens_used"] == 13


async def test_null_deltas_and_choices_emit_nothing(
    submitter: TaskSubmitter, working: Working
) -> None:
    odd: list[Json] = [
        {**chunk({}), "choices": None},
        {**chunk({}), "choices": [{"index": 0, "delta": None, "finish_reason": None}]},
        chunk({"content": "fine"}),
        {**chunk({}), "choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]},
    ]
    async with chat_stub(Reply(odd)) as stub, working(model(stub)):
        done = await folded(await submitter.start("model", "x"))
    assert (state(done), answer(done)) == ("COMPLETED", "fine")


async def test_calls_without_ids_are_distinguished(
    submitter: TaskSubmitter, working: Working
) -> None:
    first = deltas(
        call(0, name="add", arguments='{"a":1}'),
        call(0, name="add", arguments='{"a":2}'),
        finish="tool_calls",
    )
    async with (
        chat_stub(Reply(first), Reply(deltas({"content": "x"}))) as stub,
        working(model(stub)),
    ):
        done = await folded(await submitter.start("model", "x"))
    assert sorted(content for content, _ in results(done)) == [2, 3]  # type: ignore[type-var]
    ids = [c["id"] for c in stub.requests[1]["messages"][1]["tool_calls"]]
    assert len(set(ids)) == 2


@pytest.mark.parametrize(
    "pieces",
    [
        [call(0, name="add", arguments='{"a":'), call(0, id="c0", name="add", arguments="1}")],
        [call(0, name="add", arguments='{"a":'), call(0, id="c0", arguments="1}")],
        [call(0, id="c0"), call(0, name="add", arguments='{"a":1}')],
        [call(0, id="c0", name="add", arguments='{"a":1}'), call(0, name="add")],
    ],
    ids=["an id with the name again", "an id", "a name", "an end with the name again"],
)
async def test_what_comes_late_belongs_to_its_call(
    submitter: TaskSubmitter, working: Working, pieces: list[Json]
) -> None:
    first = deltas(*pieces, finish="tool_calls")
    async with (
        chat_stub(Reply(first), Reply(deltas({"content": "x"}))) as stub,
        working(model(stub)),
    ):
        done = await folded(await submitter.start("model", "x"))
    assert [content for content, _ in results(done)] == [2]
    [sent] = stub.requests[1]["messages"][1]["tool_calls"]
    assert sent["function"] == {"name": "add", "arguments": '{"a":1}'}


@pytest.mark.parametrize(
    "pieces",
    [
        [
            call(0, id="c0", name="add", arguments='{"a":'),
            call(0, id="c1", name="add", arguments='{"a":'),
            call(0, id="c0", arguments="1}"),
            call(0, id="c1", arguments="2}"),
        ],
        [
            call(0, id="same", name="add", arguments='{"a":1}'),
            call(0, id="same", name="add", arguments='{"a":2}'),
        ],
        [
            call(0, id="same", name="add", arguments='{"a":1}'),
            call(1, id="same", name="add", arguments='{"a":2}'),
        ],
        [call(0, name="one"), call(0, name="two")],
    ],
    ids=["interleaved at one index", "one id and index", "one id", "names alone"],
)
async def test_pieces_of_two_calls_make_two(
    submitter: TaskSubmitter, working: Working, pieces: list[Json]
) -> None:
    @tool
    def one() -> int:
        """Return 2."""
        return 2

    @tool
    def two() -> int:
        """Return 3."""
        return 3

    first = deltas(*pieces, finish="tool_calls")
    async with (
        chat_stub(Reply(first), Reply(deltas({"content": "x"}))) as stub,
        working(model(stub, tools=[add, one, two])),
    ):
        done = await folded(await submitter.start("model", "x"))
    assert sorted(content for content, _ in results(done)) == [2, 3]  # type: ignore[type-var]
    ids = [c["id"] for c in stub.requests[1]["messages"][1]["tool_calls"]]
    assert len(set(ids)) == 2


async def test_a_clients_call_that_is_cut_off_by_length_is_the_models_to_repeat(
    submitter: TaskSubmitter, working: Working
) -> None:
    cut = deltas(call(0, id="p1", name="paint", arguments='{"colour": "re'), finish="length")
    agui: Json = {"tools": [{"name": "paint", "description": "", "parameters": {}}]}
    async with (
        chat_stub(Reply(cut), Reply(deltas({"content": "Sorry."}))) as stub,
        working(model(stub)),
    ):
        done = await folded(await submitter.start("model", "x", metadata={"headrace.agui": agui}))
    assert (state(done), answer(done)) == ("COMPLETED", "Sorry.")
    assert "cut off" in results(done)[0][1]
    assert "cut off" in stub.requests[1]["messages"][2]["content"]


async def test_an_empty_answer_of_an_earlier_turn_is_not_null(
    submitter: TaskSubmitter, working: Working
) -> None:
    messages: list[Json] = [
        {"id": "1", "role": "user", "content": "a"},
        {"id": "2", "role": "assistant", "content": ""},
        {"id": "3", "role": "user"},
    ]
    async with chat_stub(Reply(deltas({"content": "x"}))) as stub, working(model(stub)):
        task = await submitter.start(
            "model", "b", metadata={"headrace.agui": {"messages": messages}}
        )
        await task.ended()
    assert [m["content"] for m in stub.requests[0]["messages"]] == ["a", "b"]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The clients that agents make."""
    from openai import AsyncOpenAI

    clients: list[Any] = []

    class Noted(AsyncOpenAI):
        def __init__(self, **given: Any) -> None:  # noqa: ANN401  # the client's own
            super().__init__(**given)
            clients.append(self)

    monkeypatch.setattr("headrace.adapters.openai.agent.AsyncOpenAI", Noted)
    return clients


def test_keys_of_openais_go_to_openai_alone(
    monkeypatch: pytest.MonkeyPatch, made: list[Any]
) -> None:
    from headrace.adapters import openai_agent

    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("OPENAI_ORG_ID", "org")
    for url in ("http://elsewhere.test/v1", "https://openai.com.evil.test/v1", None):
        openai_agent(name="m", model="s", base_url=url)
    openai_agent(name="m", model="s", base_url="https://eu.api.openai.com/v1")
    assert [client.api_key for client in made] == ["none", "none", "secret", "secret"]
    assert [client.organization for client in made] == [None, None, "org", "org"]


def test_a_connection_has_a_time_out_of_its_own(made: list[Any]) -> None:
    from headrace.adapters import openai_agent

    openai_agent(name="m", model="s", base_url="http://x.test/v1", connect_timeout=3.0)
    assert (made[0].timeout.connect, made[0].timeout.read) == (3.0, 600.0)


async def test_tools_that_block_leave_asyncios_threads_alone(
    submitter: TaskSubmitter, working: Working
) -> None:
    gate, begun = threading.Event(), threading.Semaphore(0)

    @tool
    def block() -> str:
        begun.release()
        assert gate.wait(60)
        return "x"

    several = [call(n, id=f"c{n}", name="block", arguments="{}") for n in range(40)]
    replies = Reply(deltas(*several, finish="tool_calls")), Reply(deltas({"content": "x"}))
    async with chat_stub(*replies) as stub, working(model(stub, tools=[block])):
        task = await submitter.start("model", "x")
        try:
            async with asyncio.timeout(60):
                # All forty are at work, and a thread of asyncio's own is still to be had.
                await asyncio.to_thread(lambda: [begun.acquire(timeout=60) for _ in several])
        finally:
            gate.set()
        done = await folded(task)
    assert (state(done), words(done), len(results(done))) == ("COMPLETED", "", 40)
