"""Executors in the style of the A2A project's samples, served unchanged."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any, override

import httpx
import pytest
from a2a.helpers import (
    get_message_text,
    new_data_part,
    new_raw_part,
    new_task_from_user_message,
    new_text_artifact_update_event,
    new_text_message,
    new_text_part,
    new_text_status_update_event,
)
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import (
    CancelTaskRequest,
    InternalError,
    Role,
    SendMessageRequest,
    TaskState,
    UnsupportedOperationError,
)

from headrace.adapters import executor_agent
from tests.integration.worker.adapters.official.users import a2a_user, state, words
from tests.integration.worker.conftest import Working

_log = logging.getLogger(__name__)


class Greeter(AgentExecutor):
    """Greets: a task of its own making, words on the way, an artifact and a last word."""

    @override
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        working, done = TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED
        await updater.update_status(working, message=new_text_message("On it."))
        messages = get_message_text(context.message)
        await updater.add_artifact(
            [new_text_part(text=f"Hello, {messages}", media_type="text/plain")]
        )
        await updater.update_status(done, message=new_text_message("That was it."))

    @override
    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError("greetings can't be taken back")


class Exchange:
    """Stands for a graph with a model: remembers its users, and asks for what is missing."""

    def __init__(self) -> None:
        self.known: dict[str, list[str]] = {}

    async def stream(self, query: str, context: str) -> AsyncIterator[dict[str, Any]]:
        """Yield progress, then a question or the answer."""
        text = self.known.setdefault(context, [])
        text.append(query)
        yield {"is_task_complete": False, "require_user_input": False, "content": "Looking up."}
        if len(text) < 2:
            yield {"is_task_complete": False, "require_user_input": True, "content": "To which?"}
        else:
            answer = f"{text[0]} is 9 {text[1]}"
            yield {"is_task_complete": True, "require_user_input": False, "content": answer}


class Currency(AgentExecutor):
    """Puts the task it was given into its queue again, and tells what its agent streams."""

    def __init__(self) -> None:
        self.agent = Exchange()

    @override
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        query = context.get_user_input()
        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        place: Any = {"task_id": task.id, "context_id": task.context_id}
        try:
            async for item in self.agent.stream(query, task.context_id):
                asks, done = item["require_user_input"], item["is_task_complete"]
                now = TaskState.TASK_STATE_WORKING
                if asks:
                    now = TaskState.TASK_STATE_INPUT_REQUIRED
                if done:
                    result = {"name": "conversion_result", "text": item["content"]}
                    await event_queue.enqueue_event(
                        new_text_artifact_update_event(**place, **result)
                    )
                    item["content"], now = "", TaskState.TASK_STATE_COMPLETED
                await event_queue.enqueue_event(
                    new_text_status_update_event(**place, state=now, text=item["content"])
                )
                if asks or done:
                    break
        except Exception as error:
            _log.exception("the agent failed")
            raise InternalError from error

    @override
    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise UnsupportedOperationError


class Dice(AgentExecutor):
    """Makes artifacts of several kinds, one of them in chunks, and waits where it is told to."""

    @override
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        assert context.task_id is not None
        assert context.context_id is not None
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        if context.current_task is None:
            await updater.submit()
        await updater.start_work()
        words_ = context.get_user_input()
        for number, word in enumerate(words_.split()):
            is_last = number == len(words_.split()) - 1
            chunk = [new_text_part(text=f"{word} ")]
            more = {"append": number > 0, "last_chunk": is_last}
            await updater.add_artifact(chunk, artifact_id="words", name="words", **more)  # type: ignore[arg-type]  # booleans
        await updater.add_artifact([new_data_part({"rolled": 4})], name="roll")
        await updater.add_artifact([new_raw_part(b"\x89PNG", "image/png", "dice.png")])
        if "wait" in words_:
            await asyncio.Event().wait()
        await updater.complete(updater.new_agent_message([new_text_part(text="Rolled.")]))

    @override
    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.current_task is not None
        updater = TaskUpdater(event_queue, context.current_task.id, context.current_task.context_id)
        await updater.cancel()


async def test_a_greeting(http: httpx.AsyncClient, working: Working) -> None:
    async with (
        working(executor_agent(Greeter(), name="greeter")),
        a2a_user(http, "greeter") as user,
    ):
        received = await user.replies("Ada")
        [first] = [each.task for each in received if each.HasField("task")]
        task = await user.task(first.id)
    assert words(received) == ["On it.", "Hello, Ada", "That was it."]
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    assert [get_message_text(message) for message in task.history] == ["Ada", "On it."]
    [artifact] = task.artifacts
    assert (artifact.parts[0].text, artifact.parts[0].media_type) == ("Hello, Ada", "text/plain")


async def test_a_conversion_requests_what_is_missing(
    http: httpx.AsyncClient, working: Working
) -> None:
    async with (
        working(executor_agent(Currency(), name="currency")),
        a2a_user(http, "currency") as user,
    ):
        waiting = await user.replies("1 USD")
        received = await user.replies("SEK")
        [first] = [each.task for each in received if each.HasField("task")]
        task = await user.task(first.id)
    assert state(waiting) == TaskState.TASK_STATE_INPUT_REQUIRED
    assert words(waiting) == ["Looking up.", "To which?"]
    assert words(received)[-2:] == ["Looking up.", "1 USD is 9 SEK"]
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    assert [artifact.name for artifact in task.artifacts] == ["conversion_result"]
    outputs = ["1 USD", "Looking up.", "To which?", "SEK", "Looking up."]
    assert [get_message_text(message) for message in task.history] == outputs


@pytest.mark.parametrize("waits", [False, True], ids=["to the end", "canceled"])
async def test_artifacts_of_several_kinds(
    http: httpx.AsyncClient, working: Working, *, waits: bool
) -> None:
    async with working(executor_agent(Dice(), name="dice")), a2a_user(http, "dice") as user:
        name = ""
        if waits:
            stream = user.client.send_message(
                SendMessageRequest(message=new_text_message("roll then wait", role=Role.ROLE_USER))
            )
            async for each in stream:
                name = name or each.task.id
                if (
                    each.artifact_update.artifact.parts
                    and each.artifact_update.artifact.parts[0].raw
                ):
                    break
            canceled = await user.client.cancel_task(CancelTaskRequest(id=name))
            assert canceled.status.state == TaskState.TASK_STATE_CANCELED
        else:
            received = await user.replies("roll it")
            name = next(each.task.id for each in received if each.HasField("task"))
        task = await user.task(name)
    text, data, file = task.artifacts
    assert "".join(part.text for part in text.parts) == ("roll then wait " if waits else "roll it ")
    assert (data.name, data.parts[0].data.struct_value["rolled"]) == ("roll", 4)
    assert (file.parts[0].raw, file.parts[0].filename) == (b"\x89PNG", "dice.png")
