"""Validation of the messages that agents send to other agents."""

import re
from typing import Any

_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_CONTENT = ("text", "raw", "url", "data")
_TEXTS = ("text", "raw", "url", "filename", "mediaType")
_LISTS = ("extensions", "referenceTaskIds")


def why_no_message(message: dict[str, Any]) -> str | None:
    """Return why `message` is not an A2A v1.0 Message with parts. None: it is valid."""
    parts = message.get("parts")
    if not isinstance(parts, list) or not parts:
        return "a message must be text or have parts"
    for number, part in enumerate(parts):
        if (why := _why_no_part(part)) is not None:
            return f"parts[{number}] {why}"
    if not isinstance(message.get("messageId", ""), str):
        return "messageId must be a string"
    if not isinstance(message.get("metadata", {}), dict):
        return "metadata must be an object"
    for name in _LISTS:
        found = message.get(name, [])
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            return f"{name} must be a list of strings"
    return None


def _why_no_part(part: object) -> str | None:
    if not isinstance(part, dict):
        return "must be an object"
    if sum(name in part for name in _CONTENT) != 1:
        return f"must have exactly one of {', '.join(_CONTENT)}"
    for name in _TEXTS:
        if not isinstance(part.get(name, ""), str):
            return f"{name} must be a string"
    raw = part.get("raw", "")
    if len(raw) % 4 or not _BASE64.fullmatch(raw):
        return "raw must be base64"
    if not isinstance(part.get("metadata", {}), dict):
        return "metadata must be an object"
    return None
