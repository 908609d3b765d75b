"""Agents of the situations that public reports describe, for a worker that tests start."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, override

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import ModelMessage, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from headrace import Agents, Emission, InputRequired, Retry, RunContext, Thinking, agent
from headrace.adapters import executor_agent, pydantic_ai_agent


@agent()
async def pausing(_: RunContext) -> AsyncIterator[Emission]:
    """Emits pieces without text among others, as models do at a stream's begin and end."""
    for piece in ("", "one ", "", "two", ""):
        yield Thinking(piece)
        yield piece


@agent()
async def cleaning(run: RunContext) -> AsyncIterator[str]:
    """Works until it is cancelled, and makes the file of its prompt when it is."""
    try:
        yield "working"
        await asyncio.sleep(300)
    finally:
        Path(run.prompt).touch()  # noqa: ASYNC240  # one file of a test


@agent()
async def fragile(run: RunContext) -> str:
    """Repeats what it is told, but for a word that it breaks at."""
    if run.prompt == "break":
        raise RuntimeError(run.prompt)
    return f"heard {run.prompt}"


@agent()
async def collecting(run: RunContext) -> AsyncIterator[str | InputRequired]:
    """Repeats what it is told, and asks for more until that is the last."""
    yield f"{run.prompt} "
    if run.prompt != "last":
        yield InputRequired("More?")


class Appending(AgentExecutor):
    """Appends to an artifact that it never began, with the official SDK."""

    @override
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id
        assert context.context_id
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        for text in ("one ", "two"):
            parts = [Part(text=text)]
            await updater.add_artifact(parts, artifact_id="never-begun", append=True)
        await updater.complete()

    @override
    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def _contents(messages: list[ModelMessage]) -> list[str]:
    return [str(getattr(part, "content", part)) for one in messages for part in one.parts]


async def _repeat(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
    yield f"{len(info.function_tools)} tools; " + " | ".join(_contents(messages))


historian = pydantic_ai_agent(
    PydanticAgent(FunctionModel(stream_function=_repeat)), name="historian"
)
"""Answers with how many tools and which messages its model is given."""

_paid = dict[str, int]()


def _pay(account: str) -> str:
    _paid[account] = _paid.get(account, 0) + 1
    return f"paid {_paid[account]}"


async def _order(
    messages: list[ModelMessage], _: AgentInfo
) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
    """Call for as many payments as the user's words say, one by one; break after one at `break`."""
    parts = [part for one in messages for part in one.parts]
    prompts = [(at, one) for at, one in enumerate(parts) if isinstance(one, UserPromptPart)]
    at, asked = prompts[-1]
    words = str(asked.content).split()
    results = [str(one.content) for one in parts[at:] if isinstance(one, ToolReturnPart)]
    match words:
        case ["pay" | "break", account, count] if len(results) < int(count):
            arguments = f'{{"account":"{account}"}}'
            yield {0: DeltaToolCall("pay", arguments, tool_call_id=f"call_{len(results)}")}
        case ["break", _, _]:
            raise RuntimeError("the model is gone")
        case _:
            yield " ".join([words[0], *results])


_payer: PydanticAgent[None, Any] = PydanticAgent(FunctionModel(stream_function=_order))
_payer.tool_plain(requires_approval=True, name="pay")(_pay)
payer = pydantic_ai_agent(
    _payer,
    name="payer",
    retry=Retry(backoff=0.0, attempts=1),
)
"""Pays after an approval, and answers with how often it has paid."""

agents = Agents(
    [
        pausing,
        cleaning,
        fragile,
        collecting,
        executor_agent(Appending(), name="appending"),
        historian,
        payer,
    ]
)
