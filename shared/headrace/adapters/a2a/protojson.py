"""Conversion between the official SDK's messages and the JSON of task logs."""

from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message

from headrace.model import parts
from headrace.model.events import Json
from headrace.model.relayed import hinted
from headrace.model.whole_numbers import whole
from headrace.sdk.context import RunContext
from headrace.sdk.emit import Artifact, Outcome, RelayedMessage


def json_of(message: Message) -> Json:
    """Return the message as ProtoJSON, with the whole floats of a Struct as integers."""
    plain: Json = whole(MessageToDict(message))
    return plain


def parsed[T: Message](body: Json, into: T) -> T:
    """Fill `into` from `body` and return it; unknown fields are ignored.

    Raises:
        ParseError: `body` does not match the type of `into`.
    """
    ParseDict(body, into, ignore_unknown_fields=True)
    return into


def artifact_of(update: Json) -> Artifact:
    """Return the chunk that an ``artifactUpdate`` contains."""
    artifact = update.get("artifact", {})
    return Artifact(
        id=artifact.get("artifactId", ""),
        parts=artifact.get("parts", []),
        name=artifact.get("name", ""),
        description=artifact.get("description", ""),
        metadata=artifact.get("metadata", {}),
        extensions=artifact.get("extensions", []),
        append=update.get("append", False),
        last_chunk=update.get("lastChunk", False),
    )


def message_of(status: Json, metadata: Json) -> RelayedMessage | None:
    """Return what a WORKING status adds to the log, or None if it adds nothing."""
    message = status.get("message", {})
    if not message.get("parts") and not metadata:
        return None
    return RelayedMessage(message.get("parts", []), message.get("messageId", ""), metadata)


def outcome_of(status: Json, metadata: Json) -> Outcome:
    """Return the outcome of a run whose last status is `status`."""
    message = status.get("message", {})
    return Outcome(
        state=status.get("state", ""),
        parts=message.get("parts", []),
        metadata=metadata,
        message_metadata=message.get("metadata", {}),
        message_id=message.get("messageId", ""),
    )


def prompt_of(ctx: RunContext, message: Json) -> Json:
    """Return the message with which an agent asks for credentials, as the run asks its own user."""
    content = [hinted(part, parts.TASK) for part in message.get("parts", [])]
    name = message.get("messageId") or ctx.new_id("message")
    return {**message, "messageId": name, "role": "ROLE_AGENT", "parts": content}
