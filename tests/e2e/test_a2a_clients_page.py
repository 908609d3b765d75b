"""The programs of the page on A2A's official clients print what it states."""

import asyncio
import subprocess
import sys
from pathlib import Path

from tests.architecture.tree import ROOT
from tests.support import javascript
from tests.support.document import examples
from tests.support.fleet import Fleet

_PAGE = ROOT / "docs" / "a2a-clients.md"
_TIMEOUT = 120


def printed(language: str, program: str, file: Path, gateway: str) -> tuple[str, str]:
    """Return what the page's program in a language prints, and what the page says that it does."""
    [(code, stated)] = examples(_PAGE, language)
    file.write_text(code.replace("http://127.0.0.1:8080", gateway))
    command = [program, str(file)]
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=_TIMEOUT)
    assert done.returncode == 0, done.stderr
    return done.stdout, stated


async def test_the_program_in_python_streams_an_answer(fleet: Fleet, tmp_path: Path) -> None:
    file, gateway = tmp_path / "count.py", fleet.gateways[0]
    output, stated = await asyncio.to_thread(printed, "python", sys.executable, file, gateway)
    assert output == stated.rstrip("\n") == "1 2 3 "


async def test_the_program_in_javascript_streams_an_answer(fleet: Fleet, tmp_path: Path) -> None:
    javascript.install(javascript.FOLDER)
    (tmp_path / "node_modules").symlink_to(javascript.FOLDER / "node_modules")
    file, node = tmp_path / "count.mjs", javascript.program("node")
    output, stated = await asyncio.to_thread(printed, "js", node, file, fleet.gateways[0])
    assert output == stated == "1 2 3 \n"
