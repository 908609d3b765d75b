"""The agents for A2A's compatibility kit; the message id selects what they do.

``make tck TCK=path`` runs the kit against them (docs/conformance.md). `plain` is the same agent
with a card that offers only the minimum, `demanding` one whose card requires an extension.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from headrace import (
    Artifact,
    Card,
    Complete,
    Data,
    Emission,
    File,
    InputRequired,
    Message,
    Reject,
    RunContext,
    Status,
    agent,
)

EXTENSION = "urn:a2a:tck:required-extension"

LONG = 4.0
"""Seconds: twice the time that the kit waits for an event before it subscribes again."""


async def conform(ctx: RunContext) -> AsyncIterator[Emission]:
    """Emit what the kit's scenario with that message id expects."""
    message_id = ctx.message["messageId"]
    if message_id.startswith("test-resubscribe-message-id"):
        await ctx.emit(Status("working"))
        await asyncio.sleep(LONG)
        return
    for prefix, emissions in SCENARIOS.items():
        if message_id.startswith(prefix):
            for emission in emissions:
                yield emission
            return


def text(id_: str, words: str, **more: Any) -> Artifact:  # noqa: ANN401 - an Artifact's own
    """Return a text artifact."""
    return Artifact(id_, [{"text": words}], **more)


OUTPUT = "output.txt"

SCENARIOS: dict[str, list[Emission]] = {
    "tck-complete-task": [Complete("Hello from TCK")],
    "tck-artifact-text": [text("text", "Generated text content")],
    "tck-artifact-file-url": [
        File(OUTPUT, url="https://example.com/output.txt", media_type="text/plain")
    ],
    "tck-artifact-file": [File(OUTPUT, b"tck", "text/plain")],
    "tck-artifact-data": [Data({"key": "value", "count": 42})],
    "tck-message-response": [Message("Direct message response")],
    "tck-input-required": [InputRequired("What next?")],
    "tck-reject-task": [Reject("rejected")],
    "tck-stream-001": [text("text", "Stream hello from TCK")],
    "tck-stream-003": [text("text", "Stream task lifecycle")],
    "tck-stream-ordering-001": [text("text", "Ordered output")],
    "tck-stream-artifact-text": [text("text", "Streamed text content")],
    "tck-stream-artifact-file": [File(OUTPUT, b"tck", "text/plain")],
    "tck-stream-artifact-chunked": [
        text("chunks", "chunk-1 "),
        text("chunks", "chunk-2", append=True, last_chunk=True),
    ],
}
"""Emissions by prefix of the message id; for any other id, the task just completes."""

agents = agent(name="conformance", bare_message=True)(conform)
plain = agent(
    name="conformance", bare_message=True, card=Card(streaming=False, push_notifications=False)
)(conform)
demanding = agent(
    name="conformance",
    bare_message=True,
    card=Card(
        extensions=[{"uri": EXTENSION, "description": "The kit asks for it.", "required": True}]
    ),
)(conform)


async def converse(ctx: RunContext) -> AsyncIterator[Emission]:
    """Repeat the message and ask for the next: the kit for A2A 0.3 needs tasks that stay open."""
    yield f"You said: {ctx.prompt}"
    yield InputRequired("What next?")


conversing = agent(name="conformance", card=Card(input_modes=["*/*"]))(converse)
