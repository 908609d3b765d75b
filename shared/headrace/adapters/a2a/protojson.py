"""Conversion between the official SDK's messages and the JSON of task logs."""

from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message

from headrace.model.events import Json
from headrace.sdk.emit import Artifact, Outcome, RelayedMessage


def json_of(message: Message) -> Json:
    """Return the message as ProtoJSON, with the whole floats of a Struct as integers."""
    plain: Json = _with_integers(MessageToDict(message))
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


def _with_integers(value: Any) -> Any:  # noqa: ANN401  # any JSON
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _with_integers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_integers(inner) for inner in value]
    return value
