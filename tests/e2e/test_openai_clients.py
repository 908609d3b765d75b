"""What people do with OpenAI's clients: tools, approvals, kills, other gateways, JavaScript."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.architecture.tree import ROOT
from tests.support import extra_services, javascript
from tests.support.credentials import ANN, Person, write
from tests.support.document import examples
from tests.support.doors.openai import client
from tests.support.fleet import Fleet
from tests.support.service_process import ServiceProcess
from tests.support.stack import Stack
from tests.support.waiting import until

type Json = dict[str, Any]

_DOORS = javascript.FOLDER.parent / "doors"
_EVENTS: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
_PRICE: Json = {
    "name": "price",
    "parameters": {"type": "object", "properties": {"item": {"type": "string"}}},
}


@pytest.fixture(scope="module")
def shop(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a gateway of a fleet with the shopkeeper."""
    folder, nats_url = tmp_path_factory.mktemp("shop"), stack.dev()["nats_url"]
    with extra_services.worker(folder, "agents", nats_url, "doors.agents"):
        served = partial(extra_services.is_served, stack.gateways, "shopkeeper")
        until(served, "the shopkeeper is there")
        yield stack.url


@pytest.fixture
async def one(fleet: Fleet) -> AsyncIterator[openai.AsyncOpenAI]:
    async with client(fleet.gateways[0]) as one:
        yield one


def _frames(body: str) -> list[Json]:
    """Return the data of each event of a stream."""
    lines = [line for line in body.splitlines() if line.startswith("data: {")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


async def test_every_event_is_one_of_openais(fleet: Fleet, http: httpx.AsyncClient) -> None:
    asked = {"model": "assistant", "input": "one two", "stream": True, "metadata": {"a": "b"}}
    answer = await http.post(f"{fleet.gateways[0]}/v1/responses", json=asked)
    found = _frames(answer.text)
    assert len(found) > 20
    for event in found:
        assert _EVENTS.validate_python(event).type == event["type"]
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    whole = Response.model_validate(found[-1]["response"])
    kinds = [item.type for item in whole.output]
    assert kinds == ["reasoning", "mcp_call", "message", "message"]
    assert (whole.metadata, whole.status) == ({"a": "b"}, "completed")


async def test_every_chunk_is_one_of_openais(fleet: Fleet, http: httpx.AsyncClient) -> None:
    said = [{"role": "user", "content": "one two"}]
    asked = {"model": "assistant", "messages": said, "stream": True}
    answer = await http.post(f"{fleet.gateways[0]}/v1/chat/completions", json=asked)
    found = [ChatCompletionChunk.model_validate(each) for each in _frames(answer.text)]
    assert len(found) > 5
    assert answer.text.endswith("data: [DONE]\n\n")
    assert found[-1].choices[0].finish_reason == "stop"


async def test_a_client_carries_out_calls_and_decides_on_approvals(
    fleet: Fleet, shop: str, one: openai.AsyncOpenAI
) -> None:
    assert shop
    tool: Any = {"type": "function", "strict": False, **_PRICE}
    first = await one.responses.create(model="shopkeeper", input="nails", tools=[tool])
    assert first.output_text == "Asking price. "
    [call] = [item for item in first.output if item.type == "function_call"]
    assert (call.name, json.loads(call.arguments)) == ("price", {"item": "nails"})
    assert len(call.call_id) <= 64

    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "3 EUR"}
    async with client(fleet.gateways[1]) as other:
        second = await other.responses.create(
            model="shopkeeper", input=[result], previous_response_id=first.id
        )
    assert second.output_text == "It costs 3 EUR. Shall I buy it?"
    [approval] = [item for item in second.output if item.type == "mcp_approval_request"]
    assert (approval.name, json.loads(approval.arguments)) == ("buy", {"item": "nails"})

    # Neither a stop of what is over nor an answer that comes twice does anything to the task.
    assert (await one.responses.cancel(first.id)).status == "completed"
    with pytest.raises(openai.BadRequestError, match=call.call_id):
        await one.responses.create(
            model="shopkeeper", input=[result], previous_response_id=second.id
        )
    decision: Any = {
        "type": "mcp_approval_response",
        "approval_request_id": approval.id,
        "approve": True,
    }
    third = await one.responses.create(
        model="shopkeeper", input=[decision], previous_response_id=second.id
    )
    assert third.output_text == "Bought."
    [made] = [item for item in third.output if item.type == "mcp_call"]
    assert (made.name, made.output) == ("buy", "bought")
    with pytest.raises(openai.BadRequestError, match=approval.id):
        await one.responses.create(
            model="shopkeeper", input=[decision], previous_response_id=third.id
        )
    assert len({first.id.split("_")[2], second.id.split("_")[2], third.id.split("_")[2]}) == 1


async def test_a_refusal_has_its_reason(shop: str, one: openai.AsyncOpenAI) -> None:
    assert shop
    tool: Any = {"type": "function", "strict": False, **_PRICE}
    said: list[Any] = [{"role": "user", "content": "nails"}]
    answer = await one.responses.create(model="shopkeeper", input=said, tools=[tool])
    # A client without `previous_response_id` sends the whole conversation each time.
    said += [item.model_dump(exclude_none=True) for item in answer.output]
    [call] = [item for item in answer.output if item.type == "function_call"]
    said.append({"type": "function_call_output", "call_id": call.call_id, "output": "3 EUR"})
    asked = await one.responses.create(model="shopkeeper", input=said, tools=[tool])
    [approval] = [item for item in asked.output if item.type == "mcp_approval_request"]
    said += [item.model_dump(exclude_none=True) for item in asked.output]
    refusal = {"approval_request_id": approval.id, "approve": False, "reason": "too dear"}
    said.append({"type": "mcp_approval_response", **refusal})
    ended = await one.responses.create(model="shopkeeper", input=said, tools=[tool])
    assert ended.output_text == "Not bought: too dear"


async def test_parallel_calls_are_answered_together(shop: str, one: openai.AsyncOpenAI) -> None:
    assert shop
    tool: Any = {"type": "function", "strict": False, **_PRICE}
    first = await one.responses.create(model="shopkeeper", input="nails and glue", tools=[tool])
    calls = [item.call_id for item in first.output if item.type == "function_call"]
    results: Any = [
        {"type": "function_call_output", "call_id": call, "output": "3 EUR"} for call in calls
    ]
    answer = partial(one.responses.create, model="shopkeeper", previous_response_id=first.id)
    with pytest.raises(openai.BadRequestError, match=f"input: no output.*{calls[1]}"):
        await answer(input=results[:1])
    assert (await answer(input=results)).output_text.startswith("It costs 3 EUR.")

    chat: Any = {"type": "function", "function": _PRICE}
    said: list[Any] = [{"role": "user", "content": "nails and glue"}]
    made = await one.chat.completions.create(model="shopkeeper", messages=said, tools=[chat])
    message = made.choices[0].message
    ids = [call.id for call in message.tool_calls or ()]
    said.append(message.model_dump(exclude_none=True))
    said.append({"role": "tool", "tool_call_id": ids[1], "content": "3 EUR"})
    with pytest.raises(openai.BadRequestError, match=f"messages: no output.*{ids[0]}"):
        await one.chat.completions.create(model="shopkeeper", messages=said, tools=[chat])


async def test_a_chat_carries_out_calls(shop: str, one: openai.AsyncOpenAI) -> None:
    assert shop
    tool: Any = {"type": "function", "function": _PRICE}
    said: list[Any] = [{"role": "user", "content": "nails"}]
    first = await one.chat.completions.create(model="shopkeeper", messages=said, tools=[tool])
    assert first.choices[0].finish_reason == "tool_calls"
    message = first.choices[0].message
    assert message.tool_calls is not None
    said.append(message.model_dump(exclude_none=True))
    said.append({"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "3 EUR"})
    second = await one.chat.completions.create(model="shopkeeper", messages=said, tools=[tool])
    assert second.choices[0].message.content == "It costs 3 EUR. \n\nShall I buy it?"


async def test_a_streamed_chat_has_no_calls_of_an_attempt_that_failed(
    shop: str, one: openai.AsyncOpenAI
) -> None:
    assert shop
    tool: Any = {"type": "function", "function": _PRICE}
    said: Any = [{"role": "user", "content": "nails"}]
    chunks = await one.chat.completions.create(
        model="forgetful", messages=said, tools=[tool], stream=True
    )
    choices = [choice async for chunk in chunks for choice in chunk.choices]
    [call] = [call for choice in choices for call in choice.delta.tool_calls or ()]
    assert call.function is not None
    assert (call.index, call.function.name) == (0, "price")
    assert json.loads(call.function.arguments or "") == {"attempt": 2}
    assert choices[-1].finish_reason == "tool_calls"


async def test_an_id_of_a_run_that_there_is_not_is_unknown(one: openai.AsyncOpenAI) -> None:
    live = await one.responses.create(model="counter", input="1000 50", background=True)
    await (await one.responses.retrieve(live.id, stream=True)).close()
    for run in (2, 3, 10**14):
        name = live.id.replace("resp_1_", f"resp_{run}_")
        for refused in (
            one.responses.retrieve(name),
            one.responses.retrieve(name, stream=True),
            one.responses.cancel(name),
        ):
            with pytest.raises(openai.NotFoundError, match="not found"):
                await refused
    assert (await one.responses.cancel(live.id)).status == "cancelled"


async def test_of_many_tasks_that_a_request_answers_only_the_last_are_looked_up(
    shop: str, one: openai.AsyncOpenAI
) -> None:
    assert shop
    tool: Any = {"type": "function", "strict": False, **_PRICE}
    first = await one.responses.create(model="shopkeeper", input="nails", tools=[tool])
    [call] = [item for item in first.output if item.type == "function_call"]
    unknown = [f"call_1_1-{number:032x}_{0:010x}" for number in range(20)]
    for others, is_found in ((unknown, False), (unknown[:19], True)):
        answers: Any = [
            {"type": "function_call_output", "call_id": name, "output": "3 EUR"}
            for name in (call.call_id, *others)
        ]
        answer = await one.responses.create(model="shopkeeper", input=answers)
        assert (answer.id.split("_")[2] == first.id.split("_")[2]) == is_found


async def test_a_killed_workers_output_is_not_in_the_response(
    fleet: Fleet, one: openai.AsyncOpenAI
) -> None:
    text, response = "", ""
    async for event in await one.responses.create(model="counter", input="40 100 10", stream=True):
        if event.type == "response.created":
            response = event.response.id
        elif event.type == "response.output_text.delta":
            if not text:
                for place in range(2):  # One of them has the run.
                    fleet.restart("worker", place)
            text += event.delta
    counted = "".join(f"{number} " for number in range(1, 41))
    whole = await one.responses.retrieve(response)
    assert (whole.status, whole.output_text) == ("completed", counted)
    assert text.endswith("40 ")


async def test_a_request_is_accepted_once_under_its_key(one: openai.AsyncOpenAI) -> None:
    asked: Any = {"model": "echo", "input": "once", "extra_headers": {"Idempotency-Key": "k-1"}}
    first, second = [await one.responses.create(**asked) for _ in range(2)]
    assert (first.id, first.output_text) == (second.id, "once")


async def test_a_request_under_its_key_is_not_in_its_own_way(
    shop: str, one: openai.AsyncOpenAI
) -> None:
    assert shop
    asked: Any = {"model": "hasty", "input": "once", "conversation": "c-1", "background": True}
    keyed: Any = {"extra_headers": {"Idempotency-Key": "k-2"}}
    first, second = [await one.responses.create(**asked, **keyed) for _ in range(2)]
    assert second.id == first.id
    assert second.status in ("queued", "in_progress")


async def test_an_answer_under_its_key_is_accepted_once(shop: str, one: openai.AsyncOpenAI) -> None:
    assert shop
    tool: Any = {"type": "function", "strict": False, **_PRICE}
    first = await one.responses.create(model="shopkeeper", input="nails", tools=[tool])
    [call] = [item for item in first.output if item.type == "function_call"]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "3 EUR"}
    asked: Any = {"model": "shopkeeper", "input": [result], "previous_response_id": first.id}
    keyed: Any = {"extra_headers": {"Idempotency-Key": "k-3"}}
    second, third = [await one.responses.create(**asked, **keyed) for _ in range(2)]
    assert (third.id, third.output_text) == (second.id, second.output_text)


async def test_a_background_response_is_read_and_canceled_elsewhere(
    fleet: Fleet, one: openai.AsyncOpenAI
) -> None:
    begun = await one.responses.create(model="counter", input="1000 50", background=True)
    assert begun.status in ("queued", "in_progress")
    async with client(fleet.gateways[1]) as other:
        assert (await other.responses.cancel(begun.id)).status == "cancelled"
        assert (await other.responses.cancel(begun.id)).status == "cancelled"
        assert (await other.responses.retrieve(begun.id)).status == "cancelled"
        [said] = [item async for item in other.responses.input_items.list(begun.id)]
    assert "1000 50" in str(said)


async def test_a_failure_is_not_tried_again(one: openai.AsyncOpenAI) -> None:
    failed = await one.responses.create(model="counter", input="nonsense")
    assert failed.status == "failed"
    assert failed.error is not None
    assert "the message must be" in failed.error.message
    said: Any = [{"role": "user", "content": "nonsense"}]
    with pytest.raises(openai.InternalServerError, match="the message must be") as refused:
        await one.chat.completions.create(model="counter", messages=said)
    assert refused.value.response.headers["x-should-retry"] == "false"


async def test_fields_that_gateways_of_models_send_are_no_error(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    asked = {
        "model": "echo",
        "messages": [
            {"role": "system", "content": "You are an echo.", "cache_control": {"type": "x"}},
            {"role": "user", "content": [{"type": "text", "text": "hello"}], "name": "ann"},
        ],
        "stream": False,
        "temperature": 0.2,
        "frequency_penalty": 0,
        "logit_bias": {},
        "n": 1,
        "stop": None,
        "tools": [],
        "metadata": {"user_id": "1", "chat_id": "2"},
        "litellm_call_id": "3",
        "options": {"num_ctx": 4096},
        "features": {"web_search": False},
    }
    headers = {"Authorization": "Bearer sk-0p3n-w3bu!", "X-OpenWebUI-Chat-Id": "chat-7"}
    url = f"{fleet.gateways[0]}/v1/chat/completions"
    answer = await http.post(url, json=asked, headers=headers)
    assert answer.json()["choices"][0]["message"]["content"] == "hello"


async def test_the_reply_to_another_question_begins_a_task(
    extra_worker: ServiceProcess, one: openai.AsyncOpenAI
) -> None:
    assert extra_worker
    said: list[Any] = [{"role": "user", "content": "hello"}]
    asked = await one.chat.completions.create(model="asker", messages=said)
    assert asked.choices[0].message.content == "Who are you?"
    other: list[Any] = [*said, {"role": "assistant", "content": "How are you?"}]
    reply: Any = {"role": "user", "content": "Ann"}
    begun = await one.chat.completions.create(model="asker", messages=[*other, reply])
    assert begun.choices[0].message.content == "Who are you?"
    said.append({"role": "assistant", "content": "Who are you?"})
    answered = await one.chat.completions.create(model="asker", messages=[*said, reply])
    assert answered.choices[0].message.content == "Hello, Ann!"


async def test_a_caller_finds_the_models_that_it_may_call(stack: Stack, tmp_path: Path) -> None:
    reader = Person("acme", "rob", ("reader",))
    roles = '[[role]]\nname = "reader"\noperations = ["read"]\n'
    file = write(tmp_path / "credentials.toml", ANN, reader, head=roles)
    nats_url = stack.dev()["nats_url"]
    gateway, url = extra_services.gateway(tmp_path, nats_url, HEADRACE_CREDENTIALS=str(file))
    with gateway:
        async with client(url, ANN.token) as hers, client(url, reader.token) as his:
            assert "echo" in [model.id async for model in hers.models.list()]
            assert (await hers.models.retrieve("echo")).id == "echo"
            assert [model.id async for model in his.models.list()] == []
            with pytest.raises(openai.NotFoundError):
                await his.models.retrieve("echo")
            with pytest.raises(openai.PermissionDeniedError):
                await his.responses.create(model="echo", input="hello")


def test_the_client_for_javascript(stack: Stack, fleet: Fleet) -> None:
    assert fleet.gateways == stack.gateways
    javascript.install(_DOORS)
    order = {"url": stack.gateways[0], "other": stack.gateways[1]}
    found = javascript.run("openai.mjs", order, Path(_DOORS))
    assert "echo" in found["models"]
    counted = "".join(f"{number} " for number in range(1, 21))
    assert (found["text"], found["whole"], found["status"]) == (counted, counted, "completed")
    assert found["seen"] == list(range(len(found["seen"])))
    assert found["chat"] == "1 2 3 4 5 "
    assert found["refused"] == {"status": 404, "code": "model_not_found"}


async def test_every_example_of_the_page_prints_what_it_states(fleet: Fleet) -> None:
    found = examples(ROOT / "docs" / "openai.md", "python")
    assert len(found) == 2
    program = "\n".join(code for code, _ in found)
    program = program.replace("http://127.0.0.1:8080", fleet.gateways[0])
    printed = await asyncio.to_thread(_printed, f"{program}\nclient.close()")
    assert printed == "".join(output for _, output in found)


def _printed(code: str) -> str:
    output = StringIO()
    with redirect_stdout(output):
        exec(compile(code, "openai.md", "exec"), {})  # noqa: S102 - the page's own
    return output.getvalue()
