"""The examples of docs/testing-agents.md, run as the one file that a reader makes of them."""

import os
import subprocess
import sys
from pathlib import Path

from tests.architecture.tree import ROOT
from tests.support.document import blocks


def test_every_example_passes(tmp_path: Path) -> None:
    shown = [block.code for block in blocks(ROOT / "docs" / "testing-agents.md", "python")]
    (tmp_path / "test_page.py").write_text("\n\n".join(shown))
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    plugins = ("-p", "pytest_asyncio.plugin", "-p", "headrace.pytest_plugin")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    count = sum(block.count("async def test_") for block in shown)
    assert count == 8
    assert f"{count} passed" in done.stdout, done.stdout
