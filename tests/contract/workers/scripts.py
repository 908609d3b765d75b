"""What the tests have a repeater do, and how they read what it did."""

import secrets
from typing import Any

from headrace.model import events
from headrace.model.entry import Entry
from headrace.model.events import Json


def script(*begin: Json, resume: list[Json] | None = None) -> Json:
    """Return a message that has the repeater do `begin`, or `resume` if it finds a checkpoint."""
    steps = {"begin": list(begin), "resume": resume or []}
    return {
        "messageId": f"msg-{secrets.token_hex(4)}",
        "role": "ROLE_USER",
        "parts": [{"data": steps}],
    }


def attempts(entries: list[Entry]) -> list[int]:
    """Return the attempts that WORKING announces, in order."""
    received = [metadata(event).get(events.ATTEMPT) for entry in entries for event in entry.events]
    return [attempt for attempt in received if attempt is not None]


def metadata(event: Json) -> Json:
    """Return an event's metadata."""
    [body] = event.values()
    found: Json = body.get("metadata", {})
    return found


def statuses(entries: list[Entry]) -> list[Json]:
    """Return the statuses of all status updates, in order."""
    every = [event for entry in entries for event in entry.events]
    return [event["statusUpdate"]["status"] for event in every if "statusUpdate" in event]


def said_parts(entries: list[Entry]) -> list[Json]:
    """Return every part that the agent said, of messages and artifacts, in order."""
    every = [event for entry in entries for event in entry.events]
    found: list[Json] = []
    for event in every:
        update = event.get("statusUpdate", {}).get("status", {}).get("message", {})
        artifact = event.get("artifactUpdate", {}).get("artifact", {})
        if update.get("role") != "ROLE_USER":
            found += update.get("parts", [])
        found += artifact.get("parts", [])
    return found


def texts(task: Json) -> list[str]:
    """Return the text of each artifact of a folded task."""
    return ["".join(part.get("text", "") for part in a["parts"]) for a in task["artifacts"]]


def shape(value: Any) -> Any:  # noqa: ANN401  # JSON in, JSON out
    """Return `value` with every minted id replaced by its kind, so that languages compare."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value]
    if isinstance(value, str) and value.startswith(("block-", "think-", "message-", "file-")):
        return value.partition("-")[0]
    return value
