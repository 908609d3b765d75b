"""A pydantic-ai agent, unchanged, in a worker."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel

from headrace import Retry
from headrace.model import parts
from headrace.model.events import Json
from tests.integration.worker.conftest import Working
from tests.support.examples import example
from tests.support.log_reading import (
    answer,
    calls,
    folded,
    results,
    said,
    state,
    thoughts,
)
from tests.support.task_submitter import TaskSubmitter

if TYPE_CHECKING:
    from pydantic_ai.models.function import DeltaThinkingCalls, DeltaToolCalls


BUSY = [(429, "COMPLETED"), (503, "COMPLETED"), (401, "FAILED")]

type Stream = AsyncIterator[str | DeltaToolCalls | DeltaThinkingCalls]


async def test_the_example_answers_with_its_tool(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(example("pydantic_dice").dice):
        done = await folded(await submitter.start("dice", "Roll!"))
    assert (state(done), answer(done)) == ("COMPLETED", "You rolled a four.")
    assert [name for name, _ in calls(done)] == ["roll"]
    assert results(done) == [(4, "")]
    [artifact] = done["artifacts"]
    assert artifact["parts"][0]["metadata"]["agui_event_type"] == "content_block"
    assert done["metadata"]["tokens_used"] > 0


async def test_reasoning_events_and_dependencies_get_there(
    submitter: TaskSubmitter, working: Working
) -> None:
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai import RunContext
    from pydantic_ai.messages import CustomEvent, ModelMessage
    from pydantic_ai.models.function import (
        AgentInfo,
        DeltaThinkingPart,
        DeltaToolCall,
        FunctionModel,
    )

    from headrace.adapters import pydantic_ai_agent

    @dataclass(kw_only=True)
    class Progress(CustomEvent):
        """What a tool tells the user."""

        done: int

    async def stream(messages: list[ModelMessage], _: AgentInfo) -> Stream:
        if len(messages) == 1:
            yield {0: DeltaThinkingPart(content="Hm.")}
            yield {1: DeltaToolCall(name="whose", json_args="{}", tool_call_id="c1")}
        else:
            yield "It is "
            yield "yours."

    wrapped = PydanticAgent(FunctionModel(stream_function=stream), deps_type=str)

    @wrapped.tool
    async def whose(ctx: RunContext[str]) -> str:
        await ctx.emit(Progress(done=1))
        return ctx.deps

    served = pydantic_ai_agent(wrapped, name="p", deps=lambda ctx: ctx.owner, memory="task")
    async with working(served):
        done = await folded(await submitter.start("p", "Whose?"))
    assert (thoughts(done), answer(done)) == ("Hm.", "It is yours.")
    assert results(done) == [("anonymous", "")]
    [custom] = [part for part in said(done) if parts.event_type(part) == parts.CUSTOM]
    assert (custom["metadata"]["agui_custom_name"], custom["data"]["done"]) == ("progress", 1)


async def test_a_tool_that_requests_another_try_is_an_error(
    submitter: TaskSubmitter, working: Working
) -> None:
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai import ModelRetry
    from pydantic_ai.models.test import TestModel

    from headrace.adapters import pydantic_ai_agent

    wrapped = PydanticAgent(TestModel(custom_output_text="x"), retries=2)
    tries: list[int] = []

    @wrapped.tool_plain
    def pick(number: int) -> int:
        tries.append(number)
        if len(tries) == 1:
            raise ModelRetry("a greater one")
        return number

    async with working(pydantic_ai_agent(wrapped, name="p", memory="task")):
        done = await folded(await submitter.start("p", "Pick."))
    [(_, first), (second, error)] = results(done)
    assert "a greater one" in first
    assert (second, error) == (tries[1], "")


class City(BaseModel):
    """An answer with a shape."""

    name: str


async def test_structured_output_is_data(submitter: TaskSubmitter, working: Working) -> None:
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai.models.test import TestModel

    from headrace.adapters import pydantic_ai_agent

    wrapped = PydanticAgent(TestModel(custom_output_args={"name": "Bern"}), output_type=City)
    async with working(pydantic_ai_agent(wrapped, name="p", memory="task")):
        done = await folded(await submitter.start("p", "Where?"))
    [artifact] = done["artifacts"]
    assert (artifact["name"], artifact["parts"][0]["data"]) == ("output", {"name": "Bern"})
    assert calls(done) == []


async def test_a_user_interfaces_tools_end_the_run_and_go_on_with_their_results(
    submitter: TaskSubmitter, working: Working
) -> None:
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse
    from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

    from headrace.adapters import pydantic_ai_agent

    seen: list[list[ModelMessage]] = []

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> Stream:
        seen.append(messages)
        if len(seen) == 1:
            assert [tool.name for tool in info.function_tools] == ["paint"]
            yield {0: DeltaToolCall(name="paint", json_args='{"c": "red"}', tool_call_id="c1")}
        else:
            yield "Painted."

    wrapped = PydanticAgent(FunctionModel(stream_function=stream))
    agui: Json = {"tools": [{"name": "paint", "description": "Paint.", "parameters": {}}]}
    async with working(pydantic_ai_agent(wrapped, name="p", memory="task")):
        task = await submitter.start("p", "Paint it.", metadata={"headrace.agui": agui})
        waits = (await task.events())[-1]["statusUpdate"]
        assert waits["metadata"]["headrace.pendingToolCalls"] == ["c1"]
        result = parts.tool_result_part("c1", "done")
        run = await task.follow_up_with(
            {"messageId": "r", "role": "ROLE_USER", "parts": [result]}, {"headrace.agui": agui}
        )
        await task.reaches(run + 2)
        done = await folded(task)
    assert (state(done), answer(done)) == ("COMPLETED", "Painted.")
    assert calls(done) == [("paint", {"c": "red"})]
    kinds = [part.part_kind for message in seen[1] for part in message.parts]
    assert kinds == ["user-prompt", "tool-call", "tool-return"]
    assert isinstance(seen[1][1], ModelResponse)
    assert isinstance(seen[1][2], ModelRequest)


@pytest.mark.parametrize(("status", "ends"), BUSY)
async def test_a_busy_model_is_queried_again_and_a_refusing_one_not(
    submitter: TaskSubmitter, working: Working, status: int, ends: str
) -> None:
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai.exceptions import ModelHTTPError
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from headrace.adapters import pydantic_ai_agent

    requests: list[int] = []

    async def stream(_messages: list[ModelMessage], _: AgentInfo) -> Stream:
        requests.append(status)
        if len(requests) == 1:
            raise ModelHTTPError(status, "small")
        yield "found"

    wrapped = PydanticAgent(FunctionModel(stream_function=stream))
    async with working(pydantic_ai_agent(wrapped, name="p", memory="task", retry=Retry(backoff=0))):
        done = await folded(await submitter.start("p", "x"))
    assert state(done) == ends
