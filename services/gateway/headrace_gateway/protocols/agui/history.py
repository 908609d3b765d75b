"""A thread's history: the folds of all its runs, merged and compacted."""

from dataclasses import dataclass, field
from typing import Any

from headrace.model.entry import Entry
from headrace.model.errors import LogLost
from headrace.model.events import Json
from headrace.model.run_ids import own_id
from headrace.model.task import TaskKey
from headrace_gateway.protocols.agui.fold import Fold
from headrace_gateway.protocols.agui.thread_messages import ThreadMessages
from headrace_gateway.protocols.agui.threads import RunThread, ThreadRun

_STARTS = {
    "TEXT_MESSAGE_START": "messageId",
    "TOOL_CALL_START": "toolCallId",
    "REASONING_MESSAGE_START": "messageId",
}
_DELTAS = {
    "TEXT_MESSAGE_CONTENT": "messageId",
    "TOOL_CALL_ARGS": "toolCallId",
    "REASONING_MESSAGE_CONTENT": "messageId",
}
_ENDS = {
    "TEXT_MESSAGE_END": "messageId",
    "TOOL_CALL_END": "toolCallId",
    "REASONING_MESSAGE_END": "messageId",
}


@dataclass(slots=True)
class _Item:
    """One message or call."""

    start: Json
    deltas: list[Json] = field(default_factory=list)

    end: Json | None = None

    def events(self) -> list[Json]:
        """Return its events, with all deltas joined."""
        whole = "".join(delta["delta"] for delta in self.deltas)
        content = [{**self.deltas[0], "delta": whole}] if whole else []
        return [self.start, *content, *([] if self.end is None else [self.end])]


def compacted(events: list[Json]) -> list[Json]:
    """Return `events`, the stream of one run, with each item's deltas joined."""
    items: list[Json | _Item] = []
    is_open: dict[tuple[str, str], _Item] = {}
    for event in events:
        kind = event["type"]
        if kind in _STARTS:
            item = is_open[_key(kind, event[_STARTS[kind]])] = _Item(event)
            items.append(item)
        elif kind in _DELTAS:
            is_open[_key(kind, event[_DELTAS[kind]])].deltas.append(event)
        elif kind in _ENDS:
            is_open.pop(_key(kind, event[_ENDS[kind]])).end = event
        else:
            items.append(event)
    return [event for one in items for event in (one.events() if isinstance(one, _Item) else [one])]


def _key(kind: str, name: str) -> tuple[str, str]:
    return kind.partition("_")[0], name


@dataclass(slots=True)
class PastRun:
    """One run, folded up to the end of its log."""

    found: ThreadRun
    over: bool
    events: list[Json]
    """AG-UI events, compacted."""
    answers: list[Json]
    """What began the run, as AG-UI's `resume`; none has an empty id."""


@dataclass(slots=True)
class ThreadHistory:
    """Runs of a thread, in the order in which they started."""

    messages: ThreadMessages = field(default_factory=ThreadMessages)
    state: Any = field(default_factory=dict)
    """State after the last run."""
    runs: list[PastRun] = field(default_factory=list)
    _interrupts: dict[TaskKey, dict[str, str]] = field(default_factory=dict)
    """The ids that clients have of each task's interrupts, by the agent's own."""

    def add(self, found: ThreadRun, entries: list[Entry]) -> None:
        """Add the next run, whose log is `entries`."""
        fold = Fold(found.number)
        frames = [frame for entry in entries for frame in fold.read(entry)]
        if fold.view is None:
            return
        events = compacted([frame.event for frame in frames])
        shown = self._interrupts.setdefault(found.key, {})
        self.runs.append(PastRun(found, fold.over, events, _answers(found, shown)))
        shown |= _interrupts_in(events)
        self.messages.add(fold.view)
        self.state = fold.view.state.value

    def run_list(self) -> list[Json]:
        """Return the runs in the form that clients receive."""
        return [
            {
                "runId": run.found.run.id,
                "taskId": run.found.key.task,
                "startedAt": run.found.time,
                "over": run.over,
                "answers": run.answers,
                "events": run.events,
            }
            for run in self.runs
        ]


def _interrupts_in(events: list[Json]) -> dict[str, str]:
    """Return the ids that clients have of the interrupts in a run's events, by the agent's own."""
    return {
        own_id(interrupt["id"]): interrupt["id"]
        for event in events
        for interrupt in event.get("outcome", {}).get("interrupts", ())
    }


def _answers(found: ThreadRun, shown: dict[str, str]) -> list[Json]:
    """Return a run's answers, by the ids that clients have of the interrupts, as `shown` says."""
    return [
        {**one, "interruptId": shown.get(one["interruptId"], one["interruptId"])}
        for one in found.run.answers
    ]


async def past_of(thread: RunThread, before: ThreadRun | None = None) -> ThreadHistory:
    """Return the history of `thread`, or its history just before one of its runs.

    Raises:
        StateUnavailable, BusUnavailable: try again.
    """
    past = ThreadHistory()
    for found in await thread.runs():
        if before is not None and (found.key, found.number) == (before.key, before.number):
            break
        try:
            past.add(found, await thread.entries(found))
        except LogLost:
            continue  # reached its retention during the read
    return past
