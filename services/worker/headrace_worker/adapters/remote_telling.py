"""What an outside agent says, told in this task's log once, however often it is heard.

A stream that breaks off is opened anew, and begins with the task as it is: only what has not been
told yet is.
"""

from headrace.jetstream.objects import LINKS_ARE_OURS, is_link
from headrace.model.events import Json
from headrace.model.task import AUTH_REQUIRED, RUN_ENDED
from headrace.sdk.context import RunContext
from headrace.sdk.errors import MalformedOutput
from headrace.sdk.relayed import Artifact, Outcome, Said
from headrace_worker.adapters.a2a_json import artifact_of, outcome_of, said_of
from headrace_worker.adapters.remote_names import without_names
from headrace_worker.encoder import foreign

_USER = "ROLE_USER"


class Told:
    """What this task's log has of the other one."""

    def __init__(self, task: Json | None = None) -> None:
        """Begin with `task`, ours, as former runs have left it."""
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
    """Tells the events of one run."""

    def __init__(self, ctx: RunContext, told: Told) -> None:
        """Tell them in the run of `ctx`, whose log has `told` so far."""
        self._ctx, self._told = ctx, told
        self.task = self.context = ""
        """Ids of the other task and its conversation, once they are known."""
        self.asks: Json | None = None
        """What the other agent asks its user for credentials with; None: it does not."""
        self.is_over = False
        self.joined = False
        """Whether a stream was opened anew without a cursor: what its first snapshot told may then
        come again as events, which only the task as a whole sets right."""

    async def mend(self, task: Json) -> None:
        """Tell the artifacts of the other task, ours being over, where ours are unlike them."""
        _check_links({"task": task})
        for artifact in task.get("artifacts", []):
            await self._whole(artifact)

    async def take(self, event: Json) -> None:
        """Tell an event, a StreamResponse.

        Raises:
            MalformedOutput: it is not of A2A's shape, or names a file of this fleet.
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
                await self._message(message, {}, whole=True)
        for artifact in task.get("artifacts", []):
            await self._whole(artifact)
        await self._status(task.get("status", {}), {}, whole=True)

    def _note(self, task: str, context: str) -> None:
        self.task, self.context = task or self.task, context or self.context

    async def _chunk(self, update: Json) -> None:
        chunk = artifact_of(update)
        known = self._told.artifacts.get(chunk.id)
        if chunk.append and known is None:
            update = {**update, "append": False}
            chunk = artifact_of(update)
        before = (known or "") if chunk.append else ""
        self._told.artifacts[chunk.id] = before + _content(chunk.parts)
        await self._ctx.emit(chunk)

    async def _whole(self, artifact: Json) -> None:
        chunk = artifact_of({"artifact": artifact, "lastChunk": True})
        content, known = _content(chunk.parts), self._told.artifacts.get(chunk.id)
        self._told.artifacts[chunk.id] = content
        if known == content:
            return
        if known and _is_text(chunk.parts) and content.startswith(known):
            rest = {**chunk.parts[-1], "text": content[len(known) :]}
            chunk = Artifact(chunk.id, [rest], append=True)
        await self._ctx.emit(chunk)

    async def _status(self, status: Json, metadata: Json, *, whole: bool = False) -> None:
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
            if not whole or message:
                self.asks = None
            if message.get("messageId"):
                await self._message(message, metadata, whole=whole)
            elif (said := said_of(status, metadata)) is not None:
                await self._ctx.emit(said)

    def _is_past(self, status: Json) -> bool:
        """Tell whether a question is the one that this run's message has answered."""
        asked = status.get("message", {}).get("messageId")
        return status.get("state") == "TASK_STATE_INPUT_REQUIRED" and asked in self._told.messages

    async def _message(self, message: Json, metadata: Json, *, whole: bool) -> None:
        name, said = message.get("messageId", ""), message.get("parts", [])
        content, known = _content(said), self._told.messages.get(name)
        if self.joined and known == content:
            return
        if whole and known is not None:
            if not _is_text(said) or not content.startswith(known) or content == known:
                return
            said = [{**said[-1], "text": content[len(known) :]}]
            self._told.messages[name] = content
        else:
            self._told.messages[name] = (known or "") + content
        await self._ctx.emit(Said(said, name, metadata))

    async def _end(self, said: Outcome) -> None:
        self.is_over = True
        await self._ctx.emit(said)


def _check_links(event: Json) -> None:
    """Refuse links to this fleet's files: only this fleet's own agents can say them."""
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


def _is_text(said: object) -> bool:
    return isinstance(said, list) and bool(said) and all("text" in part for part in said)


def _content(said: object) -> str:
    """Return what parts say, to be compared: their text, and of other parts all but metadata."""
    if not isinstance(said, list):
        return ""
    return "".join(
        part["text"] if "text" in part else repr({k: v for k, v in part.items() if k != "metadata"})
        for part in said
    )
