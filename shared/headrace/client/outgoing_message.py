"""A message on its way to an agent."""

import asyncio
import mimetypes
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from headrace.client.gateways import Request
from headrace.client.paths import agent_path
from headrace.model.events import START_AT, Json
from headrace.model.parts import file_part, link_part
from headrace.model.user_message import MessageContent, answer_parts, user_message
from headrace.sdk.emit import File

type Attachment = File | Path
"""A file with its content or URL, or the path of one to read."""


async def attached_parts(files: Sequence[Attachment]) -> list[Json]:
    """Return one A2A Part per file.

    Raises:
        OSError: a file can't be read.
    """
    return [_part(one if isinstance(one, File) else await _read(one)) for one in files]


async def _read(path: Path) -> File:
    media_type, _ = mimetypes.guess_type(path.name)
    content = await asyncio.to_thread(path.read_bytes)
    name = os.fsencode(path.name).decode(errors="replace")
    return File(name, content, media_type or "application/octet-stream")


def _part(file: File) -> Json:
    if file.url:
        return link_part(file.url, file.name, file.media_type)
    return file_part(file.content or b"", file.name, file.media_type)


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """What `Client.send` and `Client.stream` are given; sent twice, it is taken once."""

    agent: str | None
    message: MessageContent
    task: str | None
    context: str | None
    files: Sequence[Attachment]
    answers: Mapping[str, Any] | None
    start_at: datetime | str | None = None
    key: str = field(default_factory=lambda: str(uuid.uuid4()))
    """The Idempotency-Key, and the message's id: sent again, the whole request is the same."""
    is_waiting: bool = True
    """Whether the answer to ``send`` waits for the run."""

    async def request(self, operation: str) -> Request:
        """Return the request of `operation`, ``send`` or ``stream``.

        Raises:
            OSError: a file can't be read.
        """
        path = f"{agent_path(self.agent)}/message:{operation}"
        body: Json = {"message": await self.content()}
        if self.start_at is not None:
            at = self.start_at
            body["metadata"] = {START_AT: at.isoformat() if isinstance(at, datetime) else at}
        if not self.is_waiting:
            body["configuration"] = {"returnImmediately": True}
        return Request("POST", path, body, {"Idempotency-Key": self.key})

    async def content(self) -> Json:
        """Return the A2A Message.

        Raises:
            OSError: a file can't be read.
        """
        attached = [*answer_parts(self.answers or {}), *await attached_parts(self.files)]
        content: MessageContent = [] if attached and self.message == "" else self.message
        return user_message(content, attached, self.key, taskId=self.task, contextId=self.context)
