"""Convert a user's content between AG-UI messages and A2A parts."""

from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from headrace.model.events import AGUI, Json

TYPE = "agui_part_type"
"""Metadata key of a part that was AG-UI media: ``image``, ``audio``, ``video`` or ``document``."""
PART = "agui_part"
"""Metadata key together with `TYPE`: the AG-UI part's other fields (its id and metadata)."""

_KINDS = ("image", "audio", "video")


def to_parts(content: Any) -> list[Json]:  # noqa: ANN401 - a string or a list of parts
    """Return an AG-UI user message's content as A2A parts, at least one."""
    if isinstance(content, str):
        return [{"text": content}]
    return [_to_part(part) for part in content] or [{"text": ""}]


def from_parts(parts: list[Json]) -> str | list[Json]:
    """Return A2A parts as AG-UI content, without parts that AG-UI has no type for."""
    if len(parts) == 1 and parts[0].keys() == {"text"}:
        return str(parts[0]["text"])
    return [converted for part in parts if (converted := _from_part(part))]


async def with_links(
    metadata: Json | None,
    room: int,
    put: Callable[[bytes, str], Awaitable[str]],
    link_of: Callable[[object], Awaitable[str | None]],
) -> Json | None:
    """Return an input's metadata with the files of its AG-UI messages replaced by links.

    Files of at most `room` bytes together stay inline. `put` stores a file, given its content and
    media type, and returns its link. `link_of` returns the link for a stored file's URL.

    Raises:
        Exception: whatever `put` or `link_of` raises.
    """
    links: dict[int, str] = {}
    for source in _sources(metadata):
        if source.get("type") == "url" and (link := await link_of(source.get("value"))):
            links[id(source)] = link
        if source.get("type") != "data" or not isinstance(value := source.get("value"), str):
            continue
        # Base64 takes four characters for three bytes.
        size = len(value) * 3 // 4
        if size <= room:
            room -= size
        elif (content := _decoded(value)) is not None:
            links[id(source)] = await put(content, source.get("mimeType") or "")
    if metadata is None or not links:
        return metadata
    sent = metadata[AGUI]
    return {**metadata, AGUI: {**sent, "messages": [_linked(m, links) for m in sent["messages"]]}}


def stored_sources(metadata: Json) -> Iterator[Json]:
    """Yield the sources in an input's AG-UI messages whose ``value`` links to a stored file."""
    return (source for source in _sources(metadata) if source.get("type") == "url")


def _sources(metadata: Json | None) -> Iterator[Json]:
    sent = (metadata or {}).get(AGUI)
    messages = sent.get("messages") if isinstance(sent, dict) else None
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else ():
            source = part.get("source") if isinstance(part, dict) else None
            if isinstance(source, dict):
                yield source


def _decoded(value: str) -> bytes | None:
    """Return the content; None: it is not base64, and stays as the client sent it."""
    try:
        return b64decode(value)
    except ValueError:
        return None


def _linked(message: Json, links: Mapping[int, str]) -> Json:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    blocks = [
        {**part, "source": {**part["source"], "type": "url", "value": links[id(part["source"])]}}
        if id(part.get("source")) in links
        else part
        for part in content
    ]
    return {**message, "content": blocks}


def _to_part(part: Json) -> Json:
    rest = {key: part[key] for key in ("id", "metadata") if part.get(key) is not None}
    if part["type"] == "text":
        return {"text": part["text"], "metadata": {PART: rest}}
    metadata = {TYPE: part["type"], PART: rest}
    return {**_from_source(part["source"]), "metadata": metadata}


def _from_source(source: Json) -> Json:
    media_type = {"mediaType": source["mimeType"]} if source.get("mimeType") else {}
    match source["type"]:
        case "data":
            return {"raw": source["value"], **media_type}
        case "url":
            return {"url": source["value"], **media_type}
        case _:
            # A file stored with a provider: only agents that use this provider can read it.
            return {"data": source}


def _from_part(part: Json) -> Json | None:
    metadata = part.get("metadata") or {}
    rest = metadata.get(PART, {})
    if "text" in part:
        return {"type": "text", "text": part["text"], **rest}
    source = _to_source(part, known=TYPE in metadata)
    if source is None:
        return None
    return {"type": metadata.get(TYPE) or _kind(part), "source": source, **rest}


def _to_source(part: Json, *, known: bool) -> Json | None:
    media_type = {"mimeType": part["mediaType"]} if part.get("mediaType") else {}
    if "raw" in part:
        return {"type": "data", "value": part["raw"], "mimeType": "", **media_type}
    if "url" in part:
        return {"type": "url", "value": part["url"], **media_type}
    return part["data"] if known else None


def _kind(part: Json) -> str:
    kind = str(part.get("mediaType", "")).partition("/")[0]
    return kind if kind in _KINDS else "document"
