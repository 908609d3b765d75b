"""Files that callers attach to a message, and files in results."""

import asyncio
import mimetypes
import os
from collections.abc import Sequence
from pathlib import Path

from headrace.model.events import Json
from headrace.model.parts import file_part, link_part
from headrace.sdk.emit import File

type Attachment = File | Path
"""A file with its content or URL, or the path of one to read."""


async def attached_parts(files: Sequence[Attachment]) -> list[Json]:
    """Return one A2A Part per file.

    Raises:
        OSError: a file can't be read.
    """
    return [_part(one if isinstance(one, File) else await _read(one)) for one in files]


async def _read(path: Path) -> File:
    media_type, _ = mimetypes.guess_type(path.name)
    content = await asyncio.to_thread(path.read_bytes)
    name = os.fsencode(path.name).decode(errors="replace")
    return File(name, content, media_type or "application/octet-stream")


def _part(file: File) -> Json:
    if file.url:
        return link_part(file.url, file.name, file.media_type)
    return file_part(file.content or b"", file.name, file.media_type)
