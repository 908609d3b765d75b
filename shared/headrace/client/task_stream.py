"""An A2A task's events, from sending a message or from a cursor on, to the end of the run."""

from dataclasses import dataclass

from headrace.client.gateways import Gateways, Request
from headrace.client.outgoing_message import OutgoingMessage
from headrace.client.paths import task_path
from headrace.client.resumable_stream import ResumableStream
from headrace.client.sse import SseFrame
from headrace.model.delegation import CHILD
from headrace.model.events import ATTEMPT, GENERATION, RECOVERED, Json
from headrace.model.task_report import RUN_ENDED_NAMES, TERMINAL_NAMES, TaskEvent, TaskReport


@dataclass(frozen=True)
class StreamEvent(TaskEvent):
    """One event of a task, with its cursor.

    `text`, `thinking`, `tool_call`, `tool_result` and `state` contain what the event adds.
    """

    cursor: str = ""
    """Resumes the stream after this event."""

    @property
    def task(self) -> str:
        """The task's id; empty for an answer that is a Message without a task."""
        body = self._body
        return str(body.get("id" if "task" in self.json else "taskId", ""))

    @property
    def context(self) -> str:
        """The id of the task's conversation."""
        return str(self._body.get("contextId", ""))

    @property
    def snapshot(self) -> TaskReport | None:
        """The task so far, at the start of a stream; None: the event is a later one."""
        return TaskReport(self.json["task"]) if "task" in self.json else None

    @property
    def recovered(self) -> bool:
        """False if events before this one are lost, and `snapshot` replaces them."""
        return self._metadata.get(RECOVERED) is not False

    @property
    def attempt(self) -> int:
        """The attempt that begins; from 2 on, it replaces the output of the one before. 0: none."""
        return int(self._metadata.get(ATTEMPT, 0))

    @property
    def child(self) -> Json | None:
        """The event of a task that the agent delegated; None: the event is the agent's own."""
        child = self._metadata.get(CHILD)
        return child if isinstance(child, dict) else None


class TaskStream(ResumableStream[StreamEvent]):
    """The events of one task (see `ResumableStream`), until its run ends or asks its user."""

    def __init__(
        self,
        gateways: Gateways,
        agent: str | None,
        *,
        task: str = "",
        cursor: str = "",
        sending: OutgoingMessage | None = None,
    ) -> None:
        """Follow `task` from `cursor` on, or what comes of `sending`, a message."""
        super().__init__(gateways, cursor)
        self.agent = agent
        """The agent's name; None: the default agent."""
        self.task = task
        """The task's id; empty until the first event."""
        self.context = ""
        """The id of the task's conversation; empty until the first event."""
        self.state = ""
        """The state that the task was last in, such as ``working``."""
        self.interrupts = list[Json]()
        """The agent's questions, as AG-UI Interrupts, once the run has ended with them."""
        self._sending = sending
        self._request_of_message: Request | None = None
        self._is_follow_up = bool(task) and sending is not None
        self._last: StreamEvent | None = None

    async def _request(self) -> Request:
        # Once there is a cursor, the gateway has the message.
        if self._sending is None or self._cursor:
            return Request("GET", f"{task_path(self.agent, self.task)}:subscribe")
        if self._request_of_message is None:
            self._request_of_message = await self._sending.request("stream")
        return self._request_of_message

    def _event(self, frame: SseFrame) -> StreamEvent | None:
        event = StreamEvent(frame.data, frame.cursor)
        # The answer to a follow-up begins with the task as it was before.
        is_known = self._is_follow_up and self._last is None and event.snapshot is not None
        self._last = event
        self.task = event.task or self.task
        self.context = event.context or self.context
        if is_known:
            return None
        if event.state:
            self.state, self.interrupts = event.state, event.interrupts
        return event

    def _is_over(self) -> bool:
        return self.state in RUN_ENDED_NAMES or self._is_message()

    async def _is_over_after_all(self) -> bool:
        if self.state in TERMINAL_NAMES or self._is_message():
            return True
        if self._last is None or not self._is_over():
            return False
        # Another message may wait behind the agent's question.
        path = task_path(self.agent, self.task)
        task = await self._gateways.json(Request("GET", path, query={"historyLength": 0}))
        return int((task.get("metadata") or {}).get(GENERATION, 0)) <= self._last.generation

    def _is_message(self) -> bool:
        return self._last is not None and "message" in self._last.json
