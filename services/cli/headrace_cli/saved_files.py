"""Files of results, saved in a folder."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from headrace.model.task_report import ResultFile
from headrace_cli.tables import one_line

_LONGEST_NAME = 200
"""Bytes; file systems take 255, and a number may be added."""


async def save_files(files: Iterable[ResultFile], folder: Path) -> list[Path]:
    """Save `files` in `folder`, under their own names as far as they are names; return the paths.

    Names that are too long are cut. Existing files are never overwritten: a number is added to the
    name.

    Raises:
        OSError: a file can't be written.
    """
    return [
        await asyncio.to_thread(_save, file.name, file.content, folder)
        for file in files
        if file.content is not None
    ]


def _save(name: str, content: bytes, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    # The name comes from an agent: it must not lead out of the folder, or hide.
    plain = Path(one_line(name).replace("\\", "/").replace("\0", "")).name.lstrip(".") or "file"
    for path in _free(folder, _cut(Path(plain))):
        try:
            with path.open("xb") as file:
                file.write(content)
        except FileExistsError:
            continue
        return path
    raise AssertionError("there is always another number")


def _cut(name: Path) -> Path:
    suffix = name.suffix.encode()
    if len(suffix) > _LONGEST_NAME // 2:
        suffix = b""
    stem = name.name.encode().removesuffix(suffix)[: _LONGEST_NAME - len(suffix)]
    return Path(stem.decode(errors="ignore") + suffix.decode())


def _free(folder: Path, name: Path) -> Iterable[Path]:
    yield folder / name
    number = 1
    while True:
        yield folder / f"{name.stem}-{number}{name.suffix}"
        number += 1
