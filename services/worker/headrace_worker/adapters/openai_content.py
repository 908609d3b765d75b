"""What a user says, as content for models of OpenAI's APIs: one walk, a set of pieces for each."""

from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import orjson

from headrace.model import parts
from headrace.model.events import Json

_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
"""Media types of the audio that these models take, with the APIs' names for them."""
_PDF = "application/pdf"

TAKES = ("text/*", "application/json", "image/*", *_AUDIO, _PDF)
"""Media types of which these models are given the content."""


@dataclass(frozen=True, slots=True)
class ContentNames:
    """What one of the APIs calls its pieces of content."""

    text: Callable[[str], Json]
    image: Callable[[str], Json]
    """Of an image's address, which may be a data URL."""
    pdf: Callable[[str, str], Json]
    """Of a file's name and its data URL."""


def content_of(said: Sequence[Json], pieces: ContentNames) -> str | list[Json]:
    """Return A2A Parts as the content of a message: text if that is all there is."""
    if all("text" in part for part in said):
        return parts.text_of(said)
    return [_piece(part, pieces) for part in said]


def _mention(part: Json) -> str:
    """Return the words that stand for a file which the model is not given."""
    said = part.get("filename") or part.get("url") or part.get("mediaType") or "unnamed"
    return f"[file {said}]"


def _piece(part: Json, pieces: ContentNames) -> Json:
    if "text" in part:
        return pieces.text(part["text"])
    if "data" in part:
        return pieces.text(orjson.dumps(part["data"]).decode())
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
