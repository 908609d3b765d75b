"""Follow a task over dropped connections, from the cursor of the last frame seen."""

import time
from collections.abc import Iterator

from headrace_cli.client import Dropped, Frame, GatewayClient, Json, NothingLeft, task_path
from headrace_cli.failures import RequestFailed

_PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0, 5.0, 5.0)
"""Seconds before each retry while the gateway does not answer; then it gives up."""

_LAST = {
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_INPUT_REQUIRED",
}
"""The states after which a stream ends."""


def state_of(event: Json) -> str:
    """Return the state in `event` (a StreamResponse); empty if it contains none."""
    bearer = event.get("task") or event.get("statusUpdate") or {}
    return str(bearer.get("status", {}).get("state", ""))


def task_of(event: Json) -> str:
    """Return the id of the task that `event` belongs to; empty for a bare Message."""
    update = event.get("statusUpdate") or event.get("artifactUpdate") or {}
    return str(event.get("task", {}).get("id") or update.get("taskId", ""))


class FollowedTask:
    """The events of one task, across any number of connections."""

    def __init__(self, client: GatewayClient, base: str, task: str = "", cursor: str = "") -> None:
        """Follow `task` of the agent at `base` from `cursor` on; without one from where it is."""
        self._client, self._base = client, base
        self._task, self._cursor = task, cursor
        self._is_resumable = bool(task)

    @property
    def task(self) -> str:
        """The task's id; empty until it is known."""
        return self._task

    def send(self, body: Json) -> Iterator[Json]:
        """Send `body`, a SendMessageRequest, and yield the events that follow.

        An answer to a task begins with the task as it was before: waiting, as a rule. That is no
        event that follows.

        Raises:
            RequestFailed: the gateway refused, did not answer for long, or the connection was lost
                before it answered.
        """
        # Until then nothing shows that the task has the message.
        self._is_resumable = False
        connection = self._client.stream("POST", f"{self._base}/message:stream", body)
        return self._resumed_events(
            self._without_snapshot(connection) if self._task else connection
        )

    def _without_snapshot(self, connection: Iterator[Frame]) -> Iterator[Frame]:
        for index, frame in enumerate(connection):
            if index or "task" not in frame.event:
                yield frame
            else:
                self._record(frame)

    def subscribe(self) -> Iterator[Json]:
        """Subscribe, and yield events until the task ends or needs input.

        Raises:
            RequestFailed: the gateway refused, or did not answer for long.
        """
        return self._resumed_events(self._subscription())

    def _subscription(self) -> Iterator[Frame]:
        path = task_path(self._base, self._task)
        return self._client.stream("GET", f"{path}:subscribe", after=self._cursor)

    def _resumed_events(self, connection: Iterator[Frame]) -> Iterator[Json]:
        pauses = iter(_PAUSES)
        while True:
            reason = "the stream ended early"
            try:
                for event in self._recorded(connection):
                    pauses = iter(_PAUSES)
                    yield event
                    if "message" in event or state_of(event) in _LAST:
                        return
            except NothingLeft:
                yield self._end()
                return
            except Dropped as dropped:
                reason = str(dropped)
            self._wait_before_retry(pauses, reason)
            connection = self._subscription()

    def _end(self) -> Json:
        """Return how the task ended, for a stream whose end was missed but for its events."""
        task = self._client.get(task_path(self._base, self._task))
        return {"statusUpdate": {"taskId": self._task, "status": task.get("status", {})}}

    def _recorded(self, connection: Iterator[Frame]) -> Iterator[Json]:
        for frame in connection:
            if "error" in frame.event:
                raise RequestFailed(str(frame.event["error"].get("message", "the stream failed")))
            self._record(frame)
            yield frame.event

    def _record(self, frame: Frame) -> None:
        self._cursor = frame.cursor or self._cursor
        self._task = task_of(frame.event) or self._task
        self._is_resumable = bool(self._task)

    def _wait_before_retry(self, pauses: Iterator[float], reason: str) -> None:
        pause = next(pauses, None)
        if pause is None or not self._is_resumable:
            raise RequestFailed(f"connection to {self._client.url} lost: {reason}")
        time.sleep(pause)
