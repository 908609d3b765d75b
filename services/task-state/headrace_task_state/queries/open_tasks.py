"""How many tasks of an agent are open, by the version that they are pinned to."""

from headrace.model.errors import InvalidName
from headrace.model.events import Json
from headrace.model.messages import CountOpenTasks
from headrace.model.subjects import is_token
from headrace_task_state.queries.frontier import Frontier
from headrace_task_state.store import Reader


class OpenTasks:
    """Answers ``open``."""

    def __init__(self, reader: Reader, frontier: Frontier) -> None:
        """Count in the view once it has caught up."""
        self._reader, self._frontier = reader, frontier

    async def count(self, query: CountOpenTasks) -> Json:
        """Return an `OpenTasksCounted` as JSON.

        Raises:
            InvalidName: the agent's name is invalid.
            StateUnavailable: the view does not catch up, or the store does not answer.
            BusUnavailable: NATS does not answer.
        """
        if not is_token(query.agent):
            raise InvalidName("agent", query.agent, "is not an agent name")
        await self._frontier.reached()
        return {"versions": dict(await self._reader.open_tasks(query.agent))}
