"""A scripted executor of the official SDK, served directly or as an agent of the fleet."""

import asyncio
from typing import Any, override

from a2a.helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part, Role, TaskState
from a2a.utils.errors import InvalidParamsError

from headrace import Agent, Retry
from headrace.adapters import remote_agent

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")


class ScriptedExecutor(AgentExecutor):
    """Does what the message says; the test lets it go on."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.began = asyncio.Event()
        self.received: list[str] = []
        self.requests: list[RequestContext] = []
        self.canceled: list[str] = []

    @override
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = context.get_user_input()
        self.received.append(text)
        self.requests.append(context)
        if text == "bare":
            message = new_text_message("a bare message", role=Role.ROLE_AGENT)
            await event_queue.enqueue_event(message)
            return
        if text == "refuse":
            raise InvalidParamsError("the request is invalid")
        assert context.message is not None
        task = context.current_task or new_task_from_user_message(context.message)
        if context.current_task is None:
            await event_queue.enqueue_event(task)
        await self._reply(text, TaskUpdater(event_queue, task.id, task.context_id))

    async def _reply(self, output: str, to: TaskUpdater) -> None:
        await to.start_work(to.new_agent_message([Part(text="starting")]))
        if output == "ask for another":
            # As another Headrace does whose agent stands for yet another one's.
            named = {"remote_task": "elsewhere", "remote_context": "elsewhere"}
            await to.update_status(TaskState.TASK_STATE_WORKING, metadata=named)
        if output.startswith("ask"):
            await to.add_artifact([Part(text="Thinking. ")], artifact_id="reply")
            await to.requires_input(to.new_agent_message([Part(text="Which text?")]))
            return
        if output == "auth":
            await to.requires_auth(to.new_agent_message([Part(text="Which token?")]))
            return
        await to.add_artifact([Part(text="Reply: ")], artifact_id="reply", append=False)
        self.began.set()
        if output == "slowly":
            await self.go_on.wait()
        await to.add_artifact(
            [Part(text=output)], artifact_id="reply", append=True, last_chunk=True
        )
        await to.add_artifact([Part(data={"number_value": 3})], artifact_id="n", name="count")
        await to.complete(to.new_agent_message([Part(text="Done.")]))

    @override
    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id
        assert context.context_id
        self.canceled.append(context.task_id)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


async def outside_agent(url: str, **more: Any) -> Agent:  # noqa: ANN401  # remote_agent's
    given: dict[str, Any] = {
        "name": "outside",
        "retry": Retry(backoff=0.0),
        "reconnecting": 30.0,
        "poll": 0.05,
    }
    # It reads the card, and the server is in this loop.
    return await asyncio.to_thread(remote_agent, url, **{**given, **more})
