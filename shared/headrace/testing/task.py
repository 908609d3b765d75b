"""A task of a test fleet: answer, cancel, and read it."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from headrace import clock
from headrace.jetstream.objects import FileOwner, FileStore
from headrace.model import json_text, parts
from headrace.model.entry import Entry
from headrace.model.events import Json, timestamp
from headrace.model.file_links import is_link
from headrace.model.task import TaskKey
from headrace.model.task_report import CalledTool, ResultFile, TaskEvent, TaskReport
from headrace.model.user_message import MessageContent, user_message
from headrace.model.wait import SourceEvent
from headrace.sdk.emit import File
from headrace.testing.ack_gate import AckGate
from headrace.testing.gateway import GatewayTasks


@dataclass(frozen=True, slots=True)
class FleetParts:
    """The parts of a fleet that a task uses."""

    gateway: GatewayTasks
    files: FileStore
    gate: AckGate
    timeout: float
    """Maximum seconds to wait for an event of a run."""


class FleetTask:
    """A task; its methods take the same path as a client's requests."""

    def __init__(self, fleet: FleetParts, key: TaskKey, context: str) -> None:
        """Wrap the task at `key`."""
        self._fleet, self.key, self.context = fleet, key, context
        self._subject = fleet.gateway.subject(key)
        self._after = 0
        self._interrupts = list[Json]()

    @property
    def id(self) -> str:
        """The task's id."""
        return self.key.task

    async def reply(self, message: MessageContent, files: Sequence[File] = ()) -> "TaskResult":
        """Send a message to the task and return the result of its run.

        The message answers the agent's question, or is a follow-up to a working agent.

        Raises:
            HeadraceError: the task accepts no message (`TaskEnded`, `TaskBusy`).
        """
        await self.follow_up(message, files)
        return await self.result()

    async def follow_up(self, message: MessageContent, files: Sequence[File] = ()) -> None:
        """Send a message to the task without waiting for a result.

        Raises:
            HeadraceError: as `answer`.
        """
        self._fleet.gate.open(self._subject)
        self._after = await self._fleet.gateway.follow_up(
            self.key, message_of(message, files, self)
        )

    async def call_webhook(self, name: str, content: bytes | str | Json = b"") -> None:
        """Call the webhook `name` of the task's run, as who has its URL does.

        Args:
            name: The webhook's name, as of ``ctx.webhook(name)``.
            content: The body: bytes, text, or JSON.

        Raises:
            HeadraceError: the run has ended (`NotWaiting`), or the webhook has been called before
                (`AlreadyAnswered`).
            TimeoutError: the run did not begin within the fleet's `timeout`.
        """
        kind = "application/json" if isinstance(content, dict) else ""
        body = body_of(content)
        arrival = SourceEvent(timestamp(clock.now()), body, kind)
        self._fleet.gate.open(self._subject)
        async with self._reading(self._after) as entries:
            async for entry in entries:
                if entry.stamp.attempt and entry.generation > self._after:
                    break
        await self._fleet.gateway.call_webhook(self.key, name, arrival)

    async def cancel(self) -> "TaskResult":
        """Cancel the task and return its result.

        Raises:
            TaskEnded: the task had already ended.
        """
        await self._fleet.gateway.cancel(self.key, lambda: self._fleet.gate.open(self._subject))
        return await self._report()

    async def fork(
        self,
        generation: int | None = None,
        message: MessageContent | None = None,
        files: Sequence[File] = (),
    ) -> "FleetTask":
        """Begin a new task with this one's events up to `generation`, and return it.

        It continues with `message`, or as this task did. In the middle of a run, its past ends with
        the last input, checkpoint or step before `generation` (None: the task's current one).

        Raises:
            HeadraceError: the task has no such generation (`Malformed`).
        """
        sent = None if message is None else message_of(message, files)
        key, context = await self._fleet.gateway.fork(self.key, generation, sent)
        return FleetTask(self._fleet, key, context)

    async def result(self) -> "TaskResult":
        """Wait until no run is working or queued, and return the task.

        Raises:
            TimeoutError: no event came within the fleet's `timeout`.
        """
        self._fleet.gate.open(self._subject)
        async with self._reading(0) as entries:
            async for entry in entries:
                for line in entry.lines:
                    self._note(TaskEvent(json_text.decode(line)))
        return await self._report()

    async def events(self, after: int = 0) -> AsyncIterator[TaskEvent]:
        """Yield the events after generation `after` until the run ends or requires input.

        Raises:
            TimeoutError: no event came within the fleet's `timeout`.
        """
        async with self._reading(after) as entries:
            async for entry in entries:
                for line in entry.lines:
                    event = TaskEvent(json_text.decode(line))
                    self._note(event)
                    if event.generation > after:
                        yield event
                self._fleet.gate.step(self._subject)
        self._fleet.gate.open(self._subject)

    def _note(self, event: TaskEvent) -> None:
        if event.state:
            self._interrupts = event.interrupts

    async def now(self) -> "TaskResult":
        """Return the current task without waiting."""
        return await self._report()

    async def read(self, url: str) -> bytes:
        """Return the content of a large file, given its link in a result.

        Raises:
            FileUnknown: there is no such file.
        """
        reader = FileOwner("anonymous", self.context)
        return await self._fleet.files.read(url, self.key.tenant, reader)

    @asynccontextmanager
    async def _reading(self, after: int) -> AsyncIterator[AsyncIterator[Entry]]:
        feeds = self._fleet.gateway.feeds
        async with await feeds.open(self.key) as feed:
            reader = feed.reader(after)

            async def entries() -> AsyncIterator[Entry]:
                while True:
                    async with asyncio.timeout(self._fleet.timeout):
                        blocks = await reader.read()
                    for block in blocks:
                        yield block.entry
                    over = not blocks or (feed.run_ended and reader.after >= feed.head)
                    if over and feed.head >= self._after:
                        return

            yield entries()

    async def _report(self) -> "TaskResult":
        found = await self._fleet.gateway.found(self.key)
        files = [
            ResultFile(
                part.get("filename", artifact.get("name", "")),
                part.get("mediaType", ""),
                await self._content(part),
                part.get("url", ""),
            )
            for artifact in found.task.get("artifacts", [])
            for part in artifact["parts"]
            if "raw" in part or "url" in part
        ]
        return TaskResult(found.task, self, files, self._interrupts)

    async def _content(self, part: Json) -> bytes | None:
        if "raw" in part:
            return b64decode(part["raw"])
        return await self.read(part["url"]) if is_link(part["url"]) else None


@dataclass(frozen=True)
class TaskResult(TaskReport):
    """A `TaskReport` with the task's files and a handle to answer it."""

    handle: FleetTask
    files: list[ResultFile]
    """The files in the results, including the content of large ones."""
    interrupts: list[Json]
    """The agent's questions, as AG-UI Interrupts, if the run ended with them."""

    def __repr__(self) -> str:
        """Return what a failed assertion is understood by, in a line: pytest shows it."""
        return f"TaskResult({', '.join(self.summary())})"

    def summary(self) -> list[str]:
        """Return the state and what there is of status, text, tool calls and files."""
        shown = {
            "state": self.state,
            "status_text": self.status_text,
            "text": self.text,
            "tool_calls": [_shown(one) for one in self.tool_calls],
            "data": self.data,
            "files": [one.name for one in self.files],
        }
        return [f"{name}={value!r}" for name, value in shown.items() if value]

    async def reply(self, message: MessageContent, files: Sequence[File] = ()) -> "TaskResult":
        """Send the next message and return its result (see `FleetTask.reply`)."""
        return await self.handle.reply(message, files)


def _shown(tool: CalledTool) -> str:
    result = f"failed: {tool.error}" if tool.error else f"{tool.result!r}"
    return f"{tool.name}({tool.arguments!r}) -> {result}"


def body_of(content: bytes | str | Json) -> bytes:
    """Return the body of a webhook's call or of an event: bytes, text, or JSON."""
    text = json_text.encode(content) if isinstance(content, dict) else content
    return text.encode() if isinstance(text, str) else text


def message_of(
    content: MessageContent, files: Sequence[File] = (), task: FleetTask | None = None
) -> Json:
    """Return a user's A2A Message."""
    attached = [parts.file_part(one.content or b"", one.name, one.media_type) for one in files]
    if task is None:
        return user_message(content, attached)
    return user_message(content, attached, taskId=task.id, contextId=task.context)
