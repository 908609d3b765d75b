"""Who owns a conversation."""

from headrace.events import Json
from headrace.messages import WhoseContext
from headrace_task_state.reading.frontier import Frontier
from headrace_task_state.store.reading import Reader


class Contexts:
    """Answers ``context``."""

    def __init__(self, reader: Reader, frontier: Frontier) -> None:
        """Read the view; that a context is new counts only once the view has caught up."""
        self._reader, self._frontier = reader, frontier

    async def owner(self, query: WhoseContext) -> Json:
        """Return a `ContextFound` as JSON.

        Raises:
            StateUnavailable: the view does not catch up, or Redis does not answer.
            BusUnavailable: NATS does not answer.
        """
        owner = await self._reader.context_owner(query.tenant, query.context)
        if owner is None:
            await self._frontier.reached()
            owner = await self._reader.context_owner(query.tenant, query.context)
        return {} if owner is None else {"owner": owner}
