"""A model behind an OpenAI-compatible endpoint, whose stub speaks the real wire format."""

import asyncio
import base64
import threading
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from headrace import Agent, Retry, RunContext, ToolError, tool
from headrace.model.events import Json
from headrace.sdk.errors import Misdeclared
from tests.integration.worker.conftest import Working
from tests.support.chat_stub import ChatStub, Reply, call, chat_stub, chunk, deltas, usage
from tests.support.examples import example
from tests.support.log_reading import (
    answer,
    folded,
    results,
    said,
    state,
    thoughts,
    words,
)
from tests.support.spans import RecordedSpans, parent, traceparent
from tests.support.task_submitter import TaskSubmitter


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool
async def whose(ctx: RunContext) -> Json:
    """Tell who asks."""
    return {"owner": ctx.owner}


@tool(name="break")
def break_() -> str:
    """Break."""
    raise RuntimeError("secret")


@tool
def refuse() -> str:
    """Refuse."""
    raise ToolError("not today")


LINKED = "http://169.254.169.254/latest/meta-data/a.jpg"
"""An image's URL, which the endpoint would fetch inside of its network."""


def model(stub: ChatStub, **more: object) -> Agent:
    from headrace.adapters import openai_agent

    given = {
        "tools": [add, whose, break_, refuse],
        "memory": "task",
        "retry": Retry(backoff=0.0),
        "request_retries": 0,
        **more,
    }
    return openai_agent(name="model", model="small", base_url=stub.url, api_key="k", **given)  # type: ignore[arg-type]


async def test_text_and_reasoning_stream_into_blocks_with_their_metadata(
    submitter: TaskSubmitter, working: Working
) -> None:
    reply = Reply(
        [
            chunk({"role": "assistant", "content": ""}),
            chunk({"reasoning_content": "Let me "}),
            chunk({"reasoning_content": "see."}),
            *deltas({"content": "It is "}, {"content": "four."}),
            usage(11, 7),
        ]
    )
    async with chat_stub(reply) as stub, working(model(stub, instruction="Be brief.")):
        task = await submitter.start("model", "2 + 2?")
        done = await folded(task)
    assert (state(done), answer(done), thoughts(done)) == (
        "COMPLETED",
        "It is four.",
        "Let me see.",
    )
    [request] = stub.requests
    assert request["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "2 + 2?"},
    ]
    assert (request["model"], request["stream"], stub.keys) == ("small", True, ["Bearer k"])
    assert request["stream_options"] == {"include_usage": True}
    part = done["artifacts"][0]["parts"][0]
    assert part["metadata"]["agui_event_type"] == "content_block"
    assert done["metadata"]["tokens_used"] == 18


async def test_a_call_of_the_model_is_a_span_of_the_attempt(
    submitter: TaskSubmitter, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = RecordedSpans(monkeypatch)
    async with (
        chat_stub(Reply(status=500), Reply([*deltas({"content": "4"}), usage(11, 7)])) as stub,
        working(model(stub)),
    ):
        await folded(await submitter.start("model", "2 + 2?"))
    failed, answered = spans.named("chat small")
    first, second = spans.named("invoke_agent model")
    assert [parent(failed), parent(answered)] == [traceparent(first), traceparent(second)]
    request = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "small",
        "server.address": "127.0.0.1",
    }
    assert dict(failed.attributes or {}) == request | {"error.type": "InternalServerError"}
    assert dict(answered.attributes or {}) == request | {
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.model": "small",
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 7,
    }


def spent() -> float:
    """Return what this process has counted so far."""
    labels = {"agent": "model", "version": "1.0.0"}
    return REGISTRY.get_sample_value("headrace_cost_total", labels) or 0.0


async def test_tokens_cost_what_the_provider_reports_or_else_the_file_of_prices(
    submitter: TaskSubmitter, working: Working, tmp_path: Path
) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('[[price]]\nmodel = "small"\ninput = 1000.0\noutput = 2000.0\n')
    billed = usage(11, 7)
    billed["usage"]["cost"] = 0.5
    absurd = usage(11, 7)
    absurd["usage"]["cost"] = True
    costs = [spent()]
    for last in (billed, usage(11, 7), absurd):
        async with (
            chat_stub(Reply([*deltas({"content": "4"}), last])) as stub,
            working(model(stub), prices=prices),
        ):
            await folded(await submitter.start("model", "2 + 2?"))
        costs.append(spent())
    assert costs[1] - costs[0] == pytest.approx(0.5)
    assert costs[2] - costs[1] == pytest.approx(0.025)
    assert costs[3] - costs[2] == pytest.approx(0.025)


async def test_reasoning_has_a_second_name_and_need_not_be_shown(
    submitter: TaskSubmitter, working: Working
) -> None:
    reply = Reply(deltas({"reasoning": "Hm."}, {"content": "x"}))
    async with chat_stub(reply, reply) as stub:
        async with working(model(stub)):
            shown = await folded(await submitter.start("model", "?"))
        async with working(model(stub, show_thinking=False)):
            hidden = await folded(await submitter.start("model", "?"))
    assert (thoughts(shown), thoughts(hidden)) == ("Hm.", "")


async def test_tools_are_called_with_streamed_arguments_and_answered_to_the_model(
    submitter: TaskSubmitter, working: Working
) -> None:
    first = deltas(
        {"content": "I add. "},
        call(0, id="c1", name="add", arguments=""),
        call(0, arguments='{"a": 2, '),
        call(0, arguments='"b": 3}'),
        call(1, id="c2", name="whose"),
        finish="tool_calls",
    )
    async with (
        chat_stub(Reply(first), Reply(deltas({"content": "Five."}))) as stub,
        working(model(stub)),
    ):
        task = await submitter.start("model", "2 + 3?")
        done = await folded(task)
    assert answer(done) == "I add. Five."
    assert sorted(results(done), key=str) == [(5, ""), ({"owner": "anonymous"}, "")]
    texts = [part for part in said(done) if part["metadata"]["agui_event_type"] == "tool_call"]
    assert texts[0]["text"] == '{"a": 2, "b": 3}'
    assert texts[0]["metadata"]["agui_tool_name"] == "add"
    assert stub.requests[1]["messages"][1:] == [
        {
            "role": "assistant",
            "content": "I add. ",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'},
                },
                {"id": "c2", "type": "function", "function": {"name": "whose", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "5"},
        {"role": "tool", "tool_call_id": "c2", "content": '{"owner":"anonymous"}'},
    ]
    assert stub.requests[0]["tools"][0]["function"] == {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}},
            "required": ["a"],
            "additionalProperties": False,
        },
    }


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("add", '{"a": "two"}', "a: Input should be a valid integer"),
        ("add", '{"a": 1, "c": 2}', "c: Extra inputs are not permitted"),
        ("add", '{"a": ', "Invalid JSON"),
        ("refuse", "{}", "not today"),
        ("break", "{}", "break failed (error "),
        ("nothing", "{}", "tool 'nothing' does not exist"),
    ],
)
async def test_what_goes_wrong_with_a_tool_is_its_answer(
    submitter: TaskSubmitter, working: Working, name: str, arguments: str, error: str
) -> None:
    first = deltas(call(0, id="c1", name=name, arguments=arguments), finish="tool_calls")
    async with (
        chat_stub(Reply(first), Reply(deltas({"content": "Sorry."}))) as stub,
        working(model(stub)),
    ):
        done = await folded(await submitter.start("model", "x"))
    [(_, received)] = results(done)
    assert error in received
    assert "secret" not in received
    assert stub.requests[1]["messages"][-1]["content"] == f"Error: {received}"
    assert (state(done), answer(done)) == ("COMPLETED", "Sorry.")


async def test_calls_that_share_index_or_id_are_distinguished(
    submitter: TaskSubmitter, working: Working
) -> None:
    first = deltas(
        call(0, id="c0", name="add", arguments='{"a": 1}'),
        call(0, id="c1", name="add", arguments='{"a": 2}'),
        finish="tool_calls",
    )
    again = deltas(call(0, id="c0", name="add", arguments='{"a": 3}'), finish="tool_calls")
    async with (
        chat_stub(Reply(first), Reply(again), Reply(deltas({"content": "x"}))) as stub,
        working(model(stub)),
    ):
        done = await folded(await submitter.start("model", "x"))
    assert sorted(content for content, _ in results(done)) == [2, 3, 4]  # type: ignore[type-var]
    ids = [m["tool_call_id"] for m in stub.requests[2]["messages"] if m["role"] == "tool"]
    assert len(set(ids)) == 3


PAINT = {"name": "paint", "description": "Paint it.", "parameters": {"type": "object"}}


async def test_a_user_interfaces_tools_are_passed_on_and_their_results_go_on(
    submitter: TaskSubmitter, working: Working
) -> None:
    first = deltas(
        call(0, id="c1", name="paint", arguments='{"colour": "red"}'),
        call(1, id="c2", name="add", arguments='{"a": 1}'),
        finish="tool_calls",
    )
    agui = {"tools": [PAINT], "context": [{"description": "Wall", "value": "north"}]}
    async with (
        chat_stub(Reply([*first, usage(1, 1)]), Reply(deltas({"content": "Done."}))) as stub,
        working(model(stub)),
    ):
        task = await submitter.start("model", "paint", metadata={"headrace.agui": agui})
        entries = await task.ended()
        waits = entries[-1].events[-1]["statusUpdate"]
        assert waits["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert waits["metadata"]["headrace.pendingToolCalls"] == ["c1"]
        run = await task.follow_up_with(
            {
                "messageId": "r",
                "role": "ROLE_USER",
                "parts": [
                    {
                        "data": {"tool_call_id": "c1", "content": "painted", "error": ""},
                        "metadata": {"agui_event_type": "tool_call", "agui_is_error": False},
                    }
                ],
            }
        )
        await task.reaches(run + 2)
        done = await folded(task)
    assert (state(done), answer(done)) == ("COMPLETED", "Done.")
    assert stub.requests[0]["messages"][0] == {"role": "system", "content": "Wall: north"}
    assert stub.requests[0]["tools"][-1]["function"]["name"] == "paint"
    messages = [
        (m["role"], m.get("tool_call_id"), m["content"]) for m in stub.requests[1]["messages"]
    ]
    assert messages == [
        ("user", None, "paint"),
        ("assistant", None, None),
        ("tool", "c1", "painted"),
        ("tool", "c2", "2"),
    ]


async def test_an_unanswered_call_is_reported_to_the_model(
    submitter: TaskSubmitter, working: Working
) -> None:
    first = deltas(call(0, id="c1", name="paint", arguments="{}"), finish="tool_calls")
    async with (
        chat_stub(Reply(first), Reply(deltas({"content": "As you like."}))) as stub,
        working(model(stub)),
    ):
        task = await submitter.start(
            "model", "paint", metadata={"headrace.agui": {"tools": [PAINT]}}
        )
        await task.ended()
        run = await task.follow_up("never mind")
        await task.reaches(run + 2)
        await task.ended()
    roles = [message["role"] for message in stub.requests[1]["messages"]]
    assert roles == ["user", "assistant", "tool", "user"]
    assert stub.requests[1]["messages"][2]["content"] == "Error: there was no answer"


async def test_an_agui_clients_messages_are_the_conversation(
    submitter: TaskSubmitter, working: Working
) -> None:
    agui = {
        "messages": [
            {"id": "1", "role": "developer", "content": "Be kind."},
            {"id": "2", "role": "user", "content": "2 + 2?"},
            {
                "id": "3",
                "role": "assistant",
                "toolCalls": [
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
            {"id": "4", "role": "tool", "toolCallId": "c", "content": "4"},
            {"id": "5", "role": "assistant", "content": "Four."},
            {"id": "6", "role": "user"},
        ]
    }
    async with chat_stub(Reply(deltas({"content": "x"}))) as stub, working(model(stub)):
        task = await submitter.start("model", "And 3?", metadata={"headrace.agui": agui})
        await task.ended()
    messages = [(m["role"], m["content"]) for m in stub.requests[0]["messages"]]
    assert messages == [
        ("system", "Be kind."),
        ("user", "2 + 2?"),
        ("assistant", None),
        ("tool", "4"),
        ("assistant", "Four."),
        ("user", "And 3?"),
    ]


@pytest.mark.parametrize("image_urls", [None, True])
async def test_images_data_and_files_reach_the_model_and_links_only_if_allowed(
    submitter: TaskSubmitter, working: Working, *, image_urls: bool | None
) -> None:
    raw = base64.b64encode(b"png").decode()
    message: Json = {
        "messageId": "m",
        "role": "ROLE_USER",
        "parts": [
            {"text": "What is it?"},
            {"raw": raw, "mediaType": "image/png"},
            {"url": LINKED, "mediaType": "image/jpeg"},
            {"url": "Data:image/png;base64,iVBO", "mediaType": "image/png"},
            {"data": {"n": 1}},
            {"raw": raw, "filename": "a.zip", "mediaType": "application/zip"},
        ],
    }
    reply = Reply(deltas({"content": "x"}))
    async with chat_stub(reply) as stub, working(model(stub, image_urls=image_urls)):
        await (await submitter.start("model", message=message)).ended()
    assert stub.requests[0]["messages"][0]["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{raw}"}},
        {"type": "image_url", "image_url": {"url": LINKED}}
        if image_urls
        else {"type": "text", "text": f"[file {LINKED}]"},
        {"type": "image_url", "image_url": {"url": "Data:image/png;base64,iVBO"}},
        {"type": "text", "text": '{"n":1}'},
        {"type": "text", "text": "[file a.zip]"},
    ]


@pytest.mark.parametrize(
    "error",
    [
        Reply(status=429, headers={"retry-after": "0"}),
        Reply(status=503),
        Reply([chunk({"content": "lost"})], breaks=True),
        Reply([chunk({"content": "lost"})]),
        Reply([chunk({"content": "lost"}), {"error": {"message": "secret"}}]),
    ],
    ids=["busy", "down", "cut off", "unfinished", "error in the stream"],
)
async def test_a_temporary_error_is_retried(
    submitter: TaskSubmitter, working: Working, error: Reply
) -> None:
    async with (
        chat_stub(error, Reply(deltas({"content": "found"}))) as stub,
        working(model(stub)),
    ):
        done = await folded(await submitter.start("model", "x"))
    assert (state(done), answer(done), len(stub.requests)) == ("COMPLETED", "found", 2)


async def test_silence_is_tried_again(submitter: TaskSubmitter, working: Working) -> None:
    # Once more on a machine so slow that also the answer takes too long.
    replies = Reply([], hangs=True), *[Reply(deltas({"content": "found"}))] * 3
    async with chat_stub(*replies) as stub, working(model(stub, request_timeout=3.0)):
        done = await folded(await submitter.start("model", "x"))
    assert (state(done), answer(done)) == ("COMPLETED", "found")


async def test_a_refused_request_fails_without_a_second_try(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with chat_stub(Reply(status=401)) as stub, working(model(stub)):
        done = await folded(await submitter.start("model", "x"))
    assert (state(done), len(stub.requests)) == ("FAILED", 1)
    assert words(done) == "The model's endpoint refused the request (401)"


async def test_a_redirect_takes_neither_headers_nor_the_conversation_elsewhere(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with chat_stub(Reply(deltas({"content": "caught"}))) as elsewhere:
        moved = Reply(status=307, headers={"location": f"{elsewhere.url}/chat/completions"})
        async with (
            chat_stub(moved) as stub,
            working(model(stub, headers={"X-Partner-Key": "secret"})),
        ):
            done = await folded(await submitter.start("model", "x"))
    assert (state(done), len(stub.requests), elsewhere.requests) == ("FAILED", 1, [])
    assert words(done) == "The model's endpoint refused the request (307)"


async def test_a_permanent_error_fails_the_task(submitter: TaskSubmitter, working: Working) -> None:
    replies = [Reply(status=500)] * 2
    async with (
        chat_stub(*replies) as stub,
        working(model(stub, retry=Retry(attempts=2, backoff=0.0))),
    ):
        done = await folded(await submitter.start("model", "x"))
    assert (state(done), len(stub.requests)) == ("FAILED", 2)
    assert "answered 500" in words(done)


async def test_a_cancel_closes_the_stream(submitter: TaskSubmitter, working: Working) -> None:
    async with (
        chat_stub(Reply([chunk({"content": "and "})], hangs=True)) as stub,
        working(model(stub)),
    ):
        task = await submitter.start("model", "x")
        await task.reaches(3)
        await task.held()
        await task.ask("cancel")
        done = await folded(task)
        async with asyncio.timeout(60):
            await stub.left.wait()
    assert state(done) == "CANCELED"


async def test_a_refusal_rejects_and_a_filter_too(
    submitter: TaskSubmitter, working: Working
) -> None:
    refused = Reply(deltas({"refusal": "I "}, {"refusal": "won't."}))
    filtered = Reply(deltas({"content": "x"}, finish="content_filter"))
    async with chat_stub(refused, filtered) as stub, working(model(stub)):
        first = await folded(await submitter.start("model", "x"))
        second = await folded(await submitter.start("model", "x"))
    assert (state(first), words(first)) == ("REJECTED", "I won't.")
    assert state(second) == "REJECTED"


async def test_a_model_that_never_stops_calling_is_stopped(
    submitter: TaskSubmitter, working: Working
) -> None:
    again = Reply(deltas(call(0, name="add", arguments='{"a": 1}'), finish="tool_calls"))
    async with chat_stub(*[again] * 3) as stub, working(model(stub, max_turns=3)):
        done = await folded(await submitter.start("model", "x"))
    assert (state(done), len(stub.requests)) == ("FAILED", 3)
    assert "3 turns" in words(done)


async def test_a_tool_that_blocks_runs_beside_the_worker(
    submitter: TaskSubmitter, working: Working
) -> None:
    threads: list[int] = []

    @tool
    def where() -> None:
        threads.append(threading.get_ident())

    first = deltas(call(0, id="c", name="where"), finish="tool_calls")
    async with (
        chat_stub(Reply(first), Reply(deltas({"content": "x"}))) as stub,
        working(model(stub, tools=[where])),
    ):
        done = await folded(await submitter.start("model", "x"))
    assert results(done) == [(None, "")]
    assert threads != [threading.get_ident()]


async def test_the_example_answers_with_its_tool(
    submitter: TaskSubmitter, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = deltas(
        call(0, id="c", name="in_stock", arguments='{"item": "nails"}'), finish="tool_calls"
    )
    async with chat_stub(Reply(first), Reply(deltas({"content": "500 nails."}))) as stub:
        # Task state, which knows the conversation, is not part of this test.
        monkeypatch.setattr("headrace.adapters.openai.agent.conversation", _alone)
        async with working(example("chat_model", MODEL_URL=stub.url).oracle):
            done = await folded(await submitter.start("oracle", "How many nails?"))
    assert (answer(done), results(done)) == ("500 nails.", [(500, "")])


async def _alone(ctx: RunContext, _: object, verbatim: str) -> object:
    from headrace.adapters.conversation.memory import conversation  # the real one

    return await conversation(ctx, "task", verbatim)


def test_an_endpoint_of_ones_own_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.adapters import openai_agent

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert openai_agent(name="model", model="small", base_url="http://127.0.0.1:1/v1")
    with pytest.raises(Misdeclared, match="api_key"):
        openai_agent(name="model", model="small")


def test_two_tools_of_one_name_are_refused() -> None:
    from headrace.adapters import openai_agent

    also = tool(name="add")(lambda: 1)
    with pytest.raises(Misdeclared, match="'add'"):
        openai_agent(name="m", model="s", base_url="http://x.test/v1", tools=[add, also])
