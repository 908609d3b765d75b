"""The events of an outside agent, emitted to a task's log while it works.

Each event is emitted once, even if it arrives repeatedly. A stream that breaks off is reopened and
starts with the task's current state: only what is new is emitted.

The log records which outside task belongs to a task. The task's metadata show it to clients too,
but clients and outside agents can also write there. So only the event counts in which an attempt of
this fleet recorded it.
"""

from collections.abc import Iterable

from headrace.adapters.a2a.protojson import artifact_of, message_of, outcome_of
from headrace.model.delegation import CHILD
from headrace.model.events import Json
from headrace.model.file_links import LINKS_ARE_OURS, is_link
from headrace.model.fork import ForkOf
from headrace.model.relayed import foreign
from headrace.model.task import AUTH_REQUIRED, RUN_ENDED, WORKING
from headrace.sdk.context import RunContext
from headrace.sdk.emit import Artifact, Outcome, RelayedMessage
from headrace.sdk.errors import MalformedOutput

REMOTE_TASK, REMOTE_CONTEXT = "remote_task", "remote_context"
"""Metadata keys of a task for the ids of the outside task and its context."""

_USER = "ROLE_USER"


def remote_of(log: Iterable[tuple[int, Json]]) -> tuple[str, str]:
    """Return the ids of the outside task and its context; empty if unknown.

    Clients' metadata are in events of other states. The outside agent's own values for these keys
    are removed (`without_names`). The outside task of a fork's past is the source's.
    """
    found, past = ("", ""), 0
    for generation, event in log:
        if (fork := ForkOf.of((event.get("task") or {}).get("metadata"))) is not None:
            past = fork.generation
        if generation <= past:
            continue
        update = event.get("statusUpdate", {})
        metadata = update.get("metadata") or {}
        at_work = update.get("status", {}).get("state") == WORKING and CHILD not in metadata
        if at_work and (task := metadata.get(REMOTE_TASK)):
            found = (str(task), str(metadata.get(REMOTE_CONTEXT, "")))
    return found


def without_names(metadata: Json) -> Json:
    """Return an outside agent's metadata without the keys for outside tasks."""
    return {k: v for k, v in metadata.items() if k not in {REMOTE_TASK, REMOTE_CONTEXT}}


class EmittedContent:
    """What this task's log has of the outside task."""

    def __init__(self, task: Json | None = None) -> None:
        """Start with `task`, this fleet's task after earlier runs."""
        task = task or {}
        self.artifacts = {
            artifact["artifactId"]: _content(artifact.get("parts", []))
            for artifact in task.get("artifacts", [])
        }
        self.messages = {
            message["messageId"]: _content(message.get("parts", []))
            for message in task.get("history", [])
        }
        if last := task.get("status", {}).get("message", {}).get("messageId"):
            self.messages[last] = _content(task["status"]["message"].get("parts", []))


class RemoteEvents:
    """Emits the events of one run."""

    def __init__(self, ctx: RunContext, emitted: EmittedContent) -> None:
        """Emit events in the run of `ctx`, whose log has `emitted` so far."""
        self._ctx, self._emitted = ctx, emitted
        self.task = self.context = ""
        """Ids of the outside task and its context, once known."""
        self.asks: Json | None = None
        """The message with which the outside agent asks for credentials; None if it does not."""
        self.is_over = False
        self.joined = False
        """Whether a stream was reopened without a cursor. Events may then repeat what its first
        snapshot contained; `repair` corrects that from the complete task."""

    async def repair(self, task: Json) -> None:
        """Emit the artifacts of the finished outside task that differ from this task's."""
        _check_links({"task": task})
        for artifact in task.get("artifacts", []):
            await self._complete(artifact)

    async def pass_on(self, event: Json) -> None:
        """Emit an event, a StreamResponse.

        Raises:
            MalformedOutput: The event violates A2A, or links to a file of this fleet.
        """
        _check_links(event)
        if "task" in event:
            await self._snapshot(event["task"])
        elif "message" in event:
            message = event["message"]
            await self._end(Outcome("TASK_STATE_COMPLETED", message.get("parts", [])))
        elif "artifactUpdate" in event:
            self.asks = None
            await self._chunk(event["artifactUpdate"])
        elif "statusUpdate" in event:
            update = event["statusUpdate"]
            self._note(update.get("taskId", ""), update.get("contextId", ""))
            await self._status(
                update.get("status", {}), without_names(foreign(update.get("metadata", {})))
            )

    async def _snapshot(self, task: Json) -> None:
        self._note(task.get("id", ""), task.get("contextId", ""))
        for message in task.get("history", []):
            if message.get("role") != _USER:
                await self._message(message, {}, is_complete=True)
        for artifact in task.get("artifacts", []):
            await self._complete(artifact)
        await self._status(task.get("status", {}), {}, is_complete=True)

    def _note(self, task: str, context: str) -> None:
        self.task, self.context = task or self.task, context or self.context

    async def _chunk(self, update: Json) -> None:
        chunk = artifact_of(update)
        known = self._emitted.artifacts.get(chunk.id)
        if chunk.append and known is None:
            update = {**update, "append": False}
            chunk = artifact_of(update)
        before = (known or "") if chunk.append else ""
        self._emitted.artifacts[chunk.id] = before + _content(chunk.parts)
        await self._ctx.emit(chunk)

    async def _complete(self, artifact: Json) -> None:
        chunk = artifact_of({"artifact": artifact, "lastChunk": True})
        content, known = _content(chunk.parts), self._emitted.artifacts.get(chunk.id)
        self._emitted.artifacts[chunk.id] = content
        if known == content:
            return
        if known and _is_text(chunk.parts) and content.startswith(known):
            rest = {**chunk.parts[-1], "text": content[len(known) :]}
            chunk = Artifact(chunk.id, [rest], append=True)
        await self._ctx.emit(chunk)

    async def _status(self, status: Json, metadata: Json, *, is_complete: bool = False) -> None:
        state = status.get("state", "")
        message = status.get("message", {})
        if state in RUN_ENDED:
            if not self._is_past(status):
                await self._end(outcome_of(status, metadata))
        elif message.get("role") == _USER:
            return
        elif state == AUTH_REQUIRED:
            self.asks = message
        else:
            if not is_complete or message:
                self.asks = None
            if message.get("messageId"):
                await self._message(message, metadata, is_complete=is_complete)
            elif (relayed := message_of(status, metadata)) is not None:
                await self._ctx.emit(relayed)

    def _is_past(self, status: Json) -> bool:
        """Return whether a question is the one that this run's message answers."""
        prompt = status.get("message", {}).get("messageId")
        return (
            status.get("state") == "TASK_STATE_INPUT_REQUIRED" and prompt in self._emitted.messages
        )

    async def _message(self, message: Json, metadata: Json, *, is_complete: bool) -> None:
        name, sent = message.get("messageId", ""), message.get("parts", [])
        content, known = _content(sent), self._emitted.messages.get(name)
        if self.joined and known == content:
            return
        if is_complete and known is not None:
            if not _is_text(sent) or not content.startswith(known) or content == known:
                return
            sent = [{**sent[-1], "text": content[len(known) :]}]
            self._emitted.messages[name] = content
        else:
            self._emitted.messages[name] = (known or "") + content
        await self._ctx.emit(RelayedMessage(sent, name, metadata))

    async def _end(self, outcome: Outcome) -> None:
        self.is_over = True
        await self._ctx.emit(outcome)


def _check_links(event: Json) -> None:
    """Refuse links to this fleet's files, which only the fleet's own agents may send."""
    task = event.get("task", {})
    for holder in (
        event.get("message", {}),
        event.get("artifactUpdate", {}).get("artifact", {}),
        event.get("statusUpdate", {}).get("status", {}).get("message", {}),
        task.get("status", {}).get("message", {}),
        *task.get("artifacts", []),
        *task.get("history", []),
    ):
        for number, part in enumerate(holder.get("parts", [])):
            if is_link(part.get("url")):
                raise MalformedOutput(f"parts[{number}].url {LINKS_ARE_OURS}")


def _is_text(sent: object) -> bool:
    return isinstance(sent, list) and bool(sent) and all("text" in part for part in sent)


def _content(sent: object) -> str:
    """Return parts for comparison: text, and other parts without their metadata."""
    if not isinstance(sent, list):
        return ""
    return "".join(
        part["text"] if "text" in part else repr({k: v for k, v in part.items() if k != "metadata"})
        for part in sent
    )
