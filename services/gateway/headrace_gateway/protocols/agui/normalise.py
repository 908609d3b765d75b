"""Run inputs of every age, made what the protocol's models take.

The specification has receivers strip what they do not know, and warn; the models refuse it.
"""

from typing import Any

from headrace.model.events import Json
from headrace_gateway.coded_errors import InputInvalid

_ROLES = frozenset({"developer", "system", "assistant", "user", "tool", "activity", "reasoning"})
_MEDIA = frozenset({"image", "audio", "video", "document"})
_SOURCES = frozenset({"data", "url", "file"})
_LEGACY_SOURCES = {"data": "data", "url": "url", "id": "file"}


def normalised(body: Json) -> tuple[Json, list[str]]:
    """Return `body` without messages and parts that nobody knows, and the paths of these.

    What is malformed, not unknown, stays for the models to refuse.

    Raises:
        InputInvalid: nothing is left of messages, or of a message's content, that were there.
    """
    messages = body.get("messages")
    if not isinstance(messages, list):
        return body, []
    stripped: list[str] = []
    kept = [_message(m, f"messages.{at}", stripped) for at, m in enumerate(messages)]
    known = [message for message in kept if message is not None]
    if messages and not known:
        raise InputInvalid(f"messages: AG-UI knows none of their roles: {', '.join(stripped)}")
    return {**body, "messages": known}, stripped


def _message(message: Any, path: str, stripped: list[str]) -> Any:  # noqa: ANN401 - any JSON
    """Return the message as the models take it; None: it is of a role that nobody knows."""
    if not isinstance(message, dict):
        return message
    role = message.get("role")
    if isinstance(role, str) and role not in _ROLES:
        stripped.append(f"{path} (role {role})")
        return None
    content = message.get("content")
    if not isinstance(content, list):
        return message
    kept = [_part(part, f"{path}.content.{at}", stripped) for at, part in enumerate(content)]
    known = [part for part in kept if part is not None]
    if not known:
        raise InputInvalid(f"{path}.content: must have a part that AG-UI knows")
    return {**message, "content": known}


def _part(part: Any, path: str, stripped: list[str]) -> Any:  # noqa: ANN401 - any JSON
    if not isinstance(part, dict) or not isinstance(kind := part.get("type"), str):
        return part
    if kind == "binary":
        return _modern(part)
    source = part.get("source")
    known = kind == "text" or (kind in _MEDIA and _is_known_source(source))
    if not known:
        stripped.append(f"{path} (part {kind})")
        return None
    return part


def _is_known_source(source: Any) -> bool:  # noqa: ANN401 - any JSON
    """Tell whether the source's kind is known, or is not even said."""
    kind = source.get("type") if isinstance(source, dict) else None
    return not isinstance(kind, str) or kind in _SOURCES


def _modern(part: Json) -> Json:
    """Return a 0.x ``binary`` part as the media part that took its place."""
    media_type = part.get("mimeType")
    kind = str(media_type).partition("/")[0]
    field = next((name for name in ("data", "url", "id") if part.get(name)), "data")
    source = {"type": _LEGACY_SOURCES[field], "value": part.get(field), "mimeType": media_type}
    named = {"metadata": {"filename": part["filename"]}} if part.get("filename") else {}
    return {"type": kind if kind in _MEDIA else "document", "source": source, **named}
