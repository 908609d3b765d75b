"""An AG-UI run's events, from its start or from a cursor on, to its end."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.client.gateways import Gateways, Request
from headrace.client.resumable_stream import ResumableStream
from headrace.client.sse import SseFrame
from headrace.model.events import Json
from headrace.model.task import TASK_HEADER

_FINISHED, _ERROR = "RUN_FINISHED", "RUN_ERROR"
_DISCONNECTED = "disconnected"
"""Code of a RUN_ERROR that ends a connection, and not the run."""


@dataclass(frozen=True, slots=True)
class RunEvent:
    """One AG-UI event, with its cursor."""

    json: Json
    """The event."""
    cursor: str
    """Resumes the run after this event."""
    recovered: bool = True
    """False if events before this one are lost, and snapshots replace them."""

    @property
    def type(self) -> str:
        """The event's type, such as ``TEXT_MESSAGE_CONTENT``."""
        return str(self.json["type"])

    @property
    def text(self) -> str:
        """The event's piece of the answer; empty: it has none."""
        return str(self.json["delta"]) if self.type == "TEXT_MESSAGE_CONTENT" else ""


class RunStream(ResumableStream[RunEvent]):
    """The events of one run (see `ResumableStream`), until it ends."""

    def __init__(self, gateways: Gateways, request: Request, cursor: str = "") -> None:
        """Follow the run that `request` starts, or reattaches to, from `cursor` on."""
        super().__init__(gateways, cursor)
        body = request.body or {}
        self.thread, self.run = str(body.get("threadId", "")), str(body.get("runId", ""))
        self.task = ""
        """Id of the run's A2A task; empty before the first event."""
        self.interrupts = list[Json]()
        """The agent's questions, as AG-UI Interrupts, once the run has ended with them."""
        self._starting = request
        self._over = False
        self._recovered = True
        self._ends = False
        """Whether the last event was the end of an item."""
        self._reopens = False
        """Whether the gateway has closed items that the run continues."""

    async def _request(self) -> Request:
        # Gateways identify a run by its ids: a repeated request does not start another one.
        return self._starting

    def _connected(self, headers: Mapping[str, str]) -> None:
        self.task = headers.get(TASK_HEADER, self.task)

    def _kept(self, frames: list[SseFrame], *, recovered: bool) -> list[SseFrame]:
        self._recovered = recovered
        if recovered:
            frames = [frame for frame in frames if not self._repeats(frame)]
        last = frames[-1].data if frames else {}
        if last.get("type") != _ERROR or last.get("code") != _DISCONNECTED:
            return frames
        # The gateway has closed all open items. They continue where the run is resumed.
        while frames and (frames[-1].data is last or _is_end(frames[-1])):
            frames.pop()
        self._reopens = self._ends and not frames
        return frames

    def _repeats(self, frame: SseFrame) -> bool:
        """Return whether a resumed stream leads with `frame`: the run's start, or an open item's.

        Such frames have the cursor that the request had.
        """
        if not self._resumed_after or frame.cursor != self._resumed_after:
            return False
        self._note_end(frame)
        return not (self._reopens and frame.data["type"] != "RUN_STARTED")

    def _event(self, frame: SseFrame) -> RunEvent:
        self._ends = _is_end(frame)
        self._note_end(frame)
        return RunEvent(frame.data, frame.cursor, recovered=self._recovered)

    def _note_end(self, frame: SseFrame) -> None:
        self._over = frame.data["type"] in (_FINISHED, _ERROR)
        if self._over:
            self.interrupts = (frame.data.get("outcome") or {}).get("interrupts") or []

    def _is_over(self) -> bool:
        return self._over


def _is_end(frame: SseFrame) -> bool:
    kind = str(frame.data["type"])
    return kind != _FINISHED and kind.endswith(("_END", "_FINISHED"))
