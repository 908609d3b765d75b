"""Hand-written logs and their rendering for Hector's clients."""

import orjson

from headrace.model.entry import Entry, Stamp
from headrace.model.events import Json
from headrace.model.task import COMPLETED, RUN_ENDED, SUBMITTED, WORKING
from headrace_gateway.protocols.hector.events import HectorEvent
from headrace_gateway.protocols.hector.fold import HectorFold

TASK, CONTEXT, TIME = "task-123", "ctx-456", "2025-11-04T10:52:22Z"
"""As in the documents."""


class HectorLog:
    """A log of one event per entry."""

    def __init__(self) -> None:
        """Begin with a task that an agent works on."""
        self.entries: list[Entry] = []
        task = {"id": TASK, "contextId": CONTEXT, "status": {"state": SUBMITTED}}
        self._append({"task": task}, SUBMITTED)
        self.status(WORKING)

    def status(
        self, state: str, *output: Json, message: str = "m", metadata: Json | None = None
    ) -> "HectorLog":
        """Append a status update."""
        status: Json = {"state": state}
        if output:
            status["message"] = {"messageId": message, "role": "ROLE_AGENT", "parts": list(output)}
        update = {
            "taskId": TASK,
            "contextId": CONTEXT,
            "status": status,
            "metadata": metadata or {},
        }
        return self._append({"statusUpdate": update}, state)

    def chunk(self, part: Json, artifact: str = "a", *, append: bool = False) -> "HectorLog":
        """Append an artifact's chunk."""
        body = {"artifactId": artifact, "parts": [part]}
        update = {"taskId": TASK, "contextId": CONTEXT, "artifact": body, "append": append}
        return self._append({"artifactUpdate": update}, WORKING)

    def event(self, event: Json) -> "HectorLog":
        """Append any event."""
        return self._append(event, WORKING)

    def events(self, after: int = 0) -> list[HectorEvent]:
        """Return what the dialect tells of the events behind generation `after`."""
        fold = HectorFold()
        received = [one for entry in self.entries for one in fold.read(entry)]
        return [one for one in received if one.generation > after]

    def completed(self) -> "HectorLog":
        """Complete the task."""
        return self.status(COMPLETED)

    def _append(self, event: Json, state: str) -> "HectorLog":
        generation = len(self.entries) + 1
        stamp = Stamp("log00000", generation, "w", state, 1)
        self.entries.append(Entry(stamp, [orjson.dumps(event)], generation, TIME))
        assert state in RUN_ENDED | {SUBMITTED, WORKING}
        return self
