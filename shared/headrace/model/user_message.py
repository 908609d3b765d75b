"""A user's A2A Message, from what callers write: text, parts, or a message of their own."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headrace.model.events import Json
from headrace.model.parts import INTERRUPT_ID, RESUME_STATUS

type MessageContent = str | Json | Sequence[Json]
"""A message's text, an A2A Message, or A2A Parts."""


def user_message(
    content: MessageContent,
    attached: Iterable[Json] = (),
    message_id: str | None = None,
    **fields: str | None,
) -> Json:
    """Return the Message with the parts of `content` and those `attached`.

    Its id is that of `content` if that is a Message with one, else `message_id` or a new one.
    `fields` are added to it, such as ``taskId``; None leaves one out.
    """
    message: Json = {"messageId": message_id or str(uuid.uuid4()), "role": "ROLE_USER"}
    if isinstance(content, dict):
        message |= content
    else:
        message["parts"] = [{"text": content}] if isinstance(content, str) else list(content)
    message |= {name: value for name, value in fields.items() if value}
    return {**message, "parts": [*message["parts"], *attached]}


def answer_parts(answers: Mapping[str, Any]) -> list[Json]:
    """Return one part per answer to an interrupt, by the interrupt's id; None cancels it."""
    return [_answer(name, answer) for name, answer in answers.items()]


def _answer(interrupt: str, answer: Any) -> Json:  # noqa: ANN401  # any JSON
    status = "cancelled" if answer is None else "resolved"
    content = {"text": answer} if isinstance(answer, str) else {"data": answer}
    return {**content, "metadata": {INTERRUPT_ID: interrupt, RESUME_STATUS: status}}
