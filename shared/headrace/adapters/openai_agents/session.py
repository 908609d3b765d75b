"""A session of the OpenAI Agents SDK in the fleet's memory, for agents that call its `Runner`."""

from typing import Any, override

from agents import SessionSettings
from agents.memory import SessionABC
from agents.memory.session_settings import coerce_session_settings

from headrace.adapters.conversation.journal import Journal
from headrace.sdk.context import RunContext


class FleetSession(SessionABC):
    """The SDK's session of a conversation. Workers, reloads and restarts don't change it.

    It belongs to the owner's conversation with the agent, and is erased with that. An attempt that
    takes over a run finds the session as it was before the run.
    """

    def __init__(
        self, ctx: RunContext, name: str, settings: SessionSettings | dict[str, Any] | None
    ) -> None:
        """See `fleet_session`."""
        self.session_id = f"{ctx.context}/{name}" if name else ctx.context
        self.session_settings = None if settings is None else coerce_session_settings(settings)
        self._journal = Journal(ctx, ctx.memory, "openai-agents", name)

    @override
    async def get_items(self, limit: int | None = None) -> list[Any]:
        settings = self.session_settings
        most = limit if limit is not None or settings is None else settings.limit
        items = await self._journal.items()
        return items if most is None else items[max(0, len(items) - most) :]

    @override
    async def add_items(self, items: list[Any]) -> None:
        await self._journal.add(items)

    @override
    async def pop_item(self) -> Any:
        return await self._journal.pop()

    @override
    async def clear_session(self) -> None:
        await self._journal.clear()


def fleet_session(
    ctx: RunContext,
    name: str = "",
    *,
    session_settings: SessionSettings | dict[str, Any] | None = None,
) -> FleetSession:
    """Return the session of the conversation, for ``Runner.run(…, session=fleet_session(ctx))``.

    `openai_agents_agent` needs none: it reads the conversation from the log.

    Args:
        ctx: The run's context.
        name: A name, if the conversation has several sessions, such as one for each agent.
        session_settings: The SDK's settings, such as a limit of items.
    """
    return FleetSession(ctx, name, session_settings)
