"""What a thread has come to: the folds of all its runs, put together and compacted."""

from dataclasses import dataclass, field
from typing import Any

from headrace.model.entry import Entry
from headrace.model.errors import LogLost
from headrace.model.events import Json
from headrace_gateway.protocols.agui.compact import compacted
from headrace_gateway.protocols.agui.fold import Fold
from headrace_gateway.protocols.agui.threads import Thread, ThreadRun


@dataclass(slots=True)
class PastRun:
    """One run, folded as far as its log goes."""

    found: ThreadRun
    over: bool
    events: list[Json]
    """AG-UI events, compacted."""


@dataclass(slots=True)
class Past:
    """Runs of a thread in the order in which they began."""

    messages: list[Json] = field(default_factory=list)
    """Each once, as it was last."""
    state: Any = field(default_factory=dict)
    """As the last of the runs left it."""
    runs: list[PastRun] = field(default_factory=list)

    def take(self, found: ThreadRun, entries: list[Entry]) -> None:
        """Add the next run, whose log is `entries`."""
        fold = Fold(found.number)
        frames = [frame for entry in entries for frame in fold.read(entry)]
        if fold.view is None:
            return
        events = compacted([frame.event for frame in frames])
        self.runs.append(PastRun(found, fold.over, events))
        new = {message["id"]: message for message in fold.view.shown()}
        self.messages = [new.pop(message["id"], message) for message in self.messages]
        self.messages += new.values()
        self.state = fold.view.state

    def run_list(self) -> list[Json]:
        """Return the runs as clients get them."""
        return [
            {
                "runId": run.found.run.id,
                "taskId": run.found.key.task,
                "startedAt": run.found.time,
                "over": run.over,
                "events": run.events,
            }
            for run in self.runs
        ]


async def past_of(thread: Thread, before: ThreadRun | None = None) -> Past:
    """Return what `thread` has come to, or had come to just before one of its runs.

    Raises:
        StateUnavailable, BusUnavailable: try again.
    """
    past = Past()
    for found in await thread.runs():
        if before is not None and (found.key, found.number) == (before.key, before.number):
            break
        try:
            past.take(found, await thread.entries(found))
        except LogLost:
            continue  # past its retention while we looked
    return past
