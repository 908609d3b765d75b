"""Agents that may answer with a bare Message: what a client sees while it is not yet clear.

Either it sees exactly one Message, or the Task first and then its updates. So generation 1 is held
back until the agent's first output. Once a client has been shown the Task, a Message that comes
after all reads as the Task's completion.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace

import orjson

from headrace.model.entry import ANSWERED, Entry
from headrace.model.events import ATTEMPT, GENERATION, Json
from headrace.model.task import COMPLETED
from headrace_gateway.feeds import EntryRenderer, Feed

SHOWN_AFTER = 2.0
"""Seconds after which the Task is shown though nobody knows yet what it will be."""


async def bare_answer(feed: Feed) -> int | None:
    """Return the generation of the Message that a new log answers with; None: it is a task.

    Raises:
        LogLost, BusUnavailable: as `FeedReader.read`.
    """
    reader = feed.reader(0)
    with suppress(TimeoutError):
        async with asyncio.timeout(SHOWN_AFTER):
            while blocks := await reader.read():
                for block in blocks:
                    if block.entry.stamp.state == ANSWERED:
                        return block.entry.last_generation
                    if any(map(_is_output, block.entry.events)):
                        return None
    return None


def _is_output(event: Json) -> bool:
    """Whether the agent said `event`: neither the input nor the beginning of an attempt."""
    update = event.get("statusUpdate")
    return "task" not in event and (update is None or ATTEMPT not in update.get("metadata", {}))


@dataclass(frozen=True, slots=True)
class AfterTask:
    """Events for those who have been shown the task: a bare Message completes it."""

    inner: EntryRenderer
    task: str

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Render the entry as `inner` does, its bare Message as the status that it amounts to."""
        if entry.stamp.state == ANSWERED:
            lines = [
                orjson.dumps(completion(self.task, entry, event)) if "message" in event else line
                for event, line in zip(entry.events, entry.lines, strict=True)
            ]
            entry = replace(entry, lines=lines)
        return self.inner.render(entry, skip)


def completion(task: str, entry: Entry, event: Json) -> Json:
    """Return the status update that the bare Message `event` amounts to."""
    said = event["message"]
    update = {
        "taskId": task,
        "contextId": said["contextId"],
        "status": {"state": COMPLETED, "timestamp": entry.time, "message": said | {"taskId": task}},
        "metadata": {GENERATION: said["metadata"][GENERATION]},
    }
    return {"statusUpdate": update}
