"""The conversation that a model gets from an AG-UI client that sends it with each run."""

from collections.abc import AsyncIterator

import pytest

from headrace import Emission, RunContext, ToolCall, ToolResult, agent
from headrace.adapters.conversation.memory import conversation
from headrace.model.events import Json
from headrace_gateway.protocols.agui.fold import Fold
from tests.integration.worker.conftest import Working
from tests.support.task_submitter import Task, TaskSubmitter

type Seen = list[tuple[str, str, list[str]]]


async def client_of(task: Task) -> list[Json]:
    """Return the messages of an AG-UI client that has read the run."""
    fold = Fold(1)
    for entry in await task.ended():
        fold.read(entry)
    assert fold.view is not None
    return fold.view.shown()


def cut(messages: list[Json]) -> list[Json]:
    """Return the messages of a client whose stream broke inside the last one."""
    return [*messages[:-1], {**messages[-1], "content": messages[-1]["content"][:4]}]


@pytest.mark.usefixtures("task_state")
@pytest.mark.parametrize("end", [None, -1], ids=["a part of the answer", "none of the answer"])
async def test_a_model_gets_its_own_ids_and_whole_answers(
    submitter: TaskSubmitter, working: Working, end: int | None
) -> None:
    seen: list[Seen] = []
    raw: list[Json] = []

    @agent()
    async def reader(ctx: RunContext) -> AsyncIterator[Emission]:
        turns = await conversation(ctx)
        calls = [[c.id for c in t.calls] + ([t.result.id] if t.result else []) for t in turns]
        seen.append([(t.role, t.text, each) for t, each in zip(turns, calls, strict=True)])
        raw.extend(ctx.agui.get("messages", ()))
        yield ToolCall("look", {"at": ctx.prompt}, id="call_1")
        yield ToolResult("call_1", "found")
        yield f"A long answer to {ctx.prompt}."

    async with working(reader):
        first = await submitter.start("reader", "one")
        sent = cut(await client_of(first))[:end]
        metadata = {"headrace.agui": {"messages": [*sent, {"id": "u2", "role": "user"}]}}
        message = {"messageId": "u2", "role": "ROLE_USER", "parts": [{"text": "two"}]}
        last = await submitter.start(
            "reader", context=first.context, message=message, metadata=metadata
        )
        await last.ended()
    assert seen[1] == [
        ("user", "one", []),
        ("assistant", "", ["call_1"]),
        ("tool", "", ["call_1"]),
        ("assistant", "A long answer to one.", []),
        ("user", "two", []),
    ]
    made = [call["id"] for one in raw for call in one.get("toolCalls") or ()]
    assert made == [one["toolCallId"] for one in raw if one["role"] == "tool"] == ["call_1"]
