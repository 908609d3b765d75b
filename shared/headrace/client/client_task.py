"""A task as a caller gets it: the agent's output, its files, and a method to reply."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.client.gateways import Gateways, Request
from headrace.client.outgoing_message import Attachment
from headrace.client.paths import file_path
from headrace.model.events import Json
from headrace.model.task_report import ResultFile, TaskReport
from headrace.model.user_message import MessageContent


class Sender(Protocol):
    """The methods of a client that a reply uses."""

    async def send(  # noqa: D102 - as `Client.send`
        self,
        agent: str | None,
        message: MessageContent = "",
        *,
        task: str | None = None,
        files: Sequence[Attachment] = (),
        answers: Mapping[str, Any] | None = None,
    ) -> "ClientTask": ...


@dataclass(frozen=True)
class ClientTask(TaskReport):
    """A task when its run had ended or required input, or as it is now."""

    agent: str | None
    """The agent's name; None: the default agent."""
    sender: Sender
    gateways: Gateways

    @property
    def context(self) -> str:
        """The id of the task's conversation."""
        return str(self.task.get("contextId", ""))

    async def reply(
        self,
        message: MessageContent = "",
        *,
        files: Sequence[Attachment] = (),
        answers: Mapping[str, Any] | None = None,
    ) -> "ClientTask":
        """Send the next message to the task, and return the task when its run has ended.

        The arguments are those of `Client.send`.

        Raises:
            RequestRefused, ConnectionLost: as `Client.send`.
        """
        return await self.sender.send(
            self.agent, message, task=self.id, files=files, answers=answers
        )

    async def files(self) -> list[ResultFile]:
        """Return the files in the results; large ones are downloaded from the gateway.

        A file at an address elsewhere has no content, because the client sends requests only to its
        gateways.

        Raises:
            RequestRefused, ConnectionLost: a download failed.
        """
        return [
            ResultFile(
                part.get("filename") or artifact.get("name", ""),
                part.get("mediaType", ""),
                await self._content(part),
                part.get("url", ""),
            )
            for artifact in self.artifacts
            for part in artifact.get("parts", [])
            if "raw" in part or "url" in part
        ]

    async def _content(self, part: Json) -> bytes | None:
        if "raw" in part:
            return b64decode(part["raw"])
        path = file_path(part["url"])
        return None if path is None else await self.gateways.content(Request("GET", path))


def message_as_task(message: Json) -> Json:
    """Return an answer that is a Message as a completed task without an id."""
    status = {"state": "TASK_STATE_COMPLETED", "message": message}
    task = {"id": message.get("taskId", ""), "contextId": message.get("contextId", "")}
    return {**task, "status": status, "history": [message]}
