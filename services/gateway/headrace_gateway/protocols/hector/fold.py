"""The fold of a task's log into Hector's AG-UI events; deterministic for a given log."""

from typing import Any

from headrace.model import parts
from headrace.model.delegation import CHILD
from headrace.model.entry import Entry
from headrace.model.events import ATTEMPT, DISCARDED_AFTER, RETRACTED, Json
from headrace.model.task import (
    COMPLETED,
    FAILED,
    INTERRUPTED,
    REJECTED,
    SUBMITTED,
    TERMINAL,
    WORKING,
)
from headrace_gateway.protocols.hector.blocks import CONTENT, OpenBlocks, OpenToolCalls
from headrace_gateway.protocols.hector.events import HectorEvent
from headrace_gateway.protocols.hector.signals import signal

_CODES = {FAILED: "failed", REJECTED: "rejected"}
_MESSAGE, _USER = "message", "ROLE_USER"
_AT_WORK: Json = {"state": WORKING}


class HectorFold:
    """Reads the entries of a log in order and returns Hector's events."""

    def __init__(self) -> None:
        """Start before the task's first entry."""
        self._events: list[HectorEvent] = []
        self._generation = self._number = 0
        self._time = self._message = ""
        self._blocks, self._calls = OpenBlocks(self._emit), OpenToolCalls(self._emit)

    def read(self, entry: Entry, after: int = 0) -> list[HectorEvent]:
        """Return the events of the next entry, except those up to generation `after`."""
        self._time = entry.time
        for generation, event in enumerate(entry.parsed(), entry.generation):
            if generation > after:
                self._turn_to(generation)
                self._event(event)
        return self._pop_events()

    def broken(self, code: str, message: str) -> list[HectorEvent]:
        """Return the event that ends a stream whose log cannot be read further."""
        self._emit("error", code=code, message=message)
        return self._pop_events()

    def _turn_to(self, generation: int) -> None:
        self._generation, self._number = generation, 0

    def _pop_events(self) -> list[HectorEvent]:
        events, self._events = self._events, []
        return events

    def _emit(self, name: str, **payload: Any) -> None:  # noqa: ANN401 - any JSON
        place = self._generation, self._number
        self._events.append(HectorEvent(*place, name, self._time, payload))
        self._number += 1

    def _event(self, event: Json) -> None:
        """Emit the events of a log event, or an error event if it is malformed."""
        try:
            if (task := event.get("task")) is not None:
                self._emit("task_start", taskId=task["id"], contextId=task["contextId"])
                self._begin_message(task["id"], task["contextId"])
            elif (update := event.get("artifactUpdate")) is not None:
                self._artifact(update)
            elif (update := event.get("statusUpdate")) is not None:
                self._status(update)
            elif (message := event.get("message")) is not None:
                self._answer(message)
        except (KeyError, TypeError, ValueError, AttributeError):
            self._emit("error", code="unreadable", message="an event has an invalid shape")

    def _begin_message(self, task: str, context: str, name: str = "") -> None:
        self._message = name or f"msg-{task}.{self._generation}"
        self._blocks.renumber()
        ids = {"messageId": self._message, "contextId": context, "taskId": task}
        self._emit("message_start", **ids, role="agent")

    def _end_message(self) -> None:
        self._blocks.close_all()
        if self._message:
            self._emit("message_stop", messageId=self._message)
            self._message = ""

    def _artifact(self, update: Json) -> None:
        if (update.get("metadata") or {}).get(RETRACTED):
            return
        artifact = update["artifact"]
        name = artifact["artifactId"]
        if not update.get("append"):
            self._blocks.close(CONTENT, name)
        for number, part in enumerate(artifact.get("parts", [])):
            self._part(part, name, number, update, is_block=True)
        if update.get("lastChunk"):
            self._blocks.close(CONTENT, name)

    def _status(self, update: Json) -> None:
        state, metadata = update["status"]["state"], update.get("metadata") or {}
        if (child := metadata.get(CHILD)) is not None:
            self._delegated(update, child)
            return
        message = update["status"].get("message")
        if message is not None and message.get("role") == _USER:
            message = None
        if state == SUBMITTED:
            self._update(update)
            self._begin_message(update["taskId"], update["contextId"])
        elif state in (FAILED, REJECTED):
            self._end_message()
            self._error(update, state)
        elif state == WORKING and message is None:
            self._working(update, metadata)
        else:
            self._parts(message or {}, update)
            self._rest(update, state)

    def _rest(self, update: Json, state: str) -> None:
        if state in TERMINAL or state in INTERRUPTED:
            self._end_message()
        if state == COMPLETED:
            self._emit("task_complete", taskId=update["taskId"])
        elif state != WORKING:
            self._update(update)

    def _working(self, update: Json, metadata: Json) -> None:
        if DISCARDED_AFTER not in metadata:
            self._update(update)
            return
        # Sent events cannot be retracted, so the new attempt's output gets its own message.
        self._end_message()
        self._calls.discard(metadata[DISCARDED_AFTER])
        self._update(update, attempt=metadata.get(ATTEMPT))
        self._begin_message(update["taskId"], update["contextId"])

    def _delegated(self, update: Json, child: Json) -> None:
        """Emit a child's update as an update of the task; Hector has no events for children."""
        content = (update["status"].get("message") or {}).get("parts", [])
        text = "".join(part.get("text", "") for part in content)
        self._update(update, child=child, **({"message": text} if text else {}))

    def _update(self, update: Json, **metadata: Any) -> None:  # noqa: ANN401 - any JSON
        """Emit the task's state; artifact chunks carry none and count as WORKING."""
        status = update.get("status", _AT_WORK)["state"]
        self._emit("task_update", taskId=update.get("taskId"), status=status, metadata=metadata)

    def _error(self, update: Json, state: str) -> None:
        message = update["status"].get("message") or {}
        text = "".join(part.get("text", "") for part in message.get("parts", []))
        task = update["taskId"]
        # Clients written from Hector's documents read `error`.
        named = {"error": text, "errorMessage": text, "errorCode": _CODES[state]}
        self._emit("task_error", taskId=task, **named)

    def _answer(self, message: Json) -> None:
        if not self._message:
            self._begin_message("", message.get("contextId", ""), message["messageId"])
        self._parts(message, {})
        self._end_message()

    def _parts(self, message: Json, update: Json) -> None:
        name = message.get("messageId") or f"msg-{self._generation}"
        for number, part in enumerate(message.get("parts", [])):
            self._part(part, name, number, update)

    def _part(
        self, part: Json, name: str, number: int, update: Json, *, is_block: bool = False
    ) -> None:
        """Emit a part of `update`.

        A part without a block id is a block of its own, unless it belongs to block `name`.
        """
        block = parts.block_id(part) or (name if is_block else "")
        alone = name if number == 0 else f"{name}-{number}"
        if (values := signal(part)) is not None:
            self._update(update, **values)
        elif parts.event_type(part) == parts.TOOL_CALL:
            self._calls.emit(part, alone, self._generation)
        elif "text" in part and parts.event_type(part) == _MESSAGE:
            self._emit("message_delta", messageId=self._message, delta=part["text"])
        elif "text" in part and block:
            self._blocks.emit(part, block)
        else:
            self._blocks.emit(part, block or alone, is_whole=True)
