"""An `AgentExecutor` of the official A2A SDK, served unchanged.

From this folder: ``headrace dev --agents executor:translator``. Needs ``headrace[a2a]``.
"""

import asyncio

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part

from headrace.adapters import executor_agent

LANGUAGES = {"french": "Bonjour", "german": "Guten Tag"}


class Translator(AgentExecutor):
    """Greets in the language that the user names, and asks for it if necessary."""

    def __init__(self) -> None:
        """Start without cancelled tasks."""
        self.canceled: list[str] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer one message."""
        updater = _updater(context, event_queue)
        await updater.start_work()
        order = context.get_user_input().strip().lower()
        if order == "slowly":
            await asyncio.Event().wait()
        if order not in LANGUAGES:
            question = updater.new_agent_message([Part(text="Which language?")])
            await updater.requires_input(question)
            return
        # From the second message on, the task exists, as in the SDK's own servers.
        greeting = LANGUAGES[order] + (" encore" if context.current_task else "")
        for number, word in enumerate(greeting.split()):
            last = number == greeting.count(" ")
            await updater.add_artifact(
                [Part(text=f"{word} ")],
                artifact_id=f"greeting-{context.task_id}",
                name="greeting",
                append=number > 0,
                last_chunk=last,
            )
        await updater.complete(updater.new_agent_message([Part(text="Done.")]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Record the task as cancelled."""
        self.canceled.append(context.task_id or "")
        await _updater(context, event_queue).cancel()


def _updater(context: RequestContext, event_queue: EventQueue) -> TaskUpdater:
    # The SDK's types allow a request without a task; here there always is one.
    return TaskUpdater(event_queue, context.task_id or "", context.context_id or "")


executor = Translator()
translator = executor_agent(executor, name="translator", description="Greets the user.")
