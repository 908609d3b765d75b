"""A message on its way to an agent."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.client.attachments import Attachment, attached_parts
from headrace.client.gateways import Request
from headrace.client.paths import agent_path
from headrace.model.events import Json
from headrace.model.user_message import MessageContent, answer_parts, user_message


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """What `Client.send` and `Client.stream` are given; sent twice, it is taken once."""

    agent: str | None
    message: MessageContent
    task: str | None
    context: str | None
    files: Sequence[Attachment]
    answers: Mapping[str, Any] | None
    key: str = field(default_factory=lambda: str(uuid.uuid4()))
    """The Idempotency-Key."""

    async def request(self, operation: str) -> Request:
        """Return the request of `operation`, ``send`` or ``stream``.

        Raises:
            OSError: a file can't be read.
        """
        path = f"{agent_path(self.agent)}/message:{operation}"
        return Request(
            "POST", path, {"message": await self.content()}, {"Idempotency-Key": self.key}
        )

    async def content(self) -> Json:
        """Return the A2A Message.

        Raises:
            OSError: a file can't be read.
        """
        attached = [*answer_parts(self.answers or {}), *await attached_parts(self.files)]
        content: MessageContent = [] if attached and self.message == "" else self.message
        return user_message(content, attached, taskId=self.task, contextId=self.context)
