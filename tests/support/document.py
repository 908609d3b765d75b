"""The fenced blocks of a document, for tests that run what it shows."""

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.architecture.tree import ROOT

_FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_OUTPUT = "text"

TUTORIAL = sorted((ROOT / "docs" / "tutorial").glob("*.md"))
"""The pages of the tutorial, in their order."""


class Block(NamedTuple):
    """One fenced block."""

    language: str
    title: str
    """The file that it is; empty if it has no title."""
    code: str


def blocks(page: Path, *languages: str) -> list[Block]:
    """Return the blocks of a document in their order, those in `languages` if any are given."""
    found = [Block(*match) for match in _FENCE.findall(page.read_text())]
    return [block for block in found if not languages or block.language in languages]


def shown(page: Path, words: str) -> str:
    """Return the only Python block of a document with `words`."""
    [code] = [block.code for block in blocks(page, "python") if words in block.code]
    return code


def examples(page: Path, language: str) -> list[tuple[str, str]]:
    """Return each block in `language` that is followed by its output, and that output."""
    return [
        (block.code, output.code)
        for block, output in pairwise(blocks(page))
        if (block.language, output.language) == (language, _OUTPUT)
    ]


def pytest_in(folder: Path) -> str:
    """Return what ``python -m pytest -q`` writes in a folder with files of a document.

    Options of the outer pytest do not apply: they could change the line of the result.
    """
    plugins = ("-p", "pytest_asyncio.plugin", "-p", "headrace.pytest_plugin")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins],
        cwd=folder,
        env={**os.environ, "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    ).stdout
