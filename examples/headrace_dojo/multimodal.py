"""Multimodal input: the files of a message, by type and size."""

from base64 import b64decode
from collections.abc import AsyncIterator

from headrace import Card, Emission, RunContext, agent
from headrace.model.events import Json
from headrace_dojo.pacing import paced


@agent(
    name="multimodal",
    description="Says what pictures, sounds, films and documents you sent.",
    card=Card(input_modes=["*/*"]),
)
async def multimodal(ctx: RunContext) -> AsyncIterator[Emission]:
    """Describe each part of the message."""
    lines = [f"{number}. {_described(part)}" for number, part in enumerate(ctx.parts, 1)]
    async for word in paced("\n".join(lines) or "There is nothing in your message."):
        yield word


def _described(part: Json) -> str:
    if "text" in part:
        return f"text of {len(part['text'].split())} words"
    media_type = part.get("mediaType") or "unknown type"
    if "url" in part:
        return f"{media_type} at {part['url']}"
    if "raw" in part:
        return f"{media_type} of {len(b64decode(part['raw']))} bytes"
    return "data"
