"""What a user says, between AG-UI's content and A2A's parts, there and back."""

from typing import Any

from headrace.events import Json

TYPE = "agui_part_type"
"""Metadata key of a part that was AG-UI media: ``image``, ``audio``, ``video`` or ``document``."""
PART = "agui_part"
"""Metadata key beside `TYPE`: what the AG-UI part had besides (its id and metadata)."""

_KINDS = ("image", "audio", "video")


def to_parts(content: Any) -> list[Json]:  # noqa: ANN401 - a string or a list of parts
    """Return A2A parts of an AG-UI user message's content; at least one."""
    if isinstance(content, str):
        return [{"text": content}]
    return [_to_part(part) for part in content] or [{"text": ""}]


def from_parts(parts: list[Json]) -> str | list[Json]:
    """Return AG-UI content of A2A parts; what AG-UI has no part for is left out."""
    if len(parts) == 1 and parts[0].keys() == {"text"}:
        return str(parts[0]["text"])
    return [converted for part in parts if (converted := _from_part(part))]


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
            # A file that the client left with a provider: only an agent of that provider's knows.
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
