"""The changes in a list of tasks."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.client.gateways import Gateways, Request
from headrace.client.paths import agent_path
from headrace.client.resumable_stream import ResumableStream
from headrace.client.sse import SseFrame
from headrace.model.events import Json
from headrace.model.task_report import state_name

_EVENTS = {"Accept": "text/event-stream"}


@dataclass(frozen=True, slots=True)
class ListEvent:
    """A change in a list of tasks, or the need to request the list."""

    json: Json
    """The change as the gateway sent it; empty if `must_list`."""

    @property
    def must_list(self) -> bool:
        """Whether the list must be requested: the stream begins here, or changes may be missing."""
        return not self.json

    @property
    def task(self) -> str:
        """The id of the task that changed."""
        return str(self.json.get("task", ""))

    @property
    def context(self) -> str:
        """The id of the task's conversation; empty if the task is gone."""
        return str(self.json.get("contextId", ""))

    @property
    def state(self) -> str:
        """The task's state, such as ``working``; empty: lists don't contain it any more."""
        return state_name(self.json.get("state") or "")


class ListStream(ResumableStream[ListEvent]):
    """The changes in a list (see `ResumableStream`); it has no end."""

    def __init__(self, gateways: Gateways, agent: str, query: Mapping[str, str]) -> None:
        """Watch the list of the agent's tasks that `query` filters."""
        super().__init__(gateways)
        path = f"{agent_path(agent)}/tasks:watch"
        self._watching = Request("GET", path, headers=_EVENTS, query=query)

    async def _request(self) -> Request:
        return self._watching

    def _event(self, frame: SseFrame) -> ListEvent:
        return ListEvent(frame.data)

    def _is_over(self) -> bool:
        return False
