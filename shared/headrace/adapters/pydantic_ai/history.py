"""The messages of a pydantic-ai agent in the fleet's memory, for agents that call `Agent.run`."""

from collections.abc import Sequence

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from headrace.adapters.conversation.journal import Journal
from headrace.sdk.context import RunContext


class FleetHistory:
    """The messages of a conversation. Workers, reloads and restarts don't change them.

    They belong to the owner's conversation with the agent, and are erased with that. An attempt
    that takes over a run finds them as they were before the run.
    """

    def __init__(self, ctx: RunContext, name: str) -> None:
        """See `fleet_history`."""
        self._journal = Journal(ctx, ctx.memory, "pydantic-ai", name)

    async def messages(self) -> list[ModelMessage]:
        """Return the messages, for `message_history`."""
        return ModelMessagesTypeAdapter.validate_python(await self._journal.items())

    async def add(self, messages: Sequence[ModelMessage]) -> None:
        """Add a run's `new_messages()`."""
        await self._journal.add(ModelMessagesTypeAdapter.dump_python([*messages], mode="json"))

    async def clear(self) -> None:
        """Delete all messages."""
        await self._journal.clear()


def fleet_history(ctx: RunContext, name: str = "") -> FleetHistory:
    """Return the messages of the conversation.

    ``result = await agent.run(…, message_history=await history.messages())``, and then ``await
    history.add(result.new_messages())``. `pydantic_ai_agent` needs none: it reads the conversation
    from the log.

    Args:
        ctx: The run's context.
        name: A name, if the conversation has several histories, such as one for each agent.
    """
    return FleetHistory(ctx, name)
