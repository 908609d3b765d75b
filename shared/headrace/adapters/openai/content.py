"""Conversion of a user's message into content for models of OpenAI's APIs."""

from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.model import json_text, parts
from headrace.model.events import Json

_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
"""Audio media types that these models accept, with the APIs' names for them."""
_PDF = "application/pdf"

TAKES = ("text/*", "application/json", "image/*", *_AUDIO, _PDF)
"""Media types whose content is passed to these models."""


@dataclass(frozen=True, slots=True)
class ContentNames:
    """One API's constructors for pieces of content."""

    text: Callable[[str], Json]
    image: Callable[[str], Json]
    """Makes a piece from an image's URL, which may be a data URL."""
    pdf: Callable[[str, str], Json]
    """Makes a piece from a PDF file's name and its data URL."""


def content_of(content: Sequence[Json], pieces: ContentNames) -> str | list[Json]:
    """Return A2A Parts as a message's content: a string if all parts are text."""
    if all("text" in part for part in content):
        return parts.text_of(content)
    return [_piece(part, pieces) for part in content]


def without_image_urls(content: Sequence[Json]) -> list[Json]:
    """Return A2A Parts with a text in place of each image that is only linked.

    An endpoint would fetch the user's URL from where it runs: the fleet's own network, perhaps.
    """
    return [{"text": _mention(part)} if _is_linked_image(part) else part for part in content]


def _is_linked_image(part: Json) -> bool:
    url = str(part.get("url", ""))
    is_image = str(part.get("mediaType", "")).startswith("image/")
    return is_image and not part.get("raw") and not url.lower().startswith("data:")


def _mention(part: Json) -> str:
    """Return the text that replaces a file whose content the model does not get."""
    name = part.get("filename") or part.get("url") or part.get("mediaType") or "unnamed"
    return f"[file {name}]"


def _piece(part: Json, pieces: ContentNames) -> Json:
    if "text" in part:
        return pieces.text(part["text"])
    if "data" in part:
        return pieces.text(json_text.text(part["data"]))
    return _file(part, pieces)


def _file(part: Json, pieces: ContentNames) -> Json:
    media, raw = part.get("mediaType", ""), part.get("raw", "")
    inline = f"data:{media};base64,{raw}"
    if media.startswith("image/"):
        return pieces.image(inline if raw else part.get("url", ""))
    if raw and media in _AUDIO:
        return {"type": "input_audio", "input_audio": {"data": raw, "format": _AUDIO[media]}}
    if raw and media == _PDF:
        return pieces.pdf(part.get("filename") or "file.pdf", inline)
    if raw and media.startswith("text/"):
        return pieces.text(b64decode(raw).decode(errors="replace"))
    return pieces.text(_mention(part))
