"""Content of messages: from OpenAI's parts to AG-UI's, which agents read."""

import re
from collections.abc import Callable

from headrace.model.events import Json
from headrace.model.file_links import LINKS_ARE_OURS, is_link
from headrace_gateway.protocols.openai.errors import RequestInvalid
from headrace_gateway.protocols.openai.fields import object_in, objects_in, text_in

_DATA = re.compile(r"data:(?P<type>[^;,]*)(?:;[^;,]*)*?;base64,(?P<data>.*)", re.DOTALL)
_KINDS = frozenset({"image", "audio", "video"})


def content_in(holder: Json, name: str, path: str) -> str | list[Json]:
    """Return the content of a message in AG-UI's form: a text, or a list of parts.

    Raises:
        RequestInvalid: it is neither, or a part is invalid.
    """
    value = holder.get(name)
    if value is None or isinstance(value, str):
        return value or ""
    if not isinstance(value, list):
        raise RequestInvalid(f"{path}{name}", "must be a string or a list of parts")
    found = enumerate(objects_in(holder, name, path))
    return [_part(part, f"{path}{name}[{at}].") for at, part in found]


def text_of(content: str | list[Json]) -> str:
    """Return the texts of AG-UI content, for roles that have nothing else."""
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if part["type"] == "text")


def _part(part: Json, path: str) -> Json:
    kind = text_in(part, "type", path)
    if (read := _PARTS.get(kind)) is None:
        raise RequestInvalid(f"{path}type", f"must be one of {', '.join(_PARTS)}")
    return read(part, path)


def _text(part: Json, path: str) -> Json:
    return {"type": "text", "text": text_in(part, "text", path)}


def _refusal(part: Json, path: str) -> Json:
    return {"type": "text", "text": text_in(part, "refusal", path)}


def _image(part: Json, path: str) -> Json:
    stated = part.get("image_url")
    if isinstance(stated, dict):  # as in chat completions
        path, part = f"{path}image_url.", {"image_url": stated.get("url")} | stated
        return _source(text_in(stated, "url", path), f"{path}url", "image")
    _check_no_file_id(part, path)
    return _source(text_in(part, "image_url", path), f"{path}image_url", "image")


def _audio(part: Json, path: str) -> Json:
    audio = object_in(part, "input_audio", path)
    path += "input_audio."
    media_type = f"audio/{text_in(audio, 'format', path, 'wav')}"
    source = {"type": "data", "value": text_in(audio, "data", path), "mimeType": media_type}
    return {"type": "audio", "source": source}


def _file(part: Json, path: str) -> Json:
    if "file" in part:  # as in chat completions
        part, path = object_in(part, "file", path), f"{path}file."
    _check_no_file_id(part, path)
    name = text_in(part, "filename", path, "")
    if part.get("file_url") is not None:
        found = _source(text_in(part, "file_url", path), f"{path}file_url", "document")
    else:
        found = _source(text_in(part, "file_data", path), f"{path}file_data", "document")
    return {**found, "metadata": {"filename": name}} if name else found


def _check_no_file_id(part: Json, path: str) -> None:
    if part.get("file_id") is not None:
        rule = "can't be used: the fleet has no uploaded files; send the content or a URL"
        raise RequestInvalid(f"{path}file_id", rule)


def _source(value: str, path: str, kind: str) -> Json:
    """Return the media part for a URL, which may contain the file, or for its base64."""
    if is_link(value):
        raise RequestInvalid(path, LINKS_ARE_OURS)
    if value.startswith("data:"):
        if (data := _DATA.fullmatch(value)) is None:
            raise RequestInvalid(path, "must be a data URL with base64, or another URL")
        stated = data["type"].partition("/")[0]
        kind = stated if stated in _KINDS else kind
        source = {"type": "data", "value": data["data"], "mimeType": data["type"]}
        return {"type": kind, "source": source}
    if "://" in value[:20]:
        return {"type": kind, "source": {"type": "url", "value": value}}
    return {"type": kind, "source": {"type": "data", "value": value, "mimeType": ""}}


_PARTS: dict[str, Callable[[Json, str], Json]] = {
    "input_text": _text,
    "output_text": _text,
    "text": _text,
    "refusal": _refusal,
    "input_image": _image,
    "image_url": _image,
    "input_audio": _audio,
    "input_file": _file,
    "file": _file,
}
